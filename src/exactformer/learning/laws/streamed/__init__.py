"""Sparse laws of data larger than memory: passes over blocks of rows, sums in a fixed order."""
