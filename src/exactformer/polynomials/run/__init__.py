"""Ways of running a blueprint: literal, in closed form, in monomials, by softmax, in rationals."""
