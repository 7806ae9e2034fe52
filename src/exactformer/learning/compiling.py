"""A law as a certified transformer."""

from __future__ import annotations

from typing import Any

from exactformer.learning.laws import Law


def compile_law(law: Law, variables: list[str], radius: float, directions: str) -> Any:
    """Compile a law for ‖x‖ ≤ radius."""
    import exactformer
    from exactformer.algebra import Polynomial

    polynomial = Polynomial.from_terms(law.powers(), variables)
    return exactformer.compile(polynomial, radius=radius, directions=directions)
