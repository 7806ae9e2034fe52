"""Dense laws: least squares over every term of a degree, and ridge directions."""
