"""The choice of a family of directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from exactformer.algebra.polynomial import Polynomial
from exactformer.algebra.ridge.essential import essential, lifted
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

FAMILIES = ("auto", "lattice", "spread", "tailored")

Check = Callable[[int], None]


def ridge_form(
    polynomial: Polynomial, directions: str = "auto", check_width: Check | None = None
) -> RidgeForm:
    """Write ``polynomial`` as a ridge form (Lemma 3.3); see :func:`ridge_forms`."""
    return ridge_forms([polynomial], directions, check_width)[0]


def ridge_forms(
    polynomials: Sequence[Polynomial], directions: str = "auto", check_width: Check | None = None
) -> list[RidgeForm]:
    """Write polynomials in the same variables as ridge forms along common directions.

    ``lattice`` needs n_q = C(d−1+q, q) directions whatever the polynomial; ``tailored`` only those
    its monomials ask for; ``spread`` has 2·n_q, for accuracy in low precision; ``auto`` takes the
    narrower of tailored and lattice, in the variables that the polynomials essentially depend on.
    ``check_width`` is told the number of directions before the costly part, and may refuse it by
    raising.
    """
    check = check_width or _accept
    if directions not in FAMILIES:
        raise InputError(f"directions={directions!r}; choose one of {', '.join(FAMILIES)}")
    check(1)  # a degree too high for a single direction is refused before any is looked for
    q = max(p.degree for p in polynomials)
    family, ridges = _RIDGES[directions](polynomials, q, check)
    pairs = zip(polynomials, ridges, strict=True)
    return [assemble(polynomial, own, family, q) for polynomial, own in pairs]


Found = tuple[str, list[Ridges]]
"""The family that was taken, and the ridges of every polynomial."""


def _narrowest(polynomials: Sequence[Polynomial], q: int, check: Check) -> Found:
    """Take the narrower of tailored and lattice directions, in essential variables."""
    reduced = essential([p.flint for p in polynomials], polynomials[0].dimension)
    if reduced is None:
        return _narrower(polynomials, q, check)
    forms, inner = reduced
    names = [f"z{j}" for j in range(len(forms))]
    if not names:
        return "tailored", [{} for _ in polynomials]
    family, ridges = _narrower([Polynomial(names, own) for own in inner], q, check)
    return family, [lifted(own, forms) for own in ridges]


def _narrower(polynomials: Sequence[Polynomial], q: int, check: Check) -> Found:
    if polarisation_cost(polynomials) <= MAX_POLARISATION:
        lattice = lattice_width(polynomials[0].dimension, q)
        if (tailored := tailored_ridges(polynomials, lattice)) is not None:
            check(len(tailored[0]))
            return "tailored", tailored
    return _lattice(polynomials, q, check)


def _tailored(polynomials: Sequence[Polynomial], q: int, check: Check) -> Found:
    ridges = tailored_ridges(polynomials)
    assert ridges is not None  # no width was asked for
    check(len(ridges[0]))
    return "tailored", ridges


def _lattice(polynomials: Sequence[Polynomial], q: int, check: Check) -> Found:
    d = polynomials[0].dimension
    width = lattice_width(d, q)
    check(width)
    if width > MAX_WIDTH:
        raise SizeError(
            f"degree {q} in {d} variables has n_q = C({d - 1 + q}, {q}) = {width:,} directions, "
            f"the limit is {MAX_WIDTH:,}; lower the degree or the number of variables, or use "
            "directions='tailored' if few monomials are present"
        )
    return "lattice", [lattice_ridges(p, q) for p in polynomials]


def _spread(polynomials: Sequence[Polynomial], q: int, check: Check) -> Found:
    check(2 * lattice_width(polynomials[0].dimension, q))
    return "spread", [spread_ridges(p, q) for p in polynomials]


_RIDGES = {"auto": _narrowest, "lattice": _lattice, "spread": _spread, "tailored": _tailored}


def _accept(width: int) -> None:
    pass
