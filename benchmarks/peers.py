"""The ways of evaluating a polynomial that are compared: ours, and what people use.

A way is built once for a case and a float format, and then maps points ``(N, d)`` to values
``(N,)``. Every peer is given what helps it: points in chunks of the size that is fastest in a short
trial, coordinates side by side.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import groupby
from operator import sub
from typing import Any

import numpy as np

from benchmarks.cases import Case

Evaluate = Callable[[np.ndarray], np.ndarray]

TRIAL = 20_000
"""Points on which chunk sizes are tried."""


@cache
def compiled(case: Case) -> Any:
    """Return the model of a case: certified once, whatever runs it."""
    import exactformer as ef

    return ef.compile(case.target, radius=case.radius, executor="fused")


def exactformer(case: Case, dtype: str, executor: str = "fused") -> Evaluate:
    """The compiled model as a user calls it, with its check that points are in the ball."""
    import torch

    from exactformer.polynomials.model import PolynomialModel
    from exactformer.polynomials.proof.certify import Proof

    proven = compiled(case)
    model = PolynomialModel(
        proven.blueprint, Proof(proven.certificate), getattr(torch, dtype), executor=executor
    )
    return lambda points: model(torch.from_numpy(points)).numpy()


def literal(case: Case, dtype: str) -> Evaluate:
    """The same model, with every matrix of the theorem carried out."""
    return exactformer(case, dtype, "literal")


def scikit_learn(case: Case, dtype: str) -> Evaluate:
    """All monomials up to the degree, then a dot product with the coefficients."""
    from sklearn.preprocessing import PolynomialFeatures

    features = PolynomialFeatures(case.size[1]).fit(np.zeros((1, case.size[0])))
    terms = case.target.terms()
    weights = np.array([float(terms.get(tuple(p), 0)) for p in features.powers_], dtype)
    return chunked(lambda points: features.transform(points) @ weights, case, dtype)


def recurrence(case: Case, dtype: str) -> Evaluate:
    """NumPy, each monomial a smaller one times a variable, a block of monomials at a time."""
    monomials = _closed(case.target.terms())
    place = {a: i for i, a in enumerate(monomials)}
    weights = np.array([float(case.target.coefficient(a)) for a in monomials], dtype)
    steps = []
    for (_, variable), block in groupby(monomials[1:], key=lambda a: (sum(a), _last(a))):
        children = [place[a] for a in block]
        parents = [place[_parent(monomials[i])] for i in children]
        steps.append((variable, _slice(parents), _slice(children)))

    def evaluate(points: np.ndarray) -> np.ndarray:
        columns = np.ascontiguousarray(points.T)
        rows = np.empty((len(monomials), len(points)), dtype)
        rows[0] = 1
        for variable, parents, children in steps:
            np.multiply(rows[parents], columns[variable], out=rows[children])
        return weights @ rows

    return chunked(evaluate, case, dtype)


PEERS: dict[str, Callable[[Case, str], Evaluate]] = {
    "literal": literal,
    "fused": exactformer,
    "scikit-learn": scikit_learn,
    "NumPy recurrence": recurrence,
}
"""Ours first."""


def chunked(evaluate: Evaluate, case: Case, dtype: str) -> Evaluate:
    """Evaluate so many points at a time as a trial shows to be fastest.

    No peer fits 10⁶ × 3003 monomials in memory, and all are several times faster in the cache.
    """
    points = case.points(TRIAL, dtype)
    sizes = [2**k for k in range(6, 15)]
    best = min(sizes, key=lambda rows: _seconds(partial(_pieces, evaluate, rows), points))
    return partial(_pieces, evaluate, best)


def _pieces(evaluate: Evaluate, rows: int, points: np.ndarray) -> np.ndarray:
    if len(points) <= rows:
        return evaluate(points)
    values = np.empty(len(points), points.dtype)
    for start in range(0, len(points), rows):
        values[start : start + rows] = evaluate(points[start : start + rows])
    return values


def _seconds(evaluate: Evaluate, points: np.ndarray) -> float:
    return min(timeit.repeat(lambda: evaluate(points), number=1, repeat=2))


def _closed(terms: Any) -> list[tuple[int, ...]]:
    """Return the monomials and all that lead to them, each after its parent.

    Sorted by degree and last variable, the parents of a block lie side by side if all are there.
    """
    known = {(0,) * len(next(iter(terms)))}
    for monomial in terms:
        known.update(_chain(monomial))
    ordered: list[tuple[int, ...]] = []
    place: dict[tuple[int, ...], int] = {}
    for _, block in groupby(sorted(known, key=sum), key=sum):
        by_parent = sorted(block, key=lambda a: (_last(a), place.get(_parent(a), 0)))
        place.update({a: len(ordered) + i for i, a in enumerate(by_parent)})
        ordered += by_parent
    return ordered


def _chain(monomial: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    while any(monomial):
        yield monomial
        monomial = _parent(monomial)


def _last(monomial: tuple[int, ...]) -> int:
    return max((i for i, e in enumerate(monomial) if e), default=-1)


def _parent(monomial: tuple[int, ...]) -> tuple[int, ...]:
    last = _last(monomial)
    return tuple(map(sub, monomial, (int(i == last) for i in range(len(monomial)))))


def _slice(places: list[int]) -> slice | list[int]:
    first, last = places[0], places[-1]
    return slice(first, last + 1) if places == list(range(first, last + 1)) else places
