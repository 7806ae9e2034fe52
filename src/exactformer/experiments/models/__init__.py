"""Networks that only experiments need."""
