"""Every flow of the studio in a real browser."""
