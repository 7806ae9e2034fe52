"""Sparse laws: a search for the terms that are really there."""
