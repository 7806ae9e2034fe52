"""Exact polynomials, their text form, and ridge forms (Lemma 3.3)."""

from exactformer.algebra.polynomial import Polynomial
from exactformer.algebra.target import Target

__all__ = ["Polynomial", "Target"]
