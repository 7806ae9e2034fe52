"""The sparse solver on blocks: the search, the closure and the elimination, from sums alone.

The rules are those of data in memory, in the same code: :func:`find_laws` for the degree, ``Search``
for the terms, ``reduce`` for the powers. Here are the sums that they need, one pass each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import localcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.learning.laws.dense.solvers import (
    HIGHEST_TRIED,
    Degree,
    Residuals,
    Solved,
    find_laws,
)
from exactformer.learning.laws.dictionary.columns import Array, Columns
from exactformer.learning.laws.dictionary.terms import Exponents, Terms, build_terms, lower_closure
from exactformer.learning.laws.law import DataRange, SparseLaw
from exactformer.learning.laws.sample import check_sizes, dependent_columns
from exactformer.learning.laws.sparse.backward_elimination import ReducedFit
from exactformer.learning.laws.sparse.forward_search import (
    ALIAS,
    Fit,
    Search,
    factored,
    solve_factored,
    solve_lower,
    threshold_of,
)
from exactformer.learning.laws.sparse.selection import (
    DIGITS,
    Rules,
    Selection,
    Target,
    among_powers,
    reduce,
)
from exactformer.learning.laws.sparse.standard_errors import collapses, in_products, most_rows
from exactformer.learning.laws.streamed import passes
from exactformer.learning.laws.streamed.blocks import Blocks
from exactformer.learning.laws.streamed.passes import Model, Moments

# Below this share of ‖y‖² a residual is not taken from sums, which cancel, but from a pass.
_CANCELS = 1e-6


@dataclass(frozen=True)
class Streamed:
    """Laws found in blocks of rows, with what a regressor tells of its data."""

    solved: Solved
    moments: Moments
    unused: dict[int, str]
    squares: Array
    """Of the residual of each output."""


def solve_streamed(
    blocks: Blocks, degree: Degree, rules: Rules, limit: int, names: list[str]
) -> Streamed:
    """Find the few terms that are there, output by output."""
    d = blocks.columns
    found = passes.moments(blocks, (HIGHEST_TRIED if degree == "auto" else degree) + 1)
    check_sizes(
        found.low, found.high, [*(f"the column {n}" for n in names), *["y"] * blocks.outputs]
    )
    unused = _unused(blocks, found, names)
    used = np.array([j for j in range(d) if j not in unused], dtype=np.int64)
    reach = np.zeros(d)
    reach[used] = np.maximum(np.abs(found.low[:d]), np.abs(found.high[:d]))[used]
    sizes = np.maximum(np.abs(found.low[d:]), np.abs(found.high[d:]))
    ranges = [DataRange(d, used, reach, size) for size in sizes.tolist()]
    solved = find_laws(InBlocks(blocks, found, used, ranges), degree, rules, limit)
    (squares,) = blocks.sum("residuals", passes.squares_of, solved.laws)
    return Streamed(solved, found, unused, squares)


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


class InBlocks:
    """Blocks of rows as a source."""

    def __init__(
        self, blocks: Blocks, found: Moments, used: NDArray[np.int64], ranges: list[DataRange]
    ) -> None:
        self._blocks, self._used, self.ranges = blocks, used, ranges
        self._found = found
        self._recurrences: Columns | None = None
        self._table: GramTable | None = None
        d = blocks.columns
        self._spreads = np.sqrt(found.comoments.diagonal()[d:])
        self._totals = found.comoments.diagonal()[d:] + found.count * found.mean[d:] ** 2

    @property
    def columns(self) -> int:
        """The number of columns in use."""
        return len(self._used)

    @property
    def size(self) -> float:
        """The number of observations."""
        return float(self._found.count)

    def dictionary(self, degree: int) -> Terms:
        """Return the dictionary of a degree; recurrences are kept for later ones."""
        known = self._recurrences
        if known is None or len(known.a) < degree:
            known = passes.column_recurrences(self._blocks, self._found, degree, self._used, known)
            self._recurrences = known
        return build_terms(known.up_to(degree), degree)

    def select(self, terms: Terms, rules: Rules) -> list[Selection]:
        """Find the terms of each output."""
        assert self._recurrences is not None
        if self._table is None:
            self._table = GramTable(self._blocks, self._recurrences, self._used)
        self._table.columns = self._recurrences
        (norms,) = self._blocks.sum("sizes of all terms", passes.square_norms, terms, self._used)
        known: dict[int, Array] = {}
        return [
            self._select(self._table, terms, norms, known, output, rules)
            for output in range(self._blocks.outputs)
        ]

    def _select(
        self,
        table: GramTable,
        terms: Terms,
        norms: Array,
        known: dict[int, Array],
        output: int,
        rules: Rules,
    ) -> Selection:
        used, total = self._used, float(self._totals[output])
        bound = threshold_of(rules.significance / len(terms), self.size, total)
        where = self._blocks, table, output, total
        result = StreamedSearch(terms, norms, bound, *where, known=known).run()
        closure = lower_closure([terms.exponents(j) for j in result.active])
        fit = table.fit(closure, output, total, exact=True)
        spread = float(self._spreads[output])
        target = Target(closure, bound, spread, total, result.aliases)
        with localcontext(prec=DIGITS):
            whole, back = among_powers(closure, terms, fit)
            judge = StreamedJudge(self._blocks, terms.columns, used, output, closure)
            return reduce(whole, back, target, judge, rules)[0]

    def against(self, terms: Terms, laws: list[SparseLaw]) -> Residuals:
        """Compare all terms with what laws leave of each output."""
        what = "higher terms against the residual"
        inner, norms, squares = self._blocks.sum(what, passes.laws_against, terms, self._used, laws)
        return Residuals(inner, norms, squares, self._totals)

    def excess(self, simple: SparseLaw, law: SparseLaw, output: int) -> tuple[float, float, float]:
        """Return mean and standard error of the excess of squares, and the mean of y²."""
        what = "comparison with a lower degree"
        total, square = self._blocks.sum(what, passes.excess_squares, output, simple, law)
        mean = total / self.size
        error = float(np.sqrt(max(square - self.size * mean**2, 0.0))) / self.size
        return mean, error, float(self._totals[output]) / self.size


class GramTable:
    """Inner products of terms with each other and with the outputs; a pass for those not known yet."""

    def __init__(self, blocks: Blocks, columns: Columns, used: NDArray[np.int64]) -> None:
        self._blocks, self.columns, self.used = blocks, columns, used
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
            f"products of {len(new)} terms", passes.grams, self.columns, self.used, old, new
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
        factor = factored(gram)
        coefficients = solve_factored(factor, right)
        square = total - float(coefficients @ right)
        if exact or square < _CANCELS * total:
            for _ in range(2):  # the second removes the rounding of the first
                inner, square = self._blocks.sum(
                    "residual",
                    passes.residual_products,
                    self.columns,
                    self.used,
                    output,
                    exponents,
                    coefficients,
                )
                coefficients = coefficients + solve_factored(factor, inner)
        inverse = solve_factored(factor, np.eye(len(exponents)))
        return Fit(coefficients, inverse, coefficients, square)


@dataclass
class StreamedSearch(Search):
    """The forward search of one output, on sums over blocks."""

    blocks: Blocks
    table: GramTable
    output: int
    total: float

    def _fit(self, active: list[int]) -> Fit:
        return self.table.fit([self.terms.exponents(j) for j in active], self.output, self.total)

    def _products(self, active: list[int], new: list[int], residual: Array) -> Array:
        inner: Array
        inner, _ = self.blocks.sum(
            f"{len(self.terms):,} terms against the residual",
            passes.products_of_all,
            self.terms,
            self.table.used,
            self.output,
            [self.terms.exponents(j) for j in active],
            residual,
            [self.terms.exponents(j) for j in new],
        )
        return inner

    def _independent(self, active: list[int], entering: list[int]) -> list[int]:
        places = [*active, *entering]
        gram, _ = self.table.of([self.terms.exponents(j) for j in places], self.output)
        factor = np.zeros((len(places), len(places)))
        basis: list[int] = []
        for i in range(len(places)):
            n = len(basis)
            row = solve_lower(factor[:n, :n], gram[basis, i]) if n else factor[0, :0]
            outside = gram[i, i] - row @ row
            if i < len(active) or outside > ALIAS * gram[i, i]:
                factor[n, :n], factor[n, n] = row, np.sqrt(max(outside, ALIAS * gram[i, i]))
                basis.append(i)
        return [places[i] for i in basis[len(active) :]]

    def _is_alias(self, alpha: Exponents, others: list[Exponents]) -> bool:
        if self.threshold.size < 2 * len(others) + 2:
            return False
        gram, _ = self.table.of([*others, alpha], self.output)
        inside = solve_lower(np.linalg.cholesky(gram[:-1, :-1]), gram[:-1, -1])
        return bool(gram[-1, -1] - inside @ inside < ALIAS * gram[-1, -1])


@dataclass(frozen=True)
class StreamedJudge:
    """Standard errors of models within a closure, the larger of the classical and HC3's; by passes."""

    blocks: Blocks
    columns: Columns
    used: NDArray[np.int64]
    output: int
    closure: list[Exponents]
    known: dict[tuple[int, ...], Array] = field(default_factory=dict)

    def errors(self, left: ReducedFit, freedom: float) -> Array:
        """Return for each remaining coefficient the larger of classical and HC3 standard error."""
        if freedom <= 0:
            return np.full(len(left.kept), np.nan)
        if (kept := tuple(left.kept)) not in self.known:
            classical = left.square / freedom * left.inverse.diagonal().astype(np.float64)
            influence = in_products(left).influence.astype(np.float64)
            (robust,) = self._sum(
                "standard errors", passes.left_out_squares, *self.left_out(left), influence
            )
            self.known[kept] = np.asarray(np.sqrt(np.maximum(classical, robust)))
        return self.known[kept]

    def left_out(self, left: ReducedFit) -> Model:
        """Return what the residuals of rows left out are made of."""
        model = in_products(left)
        return model.coefficients, model.projection

    def prefer(self, larger: Model, smaller: Model, level: float) -> bool:
        """Whether the rows object to the smaller of two fits."""
        models = [larger, smaller]
        (nearer,) = self._sum("votes of rows", passes.rows_nearer, models)
        return most_rows(nearer, self.blocks.rows, level) and collapses(*self._medians(models))

    def _medians(self, models: list[Model]) -> list[float]:
        """Return the median |e_i| of each model, found sixteen bits at a time."""
        count = self.blocks.rows
        owners = [model for model in range(len(models)) for _ in range(2)]
        ranks = [(count - 1) // 2, count // 2] * len(models)
        bits = [0] * len(owners)
        for shift in (48, 32, 16, 0):
            places = list(zip(owners, bits, strict=True))
            (counts,) = self._sum("median residuals", passes.next_digits, models, places, shift)
            for i, sums in enumerate(np.cumsum(counts, axis=1)):
                digit = int(np.searchsorted(sums, ranks[i], side="right"))
                ranks[i] -= int(sums[digit - 1]) if digit else 0
                bits[i] = (bits[i] << 16) + digit
        values = np.array(bits, dtype=np.uint64).view(np.float64).reshape(-1, 2)
        return [float(low + high) / 2 for low, high in values]

    def _sum(self, what: str, function: Any, *arguments: Any) -> tuple[Any, ...]:
        where = self.columns, self.used, self.output, self.closure
        return self.blocks.sum(what, function, *where, *arguments)
