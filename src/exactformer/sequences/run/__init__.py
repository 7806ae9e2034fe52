"""Ways of running a sequence blueprint: fused, literal, in rationals."""
