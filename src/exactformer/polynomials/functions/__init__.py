"""Continuous functions by polynomials: adaptive Chebyshev expansions, and their ridges."""
