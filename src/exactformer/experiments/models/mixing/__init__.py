"""Encoders whose tokens meet by attention or by something simpler (Yun et al., section 5)."""
