"""Ways of running a blueprint, one file each."""
