"""Choosing a family of directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from exactformer.algebra.polynomial import Polynomial
from exactformer.algebra.ridge.fewest import fewest_ridges
from exactformer.algebra.ridge.form import RidgeForm, Ridges, assemble
from exactformer.algebra.ridge.lattice import lattice_ridges, lattice_width
from exactformer.algebra.ridge.spread import spread_ridges
from exactformer.algebra.ridge.tailored import (
    MAX_POLARISATION,
    polarisation_cost,
    tailored_ridges,
)
from exactformer.errors import InputError, SizeError

MAX_WIDTH = 50_000

FAMILIES = ("auto", "fewest", "lattice", "spread", "tailored")


def ridge_form(
    polynomial: Polynomial,
    directions: str = "auto",
    check_width: Callable[[int], None] | None = None,
) -> RidgeForm:
    """Write ``polynomial`` as a ridge form (Lemma 3.3); see :func:`ridge_forms`."""
    return ridge_forms([polynomial], directions, check_width)[0]


def ridge_forms(
    polynomials: Sequence[Polynomial],
    directions: str = "auto",
    check_width: Callable[[int], None] | None = None,
) -> list[RidgeForm]:
    """Write polynomials in the same variables as ridge forms along common directions.

    ``lattice`` needs n_q = C(d−1+q, q) directions whatever the polynomial; ``tailored`` only those
    its monomials ask for; ``fewest`` those that its structure asks for, where one is found;
    ``spread`` has 2·n_q, for accuracy in low precision; ``auto`` takes the narrowest of fewest,
    tailored and lattice. ``check_width`` is told the number of directions before the costly part, and
    may refuse it by raising.
    """
    check = check_width or _accept
    if directions not in FAMILIES:
        raise InputError(f"directions={directions!r}; choose one of {', '.join(FAMILIES)}")
    check(1)  # a degree too high for a single direction is refused before any is looked for
    d, q = polynomials[0].dimension, max(p.degree for p in polynomials)
    lattice = lattice_width(d, q)

    def forms(ridges: list[Ridges], family: str) -> list[RidgeForm]:
        pairs = zip(polynomials, ridges, strict=True)
        return [assemble(polynomial, own, family, q) for polynomial, own in pairs]

    narrow = directions in ("auto", "fewest")
    fewest = fewest_ridges(polynomials, lattice, check) if narrow else None
    if directions == "tailored" or (narrow and polarisation_cost(polynomials) <= MAX_POLARISATION):
        widest = None if not narrow else lattice if fewest is None else len(fewest[0])
        if (tailored := tailored_ridges(polynomials, widest)) is not None:
            check(len(tailored[0]))
            return forms(tailored, "tailored")
    if fewest is not None:
        check(len(fewest[0]))
        return forms(fewest, "fewest")
    check(2 * lattice if directions == "spread" else lattice)
    if directions == "spread":
        return forms([spread_ridges(p, q) for p in polynomials], "spread")
    if lattice > MAX_WIDTH:
        raise SizeError(
            f"degree {q} in {d} variables has n_q = C({d - 1 + q}, {q}) = {lattice:,} directions, "
            f"the limit is {MAX_WIDTH:,}; lower the degree or the number of variables, or use "
            "directions='tailored' if few monomials are present"
        )
    return forms([lattice_ridges(p, q) for p in polynomials], "lattice")


def _accept(width: int) -> None:
    pass
