"""Jiang, Li 2023: Approximation rate of the Transformer architecture for sequence modeling."""
