"""Choosing a family of directions."""

from __future__ import annotations

from exactformer.algebra.polynomial import Polynomial
from exactformer.algebra.ridge.form import RidgeForm, assemble
from exactformer.algebra.ridge.lattice import lattice_ridges, lattice_width
from exactformer.algebra.ridge.spread import spread_ridges
from exactformer.algebra.ridge.tailored import (
    MAX_POLARISATION,
    polarisation_cost,
    tailored_ridges,
)
from exactformer.errors import InputError, SizeError

MAX_WIDTH = 50_000

FAMILIES = ("auto", "lattice", "spread", "tailored")


def ridge_form(polynomial: Polynomial, directions: str = "auto") -> RidgeForm:
    """Write ``polynomial`` as a ridge form (Lemma 3.3).

    ``lattice`` needs n_q = C(d−1+q, q) directions whatever the polynomial; ``tailored`` only those
    its monomials ask for; ``spread`` has 2·n_q, for accuracy in low precision; ``auto`` takes the
    narrower of tailored and lattice.
    """
    if directions not in FAMILIES:
        raise InputError(f"directions={directions!r}; choose one of {', '.join(FAMILIES)}")
    if directions == "tailored":
        return assemble(polynomial, tailored_ridges(polynomial), "tailored")
    if directions == "auto" and polarisation_cost(polynomial) <= MAX_POLARISATION:
        ridges = tailored_ridges(polynomial)
        if len(ridges) <= lattice_width(polynomial.dimension, polynomial.degree):
            return assemble(polynomial, ridges, "tailored")
    _check_lattice_width(polynomial)
    if directions == "spread":
        return assemble(polynomial, spread_ridges(polynomial), "spread")
    return assemble(polynomial, lattice_ridges(polynomial), "lattice")


def _check_lattice_width(polynomial: Polynomial) -> None:
    d, q = polynomial.dimension, polynomial.degree
    if (width := lattice_width(d, q)) > MAX_WIDTH:
        raise SizeError(
            f"degree {q} in {d} variables has n_q = C({d - 1 + q}, {q}) = {width:,} directions, "
            f"the limit is {MAX_WIDTH:,}; lower the degree or the number of variables, or use "
            "directions='tailored' if few monomials are present"
        )
