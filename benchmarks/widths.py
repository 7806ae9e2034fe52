"""Tokens that a polynomial takes, next to lower bounds and known ranks.

    python -m benchmarks.widths

A token is a direction of a ridge form. Before: the narrower of the tailored and lattice families, which
look at monomials and degree alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from benchmarks.cases import F2, Case
from benchmarks.tables import write

NOTE = (
    "Tokens by default, before (the narrower of tailored and lattice directions), and at least: the "
    "largest rank of a catalecticant matrix, the number of essential variables, or the real Waring "
    "rank where it is known. Errors are certified ones over max|Q| in float64, on the unit ball."
)


def quadratic(d: int) -> dict[tuple[int, ...], int]:
    """Return a dense quadratic form with whole coefficients."""
    terms = {}
    for i, j in combinations(range(d + 1), 2):
        exponents = [0] * d
        exponents[i] += 1
        exponents[j - 1] += 1
        terms[tuple(exponents)] = (7 * i + 11 * j + i * j) % 19 - 9
    return terms


def symmetric(d: int, s: int) -> dict[tuple[int, ...], int]:
    """Return an elementary symmetric polynomial."""
    return {tuple(int(j in own) for j in range(d)): 1 for own in combinations(range(d), s)}


EXAMPLES: tuple[tuple[str, Any, int | None], ...] = (
    ("(x + y)^60", "(x + y)^60", 1),
    ("(a + 2b − 3c + d + 5e + f)^8", "(a + 2b - 3c + d + 5e + f)^8", 1),
    ("dense quadratic, 40 variables", quadratic(40), 40),
    ("x² + 3 x y", "x^2 + 3 x y", 2),
    ("three powers: degrees 5, 4, 3", "(x + 2y - z)^5 + (x - y)^4 + (3x + z)^3 + (x - y)^2 + x", 3),
    (
        "five fifth powers, 3 variables",
        "(x + 2y - z)^5 + (x - y)^5 + (3x + z)^5 + 2(x + y + z)^5 - (x - 2y + 3z)^5",
        5,
    ),
    ("x^20 + y^20 + (x + y)^20", "x^20 + y^20 + (x + y)^20", 3),
    ("vector: (ℓ₁⁴ + ℓ₂⁴, ℓ₂⁴ − ℓ₃⁴)", "(x + y + z)^4 + (x - 2y)^4; (x - 2y)^4 - (y + 3z)^4", 3),
    ("(x² + y²)³", "(x^2 + y^2)^3", 4),
    ("x y z", "x y z", 4),
    ("x³ y", "x^3 y", 4),
    ("x y z w", "x y z w", 8),
    ("third elementary symmetric, 6 variables", symmetric(6, 3), 7),
    ("f₂*", F2, None),
    ("dense (2, 20)", Case("dense 2 20").target, None),
    ("dense (4, 8)", Case("dense 4 8").target, None),
)
"""Name, polynomial, and the real Waring rank of it (of all its parts together) where it is known."""


def measure(name: str, polynomial: Any, rank: int | None) -> dict[str, Any]:
    """Return a row of the table."""
    from exactformer.algebra import Polynomial, Target
    from exactformer.algebra.ridge.lattice import lattice_width
    from exactformer.algebra.ridge.lower_bound import least_width
    from exactformer.algebra.ridge.tailored import tailored_ridges
    from exactformer.polynomials.compile import compile

    if isinstance(polynomial, dict):
        names = [f"x{j + 1}" for j in range(len(next(iter(polynomial))))]
        polynomial = Polynomial.from_terms(polynomial, names)
    target = Target.coerce(polynomial)
    lattice = lattice_width(target.dimension, target.degree)
    tailored = tailored_ridges(target.polynomials, lattice)
    certificate = compile(target).certificate
    least = rank or least_width(target.polynomials)
    return {
        "polynomial": name,
        "before": lattice if tailored is None else len(tailored[0]),
        "tokens": certificate.tokens,
        "at least": least,
        "": "optimal" if certificate.tokens == least else "",
        "error": f"{certificate.bound('float64', 'fused') / certificate.scale:.1e}",
    }


def run(quick: bool = False, examples: Sequence[tuple[str, Any, int | None]] = EXAMPLES) -> None:
    """Measure every example, print the table, and unless quick write it."""
    rows = [measure(*example) for example in (examples[:1] if quick else examples)]
    write("widths", "Tokens by polynomial", NOTE, rows, stored=not quick)


if __name__ == "__main__":
    run()
