"""Polynomials with zero error, and continuous functions through them (Fang et al. 2022)."""
