"""Scores of attention heads: how those of selected keys lie above all others, for every input.

For every pair of roots that queries and keys read, a table has the scores of all pairs of values.
Pairs that the literals of a selector accept must share a score (per query), others must be lower.
Then, for any input, selected keys score t ± δ, others at most t − g + δ, and the beginning token t
+ [β₀, β₁], with t a function of the query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from exactformer.errors import CertificationError, SizeError
from exactformer.programs.blueprint import ProjectedHead
from exactformer.programs.proof.arithmetic import (
    NEVER,
    Array,
    at_least_smallest,
    plus,
    sum_above,
    sum_below,
    times,
    up,
)
from exactformer.programs.proof.state import Read, Reading, Root, State
from exactformer.programs.witness import Flags, Literal

MOST_SCORES = 40_000_000
"""Scores of one table."""


@dataclass(frozen=True)
class Scores:
    """How scores of a head lie, for every input, relative to that of selected keys."""

    spread: float
    """δ."""
    gap: float
    """g; infinite where everything is selected."""
    lowest: float
    """β₀: the beginning token's score, at least."""
    highest: float
    """β₁: at most."""
    own: float
    """By how much the beginning token prefers itself."""


class HeadScores:
    """The scores of one head, as far as what queries and keys read is proven."""

    def __init__(self, state: State, head: ProjectedHead, name: str) -> None:
        self.state, self.name = state, name
        self.facts, self.arithmetic = state.facts, state.arithmetic
        self.queries, self.keys = state.read(head.query), state.read(head.key)

    def _refusal(self, why: str) -> CertificationError:
        return CertificationError(f"{self.name}: {why}")

    def scores(self, literals: Sequence[Literal]) -> Scores:
        """Return how scores lie, for every input, given what is to be selected."""
        queries, keys = self.queries, self.keys
        accepted = self._accepted(literals)
        rounding = self._score_rounding(queries, keys)
        spread, gap, own = rounding, np.inf, 0.0
        refused = {
            query: ~accepts[:, 0] for (query, key), accepts in accepted.items() if key is None
        }
        beginning: dict[tuple[Root, ...], tuple[Array, Array]] = {}
        roots = {part.root for part in keys.parts} | {key for _, key in accepted}
        for key in sorted(roots, key=repr):
            for over, table, error, accepts in self._tables(key, accepted, queries, keys):
                never = refused.get(over[0]) if len(over) == 1 else None
                if key is None:  # alike for all keys: nothing is told apart
                    top, away, room = table[:, 0], float(error.max()), np.inf
                else:
                    top, away, room = self._levels(table, error, accepts, never)
                spread, gap = float(sum_above(spread, away)), min(gap, room)
                known, loss = beginning.get(over, (np.zeros(len(top)), np.zeros(len(top))))
                known, rest = plus(known, -top)
                beginning[over] = known, up(loss + rest)
        if keys.beginning is not None and queries.beginning is not None:
            for part in queries.parts:
                found, error = self._table(part, keys.beginning, part.root, None)
                over = () if part.root is None else (part.root,)
                known, loss = beginning.get(over, (np.zeros(len(found)), np.zeros(len(found))))
                known, rest = plus(known, found[:, 0])
                beginning[over] = known, up(loss + rest + error[:, 0])
            own = float(sum_below(self._prefers_itself(queries.beginning, keys), -2 * rounding))
        low = high = 0.0
        for over, (centre, radius) in beginning.items():
            if len(over) == 1 and over[0] in refused:
                centre, room = self._refusing(centre, radius, refused[over[0]])
                gap = min(gap, room)
            low = float(sum_below(low, sum_below(centre, -radius).min()))
            high = float(sum_above(high, sum_above(centre, radius).max()))
        if any((query,) not in beginning for query in refused):
            raise self._refusal("its head does not score selected positions above all others")
        low, high = float(sum_below(low, -rounding)), float(sum_above(high, rounding))
        return Scores(float(at_least_smallest(spread)), gap, low, high, own)

    def _refusing(self, centre: Array, away: Array, refused: Flags) -> tuple[Array, float]:
        """Return the beginning token's scores with those of queries that select nothing as for others.

        For such a query no key is selected, and how far keys are below may be counted from anywhere.
        """
        others = ~refused
        usual = float(centre[others].max()) if others.any() else 0.0
        least = sum_below(sum_below(centre, -away), -usual)
        room = float(least[refused].min()) if refused.any() else np.inf
        if not room > 0:
            raise self._refusal("a query that selects nothing scores some key too high")
        return np.where(refused, usual, centre), room

    def _tables(
        self,
        key: Root,
        accepted: Mapping[tuple[Root, Root], Flags],
        queries: Reading,
        keys: Reading,
    ) -> Iterator[tuple[tuple[Root, ...], Array, Array, Flags]]:
        """Yield tables that add up to the scores of a key's values, and which pairs are accepted.

        What queries read everywhere alike is part of the code of some root, as the bit that is always
        set is of a number's; it is added to the root's table. Where several roots meet the key, their
        values are taken together.
        """

        def table(query: Root) -> tuple[Array, Array, Flags]:
            found = self._table(queries.part(query), keys.part(key), query, key)
            return *found, accepted.get((query, key), np.ones(found[0].shape, bool))

        alike = table(None)
        others = [r for r in {*(p.root for p in queries.parts), *(q for q, _ in accepted)} if r]
        tables = [(root, table(root)) for root in sorted(others, key=repr)]
        tables = [t for t in tables if t[1][0].any() or t[1][1].any() or not t[1][2].all()]
        if not alike[0].any() and not alike[1].any() and bool(alike[2].all()):
            for root, found in tables:
                yield (root,), *found
            return
        if key is None:
            yield (), *alike
            for root, found in tables:
                yield (root,), *found
            return
        joined = alike
        for _, found in tables:
            rows = len(joined[0]) * len(found[0])
            if rows * joined[0].shape[1] > MOST_SCORES:
                raise SizeError(f"{self.name}: a head compares {rows:,} queries")
            times_over, again = len(found[0]), (len(joined[0]), 1)
            both, rest = plus(np.repeat(joined[0], times_over, axis=0), np.tile(found[0], again))
            joined = (
                both,
                up(rest + np.repeat(joined[1], times_over, axis=0) + np.tile(found[1], again)),
                np.repeat(joined[2], times_over, axis=0) & np.tile(found[2], again),
            )
        yield tuple(root for root, _ in tables), *joined

    def _accepted(self, literals: Sequence[Literal]) -> dict[tuple[Root, Root], Flags]:
        """Return which values of query and key the literals accept, by pairs of roots."""
        found: dict[tuple[Root, Root], Flags] = {}
        for literal in literals:
            accepts = self.facts.accepted(literal).T
            if accepts.all():
                continue
            key, query = self.facts.roots(literal)
            pair = self._root(query), self._root(key)
            if (accepts == accepts[:, :1]).all():
                pair, accepts = (pair[0], None), accepts[:, :1]
            elif (accepts == accepts[:1]).all():
                pair, accepts = (None, pair[1]), accepts[:1]
            found[pair] = found[pair] & accepts if pair in found else accepts
        return found

    def _root(self, node: int) -> Root:
        return None if len(self.facts.universe(node)) == 1 else (node, None)

    def _table(
        self, query: Read | None, key: Read | None, of_query: Root, of_key: Root
    ) -> tuple[Array, Array]:
        """Return the scores of all pairs of values of two roots, and radii."""
        if query is None or key is None:
            shape = self.state.values(of_query), self.state.values(of_key)
            return np.zeros(shape), np.zeros(shape)
        found, loss = times(query.centre, key.centre.T)
        error = loss + np.abs(query.centre) @ key.radius.T
        return found, up(error + query.radius @ (np.abs(key.centre) + key.radius).T)

    def _levels(
        self, table: Array, error: Array, accepted: Flags, never: Flags | None
    ) -> tuple[Array, float, float]:
        """Return the score that accepted pairs share, per query; how far they are from it; the gap.

        Queries that select nothing for another reason have the largest score of any key.
        """
        if never is not None:
            levels = np.asarray(sum_above(table, error).max(1))
            if never.all():
                return levels, 0.0, np.inf
            top, spread, least = self._levels(table[~never], error[~never], accepted[~never], None)
            levels[~never] = top
            return levels, spread, least
        top = sum_above(table, error)
        high = top.max(1)  # of accepted pairs, or there is no gap
        low = np.where(accepted, sum_below(table, -error), np.inf).min(1)
        other = np.where(accepted, -np.inf, top).max(1)
        some = accepted.any(1)
        middle = (high + low) / 2
        away = np.maximum(sum_above(high, -middle), sum_above(middle, -low))
        away = np.where(some, away, 0.0)
        gap = float(sum_below(middle, -other).min())
        if not some.any() or not gap > 0:
            raise self._refusal("its head does not score selected positions above all others")
        if not some.all():
            # Where a query accepts nothing, any level above all keys will do: that of other queries.
            level = np.maximum(middle[some].max(), other + (gap if np.isfinite(gap) else 0.0))
            middle = np.where(some, middle, level)
            gap = min(gap, float(sum_below(level, -other)[~some].min()))
            if not gap > 0:
                raise self._refusal("its head does not score selected positions above all others")
        return middle, float(away.max()), gap

    def _prefers_itself(self, query: Read, keys: Reading) -> float:
        if self.state.blueprint.causal:
            return np.inf
        assert keys.beginning is not None
        itself, error = self._table(query, keys.beginning, None, None)
        others = 0.0
        for key in keys.parts:
            scores, away = self._table(query, key, None, key.root)
            others = float(sum_above(others, sum_above(scores, away).max()))
        return float(sum_below(sum_below(itself, -error)[0, 0], -others))

    def _score_rounding(self, queries: Reading, keys: Reading) -> float:
        """Return what rounding can change in a score.

        Each row of query and key is a sum of its own, and a score is the sum of their products. Where
        all of these are exact, nothing is lost.
        """
        arithmetic = self.arithmetic
        lost, largest, lowest = [], [], []
        for side in (queries, keys):
            total, reach = self._sizes(side)
            arithmetic.check_range(total, f"{self.name}: a query or key")
            bits = side.lowest
            rounding = arithmetic.gamma(side.terms + 2.0) * total + side.terms * arithmetic.tiny
            lost.append(np.where(arithmetic.is_exact(total, bits), 0.0, rounding))
            largest.append(reach)
            lowest.append(bits)
        products = self._products(queries, keys)
        arithmetic.check_range(4 * products, f"{self.name}: a difference of scores")
        used = (largest[0] > 0) & (largest[1] > 0)
        exact = not lost[0].any() and not lost[1].any()
        together = (lowest[0] + lowest[1])[used].min(initial=NEVER)
        if exact and bool(arithmetic.is_exact(np.array(products), np.array(together, np.int64))):
            return 0.0
        rows = lost[0] @ (largest[1] + lost[1]) + largest[0] @ lost[1]
        terms = float(used.sum()) + 2
        dot = arithmetic.gamma(terms) * (products + rows) + terms * arithmetic.tiny
        return float(up(rows + dot))

    def _sizes(self, side: Reading) -> tuple[Array, Array]:
        """Return, for each row, bounds of what is added up for it, and of the sum."""
        total, reach = np.zeros(len(side.terms)), np.zeros(len(side.terms))
        for part in side.parts:
            total = total + part.size.max(0)
            reach = reach + (np.abs(part.centre) + part.radius).max(0)
        if side.beginning is not None:
            own = side.beginning
            total = np.maximum(total, own.size[0])
            reach = np.maximum(reach, np.abs(own.centre[0]) + own.radius[0])
        return up(total), reach

    def _products(self, queries: Reading, keys: Reading) -> float:
        """Return a bound of the sizes of the products that make up a score, added up."""

        def sizes(part: Read) -> Array:
            return np.abs(part.centre) + part.radius

        total = 0.0
        rows = [*queries.parts, *([queries.beginning] if queries.beginning else [])]
        for query in rows:
            for key in [*keys.parts, *([keys.beginning] if keys.beginning else [])]:
                total += float((sizes(query) @ sizes(key).T).max(initial=0.0))
        return float(up(np.float64(total)))
