"""The ways of evaluating a polynomial that are compared: ours, and what people use.

A way is built once for a case and a float format, and then maps points ``(N, d)`` to values
``(N,)``. Every peer is given what helps it: points in chunks of the size that is fastest in a short
trial, coordinates side by side, common subexpressions found beforehand. What it cannot do raises
:class:`UnavailableError`, with the reason that the table prints.
"""

from __future__ import annotations

import shutil
import timeit
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib.util import find_spec
from itertools import groupby
from operator import sub
from typing import Any

import numpy as np

from benchmarks.cases import Case

Evaluate = Callable[[np.ndarray], np.ndarray]

TRIAL = 20_000
"""Points on which chunk sizes are tried."""


class UnavailableError(Exception):
    """This way cannot be built for this case; the message says why."""


@cache
def compiled(case: Case, dtype: str = "float64") -> Any:
    """Return the model of a case as it is compiled by default: certified once, whatever runs it."""
    import torch

    import exactformer as ef

    return ef.compile(case.target, radius=case.radius, dtype=getattr(torch, dtype))


def exactformer(case: Case, dtype: str, executor: str = "fused") -> Evaluate:
    """The compiled model as a user calls it, with its check that points are in the ball."""
    import torch

    from exactformer.polynomials.model import PolynomialModel
    from exactformer.polynomials.proof.certify import Proof

    proven = compiled(case, dtype)
    model = PolynomialModel(
        proven.blueprint, Proof(proven.certificate), getattr(torch, dtype), executor=executor
    )
    return lambda points: model(torch.from_numpy(points)).numpy()


def literal(case: Case, dtype: str) -> Evaluate:
    """The same model, with every matrix of the theorem carried out."""
    return exactformer(case, dtype, "literal")


def scikit_learn(case: Case, dtype: str, order: str = "C") -> Evaluate:
    """All monomials up to the degree, then a dot product with the coefficients."""
    from sklearn.preprocessing import PolynomialFeatures

    features = PolynomialFeatures(case.size[1], order=order).fit(np.zeros((1, case.size[0])))
    terms = case.target.terms()
    weights = np.array([float(terms.get(tuple(p), 0)) for p in features.powers_], dtype)
    return chunked(lambda points: features.transform(points) @ weights, case, dtype)


def scikit_learn_by_columns(case: Case, dtype: str) -> Evaluate:
    """The same with ``order="F"``, which lets it write one monomial after the other."""
    return scikit_learn(case, dtype, "F")


def lambdify(case: Case, dtype: str) -> Evaluate:
    """SymPy's own translation to NumPy, common subexpressions shared.

    Python cannot compile a sum of thousands of terms at once (it recurses into it), so that long
    ones are translated in parts.
    """
    import sympy

    symbols = sympy.symbols(case.target.variables)
    terms = sympy.Add.make_args(case.target.to_sympy())
    parts = [sympy.Add(*terms[i : i + 500]) for i in range(0, len(terms), 500)]
    function = sympy.lambdify(symbols, parts, "numpy", cse=True)
    return chunked(lambda points: sum(function(*np.ascontiguousarray(points.T))), case, dtype)


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


def power_sums(case: Case, dtype: str) -> Evaluate:
    """torch, the plain formula on the same directions: t = x Fᵀ, then b + Σ_s t^s β_s."""
    import torch

    from exactformer.algebra.ridge import ridge_form
    from exactformer.algebra.ridge.form import floats

    form = ridge_form(case.target)
    number = getattr(torch, dtype)
    F = torch.from_numpy(floats(form.directions, (form.width, len(form.variables)))).to(number)
    beta = torch.from_numpy(floats(form.beta, (form.width, form.degree))).to(number)
    bias = float(form.constant)

    def evaluate(points: np.ndarray) -> np.ndarray:
        t = torch.from_numpy(points) @ F.T
        power, value = t, bias + t @ beta[:, 0]
        for s in range(1, form.degree):
            power = power * t
            value = value + power @ beta[:, s]
        return value.numpy()

    return chunked(evaluate, case, dtype)


def multivar_horner(case: Case, dtype: str) -> Evaluate:
    """A Horner factorisation compiled to C; takes one point at a time, in float64."""
    if find_spec("multivar_horner") is None:
        raise UnavailableError("multivar_horner is not installed")
    if dtype != "float64":
        raise UnavailableError("multivar_horner computes in float64 only")
    if not (shutil.which("gcc") or shutil.which("cc")):
        raise UnavailableError("multivar_horner needs a C compiler")
    from multivar_horner import HornerMultivarPolynomial

    terms = case.target.terms()
    coefficients = np.array([[float(c)] for c in terms.values()])
    exponents = np.array(list(terms), dtype=np.uint32)
    horner = HornerMultivarPolynomial(coefficients, exponents)
    return lambda points: np.array([horner(point) for point in points])


PEERS: dict[str, Callable[[Case, str], Evaluate]] = {
    "exactformer": exactformer,
    "scikit-learn": scikit_learn,
    "scikit-learn, order F": scikit_learn_by_columns,
    "sympy.lambdify": lambdify,
    "NumPy recurrence": recurrence,
    "torch power sums": power_sums,
    "multivar_horner": multivar_horner,
    "literal module": literal,
}
"""Ours first; ratios are to it."""


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
