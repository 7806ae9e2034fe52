"""Changes of the proofs for sequences and couplings that change no verdict, each with the reason."""

EQUIVALENT: dict[tuple[str, str, str], str] = {}
"""Reasons by file, function and change, as ``python -m tests.adversary.mutation`` prints them."""
