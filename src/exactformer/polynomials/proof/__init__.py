"""From blueprint and target to certificate. Nothing here knows the constructions."""
