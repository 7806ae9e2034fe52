"""Experiments beyond the papers."""
