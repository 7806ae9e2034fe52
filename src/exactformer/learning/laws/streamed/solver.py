"""The sparse solver on blocks: the search, the closure and the elimination, from sums alone.

The rules are those of data in memory, in the same code: :func:`find_laws` for the degree, ``Search``
for the terms, ``reduce`` for the powers. Here are the sums that they need, one pass each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.learning.laws.dense.solvers import (
    HIGHEST,
    HIGHEST_TRIED,
    Degree,
    Residuals,
    Solved,
    find_laws,
)
from exactformer.learning.laws.dictionary.change_of_basis import enough_digits
from exactformer.learning.laws.dictionary.columns import Array, Columns
from exactformer.learning.laws.dictionary.terms import Exponents, Terms, build_terms, lower_closure
from exactformer.learning.laws.law import DataRange, SparseLaw
from exactformer.learning.laws.sample import DEPENDENT, check_sizes, dependent_columns
from exactformer.learning.laws.sparse.backward_elimination import ReducedFit
from exactformer.learning.laws.sparse.forward_search import (
    ALIAS,
    DISTINCT,
    Fit,
    Search,
    fit_triangle,
    rows_to_spare,
    solve_distinct,
    solve_factored,
    solve_lower,
    threshold_of,
)
from exactformer.learning.laws.sparse.selection import (
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
# Up to so many terms all products with each other are found in one pass. For more, the squares of
# their number cost more than a pass for each round of the search.
_FEW_TERMS = 300


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
    most, served = (HIGHEST_TRIED, HIGHEST) if degree == "auto" else (degree, degree)
    found = passes.moments(blocks, most + 1, served)
    check_sizes(
        found.low, found.high, [*(f"the column {n}" for n in names), *["y"] * blocks.outputs]
    )
    unused = _unused(blocks, found, names)
    used = np.array([j for j in range(d) if j not in unused], dtype=np.int64)
    reach = np.zeros(d)
    reach[used] = np.maximum(np.abs(found.low[:d]), np.abs(found.high[:d]))[used]
    sizes = np.maximum(np.abs(found.low[d:]), np.abs(found.high[d:]))
    ranges = [DataRange(d, used, reach, size) for size in sizes.tolist()]
    solved = find_laws(InBlocks(blocks, found, used, ranges, served), degree, rules, limit)
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

    distinct = -1

    def departure(j: int, others: list[int], slopes: Array) -> float | None:
        nonlocal distinct
        away, reach = 0.0, 0.0
        arguments = (j, others, slopes, found.mean[:d])
        for left, own in blocks.map("relations", passes.largest_departure, *arguments):
            away, reach = max(away, float(left[0])), max(reach, float(own[0]))
        if away <= DEPENDENT * reach and distinct < 0:
            distinct = passes.distinct_rows(blocks, d + 2)
        too_few = away <= DEPENDENT * reach and len(others) + 2 >= distinct
        return None if too_few else away / reach

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
        self,
        blocks: Blocks,
        found: Moments,
        used: NDArray[np.int64],
        ranges: list[DataRange],
        served: int,
    ) -> None:
        self._blocks, self._used, self.ranges = blocks, used, ranges
        self._found = found
        self._rule, self._served = found.quadrature, served
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
        if degree > self._served:
            self._rule, self._served = passes.quadratures(self._blocks, degree), degree
        known = self._recurrences
        if known is None or len(known.a) < degree:
            self._recurrences = known = self._continued(degree, known)
        return build_terms(known.up_to(degree), degree)

    def _continued(self, degree: int, known: Columns | None) -> Columns:
        """Return the recurrences of the used columns, those known as they are."""
        found, used = self._found, self._used
        distinct = np.array([len(found.distinct[j]) for j in used.tolist()])
        spread = np.sqrt(found.comoments.diagonal()[used] / found.count)
        return self._rule.at(used).recurrences(found.mean[used], spread, distinct, degree, known)

    def select(self, terms: Terms, rules: Rules) -> list[Selection]:
        """Find the terms of each output."""
        assert self._recurrences is not None
        if self._table is None:
            self._table = GramTable(self._blocks, self._recurrences, self._used)
        self._table.columns = self._recurrences
        norms, known = self._table.norms(terms), dict[int, Array]()
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
        fit = table.fit(closure, output, total)
        spread = float(self._spreads[output])
        with enough_digits(closure, terms.columns):
            whole, back, relations = among_powers(closure, terms, fit)
            target = Target(closure, bound, spread, total, result.aliases, relations)
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

    def too_far(self, terms: Terms, law: SparseLaw, output: int) -> bool:
        """Say nothing of it: leverages would cost a pass, and sums make a search quick."""
        return False


class GramTable:
    """Inner products of terms with each other and with the outputs; a pass for those not known yet."""

    def __init__(self, blocks: Blocks, columns: Columns, used: NDArray[np.int64]) -> None:
        self._blocks, self.columns, self.used = blocks, columns, used
        self._place: dict[Exponents, int] = {}
        self._gram = np.zeros((0, 0))
        self._right = np.zeros((0, blocks.outputs))

    def norms(self, terms: Terms) -> Array:
        """Return the square norm of every term; few terms are also multiplied with each other."""
        if len(terms) > _FEW_TERMS:
            what = "sizes of all terms"
            (norms,) = self._blocks.sum(what, passes.square_norms, terms, self.used)
            return np.asarray(norms)
        exponents = terms.all_exponents()
        if not self.holds(exponents):
            what, p = f"products of {len(terms)} terms", len(terms)
            (found,) = self._blocks.sum(what, passes.products_with_each_other, terms, self.used)
            found = (found + found.T) / 2
            self._gram, self._right = found[:p, :p], found[:p, p:]
            self._place = {alpha: k for k, alpha in enumerate(exponents)}
        here = [self._place[alpha] for alpha in exponents]
        return np.asarray(self._gram.diagonal()[here])

    def holds(self, exponents: list[Exponents]) -> bool:
        """Whether the products of some terms are known."""
        return all(alpha in self._place for alpha in exponents)

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

    def fit(self, exponents: list[Exponents], output: int, total: float) -> Fit:
        """Fit some terms without shrinkage; ``total`` is ‖y‖².

        Where sums would cancel, residuals by passes remove their rounding; where terms are nearly
        dependent, a pass decomposes them. The fit's ``residual`` holds the coefficients: rows are not
        kept.
        """
        gram, right = self.of(exponents, output)
        if (distinct := solve_distinct(gram)) is None:
            where = self._blocks, self.columns, self.used, exponents, output
            return fit_triangle(passes.fit_triangle(*where))
        factor, inverse = distinct
        coefficients = solve_factored(factor, right)
        square = total - float(coefficients @ right)
        if square < _CANCELS * total:
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
        everything = self.terms.all_exponents()
        if self.table.holds(everything):
            gram, right = self.table.of(everything, self.output)
            if self.total - float(residual @ right[active]) >= _CANCELS * self.total:
                return np.column_stack([right - gram[:, active] @ residual, gram[:, new]])
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

    def _dependent(self, lists: list[list[Exponents]]) -> list[bool]:
        """Sums say which terms may be combinations of others, and one pass for all which are."""
        size = self.threshold.size
        able = [k for k, terms in enumerate(lists) if rows_to_spare(size, len(terms) - 1)]
        needed = {alpha for k in able for alpha in lists[k]}
        self.table.of(sorted(needed), self.output)  # one pass for all that are not known yet
        suspects = [k for k in able if self._suspicious(lists[k])]
        found = [False] * len(lists)
        if suspects:
            where = self.terms.columns, self.table.used, [lists[k] for k in suspects]
            for k, triangle in zip(suspects, passes.triangles(self.blocks, *where), strict=True):
                last = triangle[:, -1]
                found[k] = bool(abs(last[-1]) < np.sqrt(ALIAS) * np.linalg.norm(last))
        return found

    def _suspicious(self, terms: list[Exponents]) -> bool:
        *others, own = _shares_outside(self.table.of(terms, self.output)[0]).tolist()
        return bool(own < DISTINCT or min(others) <= ALIAS)


def _shares_outside(gram: Array) -> Array:
    """Return what share of each term's square norm is outside the span of those before it.

    Terms that are combinations of others do not add to the span.
    """
    size = gram.diagonal()
    factor, basis, shares = np.zeros_like(gram), list[int](), np.zeros(len(gram))
    for i in range(len(gram)):
        n = len(basis)
        row = solve_lower(factor[:n, :n], gram[basis, i]) if n else factor[0, :0]
        shares[i] = (size[i] - row @ row) / size[i]
        if shares[i] > ALIAS:
            factor[n, :n], factor[n, n] = row, np.sqrt(shares[i] * size[i])
            basis.append(i)
    return shares


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
