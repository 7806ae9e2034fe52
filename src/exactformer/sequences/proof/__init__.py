"""From blueprint and table to certificate. Nothing here knows the constructions."""
