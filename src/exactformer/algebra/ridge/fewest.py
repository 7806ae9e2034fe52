"""The fewest directions that can be found exactly, by what a polynomial is.

1. A polynomial that depends on k linear forms alone is written in k variables; a power of one linear
   form has one direction (:mod:`~exactformer.algebra.ridge.essential`).
2. Variables that meet in no term belong to separate blocks, whose directions add up.
3. In a block, degree by degree from the highest: what is along directions already found needs no more;
   else a sum of few powers (:mod:`~exactformer.algebra.ridge.pencil`; in two variables
   :mod:`~exactformer.algebra.ridge.sylvester`, all degrees at once), an elementary symmetric
   polynomial, or for degree two the squares of LDLᵀ (:mod:`~exactformer.algebra.ridge.quadratic`).
   A block without such a structure takes the narrower of tailored and lattice directions.
4. Linear terms take one more direction only if they lie outside the span of all others.

Directions may be found in any way: coefficients are solved for exactly, and multiplied out again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from math import comb
from random import Random

from flint import fmpq, fmpq_mat, fmpq_mpoly

from exactformer.algebra.polynomial import Polynomial
from exactformer.algebra.ridge.coefficients import fitted_powers, homogeneous
from exactformer.algebra.ridge.essential import essential
from exactformer.algebra.ridge.form import Direction, Ridges
from exactformer.algebra.ridge.lattice import lattice_ridges, lattice_width
from exactformer.algebra.ridge.pencil import common_squares, pencil_directions
from exactformer.algebra.ridge.quadratic import square_directions
from exactformer.algebra.ridge.sylvester import binary_directions
from exactformer.algebra.ridge.tailored import (
    MAX_POLARISATION,
    polarisation_cost,
    tailored_ridges,
)
from exactformer.algebra.ridge.vectors import pivots, primitive, transposed
from exactformer.algebra.ring import ring

_MAX_SIGNS = 1000
_MAX_DEGREE = 200

Blocks = list[tuple[list[int], list[fmpq_mpoly]]]
"""Variables of a block, and the polynomials' terms of degree 2 and more in them."""


def fewest_ridges(
    polynomials: Sequence[Polynomial], widest: int, check: Callable[[int], None]
) -> list[Ridges] | None:
    """Write polynomials as ridges along at most ``widest`` common directions; ``None`` if not found.

    ``check`` is told the number of directions before lattice coefficients are computed.
    """
    d = polynomials[0].dimension
    smaller = essential([p.flint for p in polynomials], d)
    if smaller is None:
        forms = [[fmpq(int(i == j)) for j in range(d)] for i in range(d)]
        inner = [p.flint for p in polynomials]
    else:
        forms, inner = smaller
    k = len(forms)
    if k > widest:
        return None
    blocks = _blocks(inner, k)
    found = [_search(own, len(block)) for block, own in blocks]
    widths = [
        lattice_width(len(block), _degree(own)) if directions is None else len(directions)
        for (block, own), directions in zip(blocks, found, strict=True)
    ]
    structured = smaller is not None or any(own is not None for own in found)
    if not structured and sum(widths) >= widest:
        return None
    ridges: list[dict[Direction, dict[int, fmpq]]] = [{} for _ in polynomials]
    for (block, own), directions in zip(blocks, found, strict=True):
        parts = _block_ridges(own, len(block), directions, check)
        for total, part in zip(ridges, parts, strict=True):
            for v, powers in part.items():
                total[_embedded(v, block, k)] = dict(powers)
        if len(ridges[0]) > widest:
            return None
    _add_linear(inner, k, ridges)
    if len(ridges[0]) > widest:
        return None
    return [_lifted(own, forms) for own in ridges]


def _blocks(polynomials: Sequence[fmpq_mpoly], k: int) -> Blocks:
    """Return the variables that are connected by terms, with these terms."""
    owner = list(range(k))

    def root(j: int) -> int:
        while owner[j] != j:
            j = owner[j]
        return j

    supports = [
        ([j for j, e in enumerate(a) if e], c, a, n)
        for n, polynomial in enumerate(polynomials)
        for a, c in polynomial.to_dict().items()
        if sum(a) > 1
    ]
    for present, *_ in supports:
        for j in present[1:]:
            owner[root(j)] = root(present[0])
    members: dict[int, list[int]] = {}
    for j in range(k):
        members.setdefault(root(j), []).append(j)
    tables: dict[int, list[dict[tuple[int, ...], fmpq]]] = {}
    for present, c, a, n in supports:
        own = root(present[0])
        table = tables.setdefault(own, [{} for _ in polynomials])
        table[n][tuple(int(a[j]) for j in members[own])] = fmpq(c)
    return [
        (members[own], [ring(len(members[own])).from_dict(table) for table in own_tables])
        for own, own_tables in tables.items()
    ]


def _search(polynomials: list[fmpq_mpoly], k: int) -> list[Direction] | None:
    """Return directions of one block by its structure, or ``None``."""
    q = _degree(polynomials)
    if k == 1:
        return [(1,)]
    if q > _MAX_DEGREE:
        return None
    if k == 2 and q > 2:
        return binary_directions(polynomials)
    directions: list[Direction] = []
    for s in range(q, 1, -1):
        forms = [homogeneous(polynomial, s, k) for polynomial in polynomials]
        if not any(map(len, forms)) or fitted_powers(forms, s, directions) is not None:
            continue
        more = _squares(forms, k, directions) if s == 2 else _powers(forms, s, k)
        if more is None:
            return None
        directions = list(dict.fromkeys([*directions, *more]))
    return directions


