"""Continuous functions by polynomials: adaptive Chebyshev expansions, and their ridges."""

from exactformer.approximation.curve import universality_curve

__all__ = ["universality_curve"]
