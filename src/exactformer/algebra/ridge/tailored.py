"""The tailored family: only the directions that the monomials present ask for (polarisation).

For a monomial x^a with |a| = s,

    s!·x^a = Σ_{0≤k≤a} (−1)^{|a|−|k|} Π_i C(a_i, k_i) (k·x)^s                 (plain)
           = the same with k − a/2 in place of k, where ± pairs coincide      (centred)

Parallel directions merge into one primitive integer vector. Each monomial takes the form that adds
fewer new directions; all-plain and all-centred are tried as well, and the narrowest wins. Polynomials
that share their directions are polarised together: a monomial asks once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from itertools import product
from math import comb, factorial, gcd, prod

from flint import fmpq

from exactformer.algebra.polynomial import Polynomial
from exactformer.algebra.rational import to_fmpq
from exactformer.algebra.ridge.form import Direction, Ridges
from exactformer.algebra.ring import Exponents
from exactformer.errors import SizeError

MAX_POLARISATION = 2_000_000  # terms of the polarisation sums, before merging

Polarised = dict[Direction, fmpq]


def tailored_ridges(
    polynomials: Sequence[Polynomial], widest: int | None = None
) -> list[Ridges] | None:
    """Write polynomials as ridges along the narrowest common set of polarising directions found.

    With ``widest`` the search gives up, and returns ``None``, where more directions are needed.
    """
    terms = {a: [to_fmpq(p.coefficient(a)) for p in polynomials] for a in _monomials(polynomials)}
    if (cost := polarisation_cost(polynomials)) > MAX_POLARISATION:
        raise SizeError(
            f"polarisation of these {len(terms)} monomials has {cost:,} terms, the limit is "
            f"{MAX_POLARISATION:,}; use directions='lattice' or monomials in fewer variables"
        )
    tries = (_collect(terms, choose, widest) for choose in (_fewer_new, _plain, _centred))
    found = min((ridges for ridges in tries if ridges is not None), key=len, default=None)
    if found is None:
        return None
    return [
        {v: {s: c[k] for s, c in powers.items() if c[k] != 0} for v, powers in found.items()}
        for k in range(len(polynomials))
    ]


def polarisation_cost(polynomials: Sequence[Polynomial]) -> int:
    """Return the number of terms Σ_a Π(a_i + 1) before merging."""
    return sum(prod(e + 1 for e in a) for a in _monomials(polynomials))


def _monomials(polynomials: Sequence[Polynomial]) -> list[Exponents]:
    """Return the monomials present anywhere, the constant left out."""
    present = {tuple(map(int, a)) for p in polynomials for a in p.flint.monoms()}
    return [a for a in present if any(a)]


Choice = Callable[[Exponents, Container[Direction]], Polarised]


def _collect(
    terms: dict[Exponents, list[fmpq]], choose: Choice, widest: int | None
) -> dict[Direction, dict[int, list[fmpq]]] | None:
    ridges: dict[Direction, dict[int, list[fmpq]]] = {}
    # Widest monomials first: what they need anyway may serve the narrower ones.
    for a in sorted(terms, key=lambda a: (-prod(e + 1 for e in a), a)):
        s = sum(a)
        for vector, weight in choose(a, ridges).items():
            powers = ridges.setdefault(vector, {})
            sums = powers.setdefault(s, [fmpq(0)] * len(terms[a]))
            powers[s] = [old + c * weight for old, c in zip(sums, terms[a], strict=True)]
        if widest is not None and len(ridges) > widest:
            return None
    kept = {v: {s: c for s, c in p.items() if any(c)} for v, p in ridges.items()}
    return {v: p for v, p in sorted(kept.items(), reverse=True) if p}


def _fewer_new(a: Exponents, present: Container[Direction]) -> Polarised:
    ways = (_plain(a, present), _centred(a, present))
    return min(ways, key=lambda way: sum(vector not in present for vector in way))


def _plain(a: Exponents, present: Container[Direction]) -> Polarised:
    return _merged(a, ((k, k) for k in _below(a)), 1)


def _centred(a: Exponents, present: Container[Direction]) -> Polarised:
    shifted = ((k, tuple(2 * ki - ai for ki, ai in zip(k, a, strict=True))) for k in _below(a))
    return _merged(a, shifted, 2)


def _below(a: Exponents) -> Iterator[Exponents]:
    return product(*(range(e + 1) for e in a))


def _merged(
    a: Exponents, vectors: Iterator[tuple[Exponents, Direction]], denominator: int
) -> Polarised:
    s = sum(a)
    if s in a:  # a power of one variable: what all its directions merge into
        return {tuple(e // s for e in a): fmpq(1)}
    scale = fmpq(1, factorial(s) * denominator**s)
    weights: Polarised = {}
    for k, vector in vectors:
        if not any(vector):
            continue
        primitive, factor = _primitive(vector)
        sign = -1 if (s - sum(k)) % 2 else 1
        weight = sign * prod(comb(ai, ki) for ai, ki in zip(a, k, strict=True)) * factor**s
        weights[primitive] = weights.get(primitive, fmpq(0)) + scale * weight
    return {v: w for v, w in weights.items() if w != 0}


def _primitive(vector: Direction) -> tuple[Direction, int]:
    """Return the shortest integer vector on the line, first entry positive, and the factor to it."""
    factor = gcd(*vector)
    if next(v for v in vector if v) < 0:
        factor = -factor
    return tuple(v // factor for v in vector), factor
