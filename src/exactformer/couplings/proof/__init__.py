"""Bounds of a coupling's model: approximation and rounding."""