def _powers(forms: list[fmpq_mpoly], s: int, k: int) -> list[Direction] | None:
    """Return the directions of forms of one degree: those of a general combination of them."""
    rng = Random(3)
    total = ring(k).from_dict({})
    for form in forms:
        total += form * (rng.randint(1, 10**5) if len(forms) > 1 else 1)
    table = {tuple(int(e) for e in a): fmpq(c) for a, c in total.to_dict().items()}
    if not table:
        return None
    found = pencil_directions(table, k)
    if found is None and len(table) == comb(k, s) and max(map(max, table)) == 1:
        return _signs(k, s) if len(set(map(str, table.values()))) == 1 else None
    return found


def _signs(k: int, s: int) -> list[Direction] | None:
    """Return (±1, …, ±1) with at most s/2 minus signs, for an elementary symmetric polynomial."""
    if sum(comb(k, i) for i in range(s // 2 + 1)) > _MAX_SIGNS:
        return None
    minus = (set(own) for i in range(s // 2 + 1) for own in combinations(range(k), i))
    signs = (tuple(fmpq(-1 if j in own else 1) for j in range(k)) for own in minus)
    return list(dict.fromkeys(map(primitive, signs)))


def _squares(forms: list[fmpq_mpoly], k: int, used: list[Direction]) -> list[Direction]:
    """Return directions of quadratic forms, all at once where they are diagonal together."""
    matrices = [_matrix(form, k) for form in forms if len(form)]
    found = common_squares(matrices) if len(matrices) > 1 else None
    if found is not None and fitted_powers(forms, 2, found) is not None:
        return found
    directions = list(used)
    for matrix in matrices:
        directions = list(dict.fromkeys([*directions, *square_directions(matrix, directions)]))
    return directions


def _matrix(form: fmpq_mpoly, k: int) -> fmpq_mat:
    matrix = fmpq_mat(k, k)
    for a, c in form.to_dict().items():
        i, j = (n for n, e in enumerate(a) for _ in range(e))
        matrix[i, j] = matrix[j, i] = fmpq(c) / (1 if i == j else 2)
    return matrix


def _block_ridges(
    polynomials: list[fmpq_mpoly],
    k: int,
    directions: list[Direction] | None,
    check: Callable[[int], None],
) -> list[Ridges]:
    """Return the ridges of one block: along what was found, or the narrower general family."""
    q, names = _degree(polynomials), [f"x{j}" for j in range(k)]
    along = None if directions is None else _along(polynomials, k, q, directions)
    own = [Polynomial(names, polynomial) for polynomial in polynomials]
    widest = lattice_width(k, q) if along is None else len(along[0])
    affordable = polarisation_cost(own) <= MAX_POLARISATION
    if affordable and (tailored := tailored_ridges(own, widest)) is not None:
        return tailored
    if along is not None:
        return along
    check(widest)
    return [lattice_ridges(polynomial, q) for polynomial in own]


def _along(
    polynomials: list[fmpq_mpoly], k: int, q: int, directions: list[Direction]
) -> list[Ridges] | None:
    """Return the ridges along given directions, if the polynomials are sums of such."""
    ridges: list[dict[Direction, dict[int, fmpq]]] = [
        {v: {} for v in directions} for _ in polynomials
    ]
    for s in range(2, q + 1):
        forms = [homogeneous(polynomial, s, k) for polynomial in polynomials]
        columns = fitted_powers(forms, s, directions)
        if columns is None:
            return None
        for total, beta in zip(ridges, columns, strict=True):
            for v, c in zip(directions, beta, strict=True):
                if c != 0:
                    total[v][s] = c
    return list(ridges)


def _add_linear(
    polynomials: list[fmpq_mpoly], k: int, ridges: list[dict[Direction, dict[int, fmpq]]]
) -> None:
    """Write the linear terms along the directions there are, and as few more as they need."""
    forms = [homogeneous(polynomial, 1, k) for polynomial in polynomials]
    directions = list(ridges[0])
    rows = [[fmpq(c) for c in v] for v in directions]
    wanted = [list(_row(form, k)) for form in forms if len(form)]
    places = pivots(transposed([*rows, *wanted]))
    directions += [primitive(wanted[p - len(rows)]) for p in places if p >= len(rows)]
    columns = fitted_powers(forms, 1, directions)
    assert columns is not None  # the directions span the linear terms
    for own, beta in zip(ridges, columns, strict=True):
        for v, c in zip(directions, beta, strict=True):
            powers = own.setdefault(v, {})
            if c != 0:
                powers[1] = c


def _row(form: fmpq_mpoly, k: int) -> Iterator[fmpq]:
    terms = form.to_dict()
    for j in range(k):
        yield fmpq(terms.get(tuple(int(i == j) for i in range(k)), 0))


def _lifted(ridges: dict[Direction, dict[int, fmpq]], forms: list[list[fmpq]]) -> Ridges:
    """Return ridges in the original variables, for v·z with z = Lx."""
    lifted: dict[Direction, dict[int, fmpq]] = {}
    for v, powers in ridges.items():
        vector = [
            sum((c * form[j] for c, form in zip(v, forms, strict=True)), start=fmpq(0))
            for j in range(len(forms[0]))
        ]
        direction = primitive(vector)
        factor = next(a / b for a, b in zip(vector, direction, strict=True) if b)
        lifted[direction] = {s: c * factor**s for s, c in powers.items()}
    return lifted


def _embedded(v: Direction, block: list[int], k: int) -> Direction:
    entries = dict(zip(block, v, strict=True))
    return tuple(entries.get(j, 0) for j in range(k))


def _degree(polynomials: Sequence[fmpq_mpoly]) -> int:
    return max((int(p.total_degree()) for p in polynomials if len(p)), default=0)
