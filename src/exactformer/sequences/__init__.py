"""Sequence-to-sequence maps by construction (Yun et al. 2020)."""
