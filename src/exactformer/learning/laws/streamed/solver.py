"""The sparse solver on blocks: the search, the closure and the elimination, from sums alone.

The rules are those of data in memory, in the same code: :func:`find_laws` for the degree, ``Search``
for the terms, :func:`select` for the powers. Here are the sums that they need, one pass each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.learning.laws.dense.solvers import (
    HIGHEST,
    HIGHEST_TRIED,
    Degree,
    Residuals,
    Solved,
    Source,
    find_laws,
)
from exactformer.learning.laws.dictionary.columns import Array, Columns
from exactformer.learning.laws.dictionary.terms import Exponents, Terms, build_terms
from exactformer.learning.laws.law import DataRange, SparseLaw
from exactformer.learning.laws.sample import check_sizes, unused_columns
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
from exactformer.learning.laws.sparse.selection import Rules, Selection, select
from exactformer.learning.laws.sparse.standard_errors import Judge, in_products
from exactformer.learning.laws.streamed import passes
from exactformer.learning.laws.streamed.blocks import Blocks
from exactformer.learning.laws.streamed.passes import Features, Model, Moments

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
    reach = np.maximum(np.abs(found.low), np.abs(found.high))
    ranges = DataRange.each(d, used, reach[used], reach[d:])
    source = InBlocks(ranges, float(found.count), blocks, found, served)
    solved = find_laws(source, degree, rules, limit)
    (squares,) = blocks.sum("residuals", passes.squares_of, solved.laws)
    return Streamed(solved, found, unused, squares)


def _unused(blocks: Blocks, found: Moments, names: list[str]) -> dict[int, str]:
    d = blocks.columns
    columns = np.flatnonzero(found.low[:d] != found.high[:d]).tolist()
    if not columns:
        return dict.fromkeys(range(d), "constant")
    mean, spread = found.mean[:d], np.sqrt(found.comoments.diagonal()[:d] / found.count)
    scale = np.where(spread > 0, spread, 1.0)
    correlation = found.comoments[:d, :d] / found.count / np.outer(scale, scale)

    def departure(j: int, others: list[int], slopes: Array) -> float:
        pairs = blocks.map("relations", passes.largest_departure, j, others, slopes, mean)
        away, reach = map(max, zip(*pairs, strict=True))
        return float(away / reach)

    sums = correlation[np.ix_(columns, columns)], mean, spread
    distinct = partial(passes.distinct_rows, blocks, d + 2)
    return unused_columns(columns, names, *sums, departure, distinct)


@dataclass
class InBlocks(Source):
    """Blocks of rows as a source; the sums of their powers serve up to the degree ``served``.

    No degree is too far: leverages would cost a pass, and sums make a search quick.
    """

    blocks: Blocks
    moments: Moments
    served: int

    def __post_init__(self) -> None:
        d, moments = self.blocks.columns, self.moments
        self._rule = moments.quadrature
        self._table = GramTable(self.blocks, self.ranges[0].used)
        squares = moments.comoments.diagonal()[d:]
        self._spreads = np.sqrt(squares)
        self._totals = squares + moments.count * moments.mean[d:] ** 2

    def dictionary(self, degree: int) -> Terms:
        """Return the dictionary of a degree; recurrences are kept for later ones."""
        if degree > self.served:
            self._rule, self.served = passes.quadratures(self.blocks, degree), degree
        known = self._table.columns
        if known is None or len(known.a) < degree:
            self._table.columns = known = self._continued(degree, known)
        return build_terms(known.up_to(degree), degree)

    def _continued(self, degree: int, known: Columns | None) -> Columns:
        """Return the recurrences of the used columns, those known as they are."""
        found, used = self.moments, self._table.used
        distinct = np.array([len(found.distinct[j]) for j in used.tolist()])
        spread = np.sqrt(found.comoments.diagonal()[used] / found.count)
        return self._rule.at(used).recurrences(found.mean[used], spread, distinct, degree, known)

    def select(self, terms: Terms, rules: Rules) -> list[Selection]:
        """Find the terms of each output."""
        norms, known, found = self._table.norms(terms), dict[int, Array](), []
        sizes = zip(self._totals.tolist(), self._spreads.tolist(), strict=True)
        for output, (total, spread) in enumerate(sizes):
            bound = threshold_of(rules.significance / len(terms), self.size, total)
            about = terms, norms, bound, total, spread
            search = StreamedSearch(*about, self.blocks, self._table, output, known=known)
            found.append(select(search, rules))
        return found

    def against(self, terms: Terms, laws: list[SparseLaw]) -> Residuals:
        """Compare all terms with what laws leave of each output."""
        what, used = "higher terms against the residual", self._table.used
        inner, norms, squares = self.blocks.sum(what, passes.laws_against, terms, used, laws)
        return Residuals(inner, norms, squares, self._totals)

    def excess(self, simple: SparseLaw, law: SparseLaw, output: int) -> tuple[float, float, float]:
        """Return mean and standard error of the excess of squares, and the mean of y²."""
        what = "comparison with a lower degree"
        total, square = self.blocks.sum(what, passes.excess_squares, output, simple, law)
        mean = total / self.size
        error = float(np.sqrt(max(square - self.size * mean**2, 0.0))) / self.size
        return mean, error, float(self._totals[output]) / self.size


class GramTable:
    """Inner products of terms with each other and with the outputs; a pass for those not known yet.

    ``columns`` are the recurrences of the highest degree so far.
    """

    def __init__(self, blocks: Blocks, used: NDArray[np.int64]) -> None:
        self._blocks, self.used = blocks, used
        self.columns: Columns | None = None
        self._place: dict[Exponents, int] = {}
        self._gram = np.zeros((0, 0))
        self._right = np.zeros((0, blocks.outputs))

    def features(self, exponents: list[Exponents]) -> Features:
        """Return some terms as passes take them."""
        assert self.columns is not None  # a dictionary has been made
        return Features(self.columns, self.used, exponents)

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
        old = len(self._place)
        features = self.features([*self._place, *new])
        gram, right = self._blocks.sum(f"products of {len(new)} terms", passes.grams, features, old)
        corner = (gram[old:] + gram[old:].T) / 2
        self._gram = np.block([[self._gram, gram[:old]], [gram[:old].T, corner]])
        self._right = np.concatenate([self._right, right])
        self._place |= {alpha: old + k for k, alpha in enumerate(new)}

    def fit(self, exponents: list[Exponents], output: int, total: float) -> Fit:
        """Fit some terms without shrinkage; ``total`` is ‖y‖².

        Where sums would cancel, residuals by passes remove their rounding; where terms are nearly
        dependent, a pass decomposes them. The fit's ``residual`` holds the coefficients: rows are not
        kept.
        """
        gram, right = self.of(exponents, output)
        features = self.features(exponents)
        if (distinct := solve_distinct(gram)) is None:
            what = "nearly dependent terms"
            (triangle,) = passes.triangles(self._blocks, what, [features], output)
            return fit_triangle(triangle)
        factor, inverse = distinct
        coefficients = solve_factored(factor, right)
        square = total - float(coefficients @ right)
        if square < _CANCELS * total:
            for _ in range(2):  # the second removes the rounding of the first
                arguments = features, output, coefficients
                inner, square = self._blocks.sum("residual", passes.residual_products, *arguments)
                coefficients = coefficients + solve_factored(factor, inner)
        return Fit(coefficients, inverse, coefficients, square)


@dataclass
class StreamedSearch(Search):
    """The forward search of one output, on sums over blocks."""

    blocks: Blocks
    table: GramTable
    output: int

    def _features(self, places: list[int]) -> Features:
        return self.table.features([self.terms.exponents(j) for j in places])

    def _fit(self, active: list[int]) -> Fit:
        return self.table.fit(self._features(active).exponents, self.output, self.square)

    def closed(self, closure: list[Exponents]) -> tuple[Fit, Judge]:
        """Fit all terms of a closure, and return the judge of the models within it."""
        size, features = self.threshold.size, self.table.features(closure)
        judge = StreamedJudge(size, self.blocks, features, self.output)
        return self.table.fit(closure, self.output, self.square), judge

    def _products(self, active: list[int], new: list[int], residual: Array) -> Array:
        everything = self.terms.all_exponents()
        if self.table.holds(everything):
            gram, right = self.table.of(everything, self.output)
            if self.square - float(residual @ right[active]) >= _CANCELS * self.square:
                return np.column_stack([right - gram[:, active] @ residual, gram[:, new]])
        what = f"{len(self.terms):,} terms against the residual"
        model = self._features(active), residual, self._features(new)
        (inner,) = self.blocks.sum(what, passes.products_of_all, self.terms, self.output, *model)
        return np.asarray(inner)

    def _dependent(self, lists: list[list[Exponents]]) -> list[bool]:
        """Sums say which terms may be combinations of others, and one pass for all which are."""
        size = self.threshold.size
        able = [k for k, terms in enumerate(lists) if rows_to_spare(size, len(terms) - 1)]
        needed = {alpha for k in able for alpha in lists[k]}
        self.table.of(sorted(needed), self.output)  # one pass for all that are not known yet
        suspects = [k for k in able if self._suspicious(lists[k])]
        found = [False] * len(lists)
        if suspects:
            features = [self.table.features(lists[k]) for k in suspects]
            triangles = passes.triangles(self.blocks, "dependent terms", features)
            for k, triangle in zip(suspects, triangles, strict=True):
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
class StreamedJudge(Judge):
    """The judge of data in blocks, by passes."""

    blocks: Blocks
    closure: Features
    output: int

    def left_out(self, left: ReducedFit) -> Model:
        """Return what the residuals of rows left out are made of."""
        model = in_products(left)
        return model.coefficients, model.projection

    def _variances(self, left: ReducedFit) -> Array:
        influence = in_products(left).influence.astype(np.float64)
        arguments = self.left_out(left), influence
        (variances,) = self._sum("standard errors", passes.left_out_squares, *arguments)
        return np.asarray(variances)

    def _nearer(self, larger: Model, smaller: Model) -> float:
        (nearer,) = self._sum("votes of rows", passes.rows_nearer, [larger, smaller])
        return float(nearer)

    def _medians(self, larger: Model, smaller: Model) -> list[float]:
        """Return the median |e_i| of both, found sixteen bits at a time."""
        count = self.blocks.rows
        owners, ranks = [0, 0, 1, 1], [(count - 1) // 2, count // 2] * 2
        bits = [0] * len(owners)
        for shift in (48, 32, 16, 0):
            arguments = [larger, smaller], list(zip(owners, bits, strict=True)), shift
            (counts,) = self._sum("median residuals", passes.next_digits, *arguments)
            for i, sums in enumerate(np.cumsum(counts, axis=1)):
                digit = int(np.searchsorted(sums, ranks[i], side="right"))
                ranks[i] -= int(sums[digit - 1]) if digit else 0
                bits[i] = (bits[i] << 16) + digit
        values = np.array(bits, dtype=np.uint64).view(np.float64).reshape(-1, 2)
        return [float(low + high) / 2 for low, high in values]

    def _sum(self, what: str, function: Any, *arguments: Any) -> tuple[Any, ...]:
        return self.blocks.sum(what, function, self.closure, self.output, *arguments)
