"""Exact polynomials, their text form, and ridge forms (Lemma 3.3)."""

from exactformer.algebra.polynomial import Polynomial

__all__ = ["Polynomial"]
