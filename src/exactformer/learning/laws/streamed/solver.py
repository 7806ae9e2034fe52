"""The sparse solver on blocks: the search, the closure and the elimination, from sums alone."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from exactformer.learning.laws.dense.solvers import _BYTES_A_TERM, Solved, _highest
from exactformer.learning.laws.dictionary.change_of_basis import to_products
from exactformer.learning.laws.dictionary.columns import Array, Columns
from exactformer.learning.laws.dictionary.terms import (
    Exponents,
    Terms,
    build_terms,
    check_size,
    count_terms,
    lower_closure,
)
from exactformer.learning.laws.law import DataRange, Law, SparseLaw
from exactformer.learning.laws.sample import Sample, dependent_columns
from exactformer.learning.laws.sparse.backward_elimination import ReducedFit, Threshold, eliminate
from exactformer.learning.laws.sparse.forward_search import (
    Fit,
    Search,
    SearchResult,
    threshold_of,
)
from exactformer.learning.laws.sparse.selection import (
    _DIGITS,
    _MOST_TERMS,
    Selection,
    _rewritten,
)
from exactformer.learning.laws.streamed import passes
from exactformer.learning.laws.streamed.blocks import Blocks
from exactformer.learning.laws.streamed.passes import Moments

# Below this share of ‖y‖² a residual is not taken from sums, which cancel, but from a pass.
_CANCELS = 1e-6
# A term with less than this share of its square norm outside a model is an alias of the model.
_ALIAS = 1e-10


@dataclass(frozen=True)
class Streamed:
    """Laws found in blocks of rows, with what a regressor tells of its data."""

    solved: Solved
    moments: Moments
    unused: dict[int, str]
    squares: Array
    """Of the residual of each output."""


def solve_streamed(
    blocks: Blocks,
    degree: int | Literal["auto"],
    significance: float,
    limit: int,
    names: list[str],
) -> Streamed:
    """Find the few terms that are there, output by output."""
    d = blocks.columns
    most = (degree if degree != "auto" else _highest(1, float(blocks.rows))) + 1
    found = passes.moments(blocks, most)
    unused = _unused(blocks, found, names)
    used = np.array([j for j in range(d) if j not in unused], dtype=np.int64)
    highest = _highest(len(used), float(found.count)) if degree == "auto" else degree
    count = count_terms(len(used), highest)
    check_size(count, count * _BYTES_A_TERM, limit, "a pass over the data")
    columns = passes.column_recurrences(blocks, found, highest, used)
    terms = build_terms(columns, highest)
    (norms,) = blocks.sum("sizes of all terms", passes.square_norms, terms, used)
    table = GramTable(blocks, columns, used)
    laws: list[Law] = []
    aliases = []
    reach = np.zeros(d)
    reach[used] = np.maximum(np.abs(found.low[:d]), np.abs(found.high[:d]))[used]
    sizes = np.maximum(np.abs(found.low[d:]), np.abs(found.high[d:]))
    known: dict[int, Array] = {}
    for output, size in enumerate(sizes.tolist()):
        data_range = DataRange(d, used, reach, size)
        selection = _select(blocks, terms, norms, found, table, known, output, significance)
        laws.append(SparseLaw.of(selection, columns, data_range))
        aliases.append([data_range.embed(alpha) for alpha in selection.aliases])
    (squares,) = blocks.sum("residuals", passes.squares_of, laws)
    return Streamed(Solved(laws, highest, aliases), found, unused, squares)


def _unused(blocks: Blocks, found: Moments, names: list[str]) -> dict[int, str]:
    d = blocks.columns
    constant = found.low[:d] == found.high[:d]
    unused = dict.fromkeys(np.flatnonzero(constant).tolist(), "constant")
    columns = np.flatnonzero(~constant).tolist()
    if not columns:
        return unused
    spread = np.sqrt(found.comoments.diagonal()[:d] / found.count)
    here = np.ix_(columns, columns)
    scale = np.where(spread > 0, spread, 1.0)
    correlation = (found.comoments[:d, :d] / found.count / np.outer(scale, scale))[here]

    def departure(j: int, others: list[int], slopes: Array) -> float | None:
        away, reach = 0.0, 0.0
        arguments = (j, others, slopes, found.mean[:d])
        for left, own in blocks.map("relations", passes.largest_departure, *arguments):
            away, reach = max(away, float(left[0])), max(reach, float(own[0]))
        return away / reach if len(others) + 2 < found.count else None

    mean = found.mean[:d]
    return dict(
        sorted(
            (
                unused | dependent_columns(correlation, mean, spread, columns, names, departure)
            ).items()
        )
    )


class GramTable:
    """Inner products of terms with each other and with the outputs; a pass for those not known yet."""

    def __init__(self, blocks: Blocks, columns: Columns, used: NDArray[np.int64]) -> None:
        self._blocks, self._columns, self.used = blocks, columns, used
        self._place: dict[Exponents, int] = {}
        self._gram = np.zeros((0, 0))
        self._right = np.zeros((0, blocks.outputs))

    def of(self, exponents: list[Exponents], output: int) -> tuple[Array, Array]:
        """Return ΦᵀΦ and Φᵀy."""
        new = [alpha for alpha in exponents if alpha not in self._place]
        if new:
            self._extend(new)
        here = [self._place[alpha] for alpha in exponents]
        return self._gram[np.ix_(here, here)], self._right[here, output]

    def _extend(self, new: list[Exponents]) -> None:
        old = list(self._place)
        gram, right = self._blocks.sum(
            f"products of {len(new)} terms", passes.grams, self._columns, self.used, old, new
        )
        corner = (gram[len(old) :] + gram[len(old) :].T) / 2
        self._gram = np.block([[self._gram, gram[: len(old)]], [gram[: len(old)].T, corner]])
        self._right = np.concatenate([self._right, right])
        self._place |= {alpha: len(old) + k for k, alpha in enumerate(new)}

    def fit(
        self, exponents: list[Exponents], output: int, total: float, exact: bool = False
    ) -> Fit:
        """Fit some terms without shrinkage; ``total`` is ‖y‖².

        The residual's square comes from a pass if ``exact``, or where sums would cancel. The fit's
        ``residual`` holds the coefficients: rows are not kept.
        """
        gram, right = self.of(exponents, output)
        factor = cho_factor(gram, lower=True)
        coefficients = cho_solve(factor, right)
        square = total - float(coefficients @ right)
        if exact or square < _CANCELS * total:
            for _ in range(2):  # the second removes the rounding of the first
                inner, square = self._blocks.sum(
                    "residual",
                    passes.residual_products,
                    self._columns,
                    self.used,
                    output,
                    exponents,
                    coefficients,
                )
                coefficients = coefficients + cho_solve(factor, inner)
        inverse = cho_solve(factor, np.eye(len(exponents)))
        return Fit(coefficients, inverse, coefficients, square)


@dataclass
class StreamedSearch(Search):
    """The forward search of one output, on sums over blocks."""

    blocks: Blocks | None = None
    table: GramTable | None = None
    output: int = 0
    size: float = 0.0
    total: float = 0.0

    def __post_init__(self) -> None:
        self.threshold = threshold_of(self.level, self.size, self.total)

    def _fit(self, active: list[int]) -> Fit:
        assert self.table is not None
        return self.table.fit([self.terms.exponents(j) for j in active], self.output, self.total)

    def _against(self, active: list[int], residual: Array) -> tuple[Array, Array]:
        assert self.blocks is not None
        new = [j for j in active if j not in self.known]
        inner, _ = self.blocks.sum(
            f"{len(self.terms):,} terms against the residual",
            passes.products_of_all,
            self.terms,
            self.sample.used,
            self.output,
            [self.terms.exponents(j) for j in active],
            residual,
            [self.terms.exponents(j) for j in new],
        )
        self.known.update({j: inner[:, i + 1].copy() for i, j in enumerate(new)})
        against = np.column_stack([self.known[j] for j in active])
        inside = solve_triangular(np.linalg.cholesky(against[active]), against.T, lower=True)
        return inner[:, 0], self.norms - np.square(inside).sum(axis=0)

    def _is_alias(self, alpha: Exponents, others: list[Exponents]) -> bool:
        assert self.table is not None
        if self.size < 2 * len(others) + 2:
            return False
        gram, _ = self.table.of([*others, alpha], self.output)
        inside = solve_triangular(np.linalg.cholesky(gram[:-1, :-1]), gram[:-1, -1], lower=True)
        return bool(gram[-1, -1] - inside @ inside < _ALIAS * gram[-1, -1])


def _select(
    blocks: Blocks,
    terms: Terms,
    norms: Array,
    found: Moments,
    table: GramTable,
    known: dict[int, Array],
    output: int,
    significance: float,
) -> Selection:
    place = blocks.columns + output
    size = float(found.count)
    total = float(found.comoments[place, place] + size * found.mean[place] ** 2)
    level = significance / len(terms)
    largest = int(min(_MOST_TERMS, max(1, size // 3)))
    used = table.used
    nothing = Sample(np.zeros((0, len(used))), np.zeros((0, 1)), np.zeros(0), used, {})
    search = StreamedSearch(
        *(terms, nothing, norms, norms, level, largest, known),
        blocks=blocks,
        table=table,
        output=output,
        size=size,
        total=total,
    )
    result: SearchResult = search.run()
    closure = lower_closure([terms.exponents(j) for j in result.active])
    fit = table.fit(closure, output, total, exact=True)
    with localcontext(prec=_DIGITS):
        powers, left = _rewritten(closure, terms, fit)
        number = Decimal if powers.dtype == object else float
        back = to_products(closure, terms.columns, number)
        errors = _Errors(blocks, terms.columns, used, output, closure, fit, powers, back)
        left = eliminate(left, search.threshold)
        left, deviations = _settled(left, search.threshold, errors)
    freedom = size - len(left.kept)
    return Selection(
        [closure[i] for i in left.kept],
        [Fraction(v) for v in left.values],
        deviations,
        left.square / freedom if freedom > 0 else float("nan"),
        freedom,
        result.aliases,
    )


@dataclass(frozen=True)
class _Errors:
    """Standard errors of models within a closure: the larger of the classical and HC3's."""

    blocks: Blocks
    columns: Columns
    used: NDArray[np.int64]
    output: int
    closure: list[Exponents]
    fit: Fit
    powers: NDArray[np.object_] | Array
    products: NDArray[np.object_] | Array

    def of(self, left: ReducedFit, freedom: float) -> Array:
        if freedom <= 0:
            return np.full(len(left.kept), np.nan)
        classical = left.square / freedom * left.inverse.diagonal().astype(np.float64)
        change = left.transfer @ self.powers
        onto = (self.products[:, left.kept] @ change).astype(np.float64)
        (robust,) = self.blocks.sum(
            "standard errors",
            passes.left_out_squares,
            self.columns,
            self.used,
            self.output,
            self.closure,
            onto @ self.fit.coefficients,
            onto @ self.fit.inverse,
            self.fit.inverse @ change.astype(np.float64).T,
        )
        return np.asarray(np.sqrt(np.maximum(classical, robust)))


def _settled(left: ReducedFit, bound: Threshold, errors: _Errors) -> tuple[ReducedFit, Array]:
    """Remove what is not significant by the larger standard error either."""
    while left.kept:
        freedom = bound.size - len(left.kept)
        own = errors.of(left, freedom)
        if freedom <= 0:
            return left, own
        statistic = np.abs(left.values.astype(np.float64)) / np.maximum(own, 1e-300)
        j = int(np.argmin(statistic))
        if statistic[j] >= bound.critical_value(freedom):
            return left, own
        left = left.without(j)
    return left, np.zeros(0)
