"""Couplings of low rank as attention (Jiang & Li 2023)."""
