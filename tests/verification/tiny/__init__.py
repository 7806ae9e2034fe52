"""Floating-point formats so small that every input and every order of summation can be tried."""
