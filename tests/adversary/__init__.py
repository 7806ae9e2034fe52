"""Differential searches for false certificates: what is certified is run and compared."""
