"""Side-by-side runs against peers: ratios in one run, not seconds on one machine."""
