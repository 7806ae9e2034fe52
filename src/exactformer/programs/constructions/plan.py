"""From a tabulated program to a blueprint, each node as early as its parts allow.

*Free.* A function of one node is another way to read its code. A linear map of numbers is a
functional.

*Selectors.* A conjunction of literals has scores λ Σ (P − 1), which is 0 where all hold and at most
−λ where one does not. The beginning token scores 0 for widths, −λ/2 where nothing may be selected,
else −λ, and selects itself only.

*Aggregates.* The value of the beginning token is the default. A shared value is moved: one
direction per value. A mean is one number.

*Widths.* Position i reads 1 at the beginning token: 1/(w + 1). ReLUs make bits [w ≤ k] of it.

*Numbers* become values by bits [z > t], two ReLUs each: relu(Lz − a) − relu(Lz − a − 1).

*Pairs* of values have one ReLU for each combination that matters: relu([x = a] + [y in B] − 1), or
two with more room where a code comes straight from a head.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import lcm

import numpy as np

from exactformer.core.layers import Rule, Selection
from exactformer.errors import InputError
from exactformer.programs.analysis import Analysis
from exactformer.programs.blueprint import ProgramBlueprint
from exactformer.programs.constructions.stream import Reading, Stream, Weights, added, scaled
from exactformer.programs.program import (
    AggregateNode,
    IndicesNode,
    LinearNode,
    PairNode,
    Program,
    SelectNode,
    TokensNode,
    WidthNode,
)
from exactformer.programs.values import Value, is_number
from exactformer.programs.witness import Flags, Literal

_HALF = Fraction(1, 2)


def construct(
    program: Program,
    analysis: Analysis,
    rule: Rule = Rule.HARD_MAX,
    sharpness: Fraction = Fraction(1),
    beginning: bool = True,
) -> ProgramBlueprint:
    """Return a blueprint for a program, with hard maxima or with softmax of a given sharpness."""
    plan = _Plan(program, analysis, sharpness, beginning)
    if program.numerical:
        readout = [plan.number(program.output).weights[0]]
    else:
        readout = list(plan.indicators(program.output).weights)
    metadata = {"sharpness": str(sharpness)}
    return plan.stream.blueprint(readout, Selection(rule), program.causal, metadata)


class _Plan:
    """Readings of the nodes of one program, made when they are first wanted."""

    def __init__(
        self, program: Program, analysis: Analysis, sharpness: Fraction, beginning: bool
    ) -> None:
        self.program, self.analysis, self.sharpness = program, analysis, sharpness
        self.stream = Stream(len(program.vocabulary), program.max_length, beginning)
        self._codes: dict[int, Reading] = {}
        self._clean: dict[int, Reading] = {}
        self._means: set[int] = set()
        self._numbers: dict[int, Reading] = {}

    @property
    def _one(self) -> Weights:
        return {self.stream.one: Fraction(1)}

    def _name(self, node: int) -> str:
        return self.program.names[node]

    def _need_beginning(self, node: int, why: str) -> None:
        if not self.stream.beginning:
            raise InputError(
                f"{self._name(node)} {why}, which takes a beginning token; compile with "
                "beginning=True"
            )

    # Readings

    def indicators(self, node: int, clean: bool = False) -> Reading:
        """Return a functional for each value of a node: 1 where the node has it, else 0."""
        if node not in self._codes:
            self._codes[node] = self._indicators(node)
        found = self._codes[node]
        if not clean or not found.rough:
            return found
        if node not in self._clean:
            root = self.analysis.known[node].root
            if root != node and not self.is_number(root):
                self._clean[node] = self._image(node, self.indicators(root, clean=True))
            else:
                self._clean[node] = self._cleaned(node, found)
        return self._clean[node]

    def number(self, node: int) -> Reading:
        """Return the functional that is the number which a node has."""
        known = self.analysis.known[node]
        if strange := [v for v in known.universe if not is_number(v)]:
            raise InputError(
                f"{self._name(node)} is to be written as a number and can be {strange[0]!r}; give the "
                "expression that it comes from a default that is a number"
            )
        if known.root == node and self.is_number(node):
            return self._as_number(node)
        codes = self.indicators(node)
        if codes.moved:
            codes = self.indicators(node, clean=True)
        parts = (scaled(w, Fraction(v)) for w, v in zip(codes.weights, known.universe, strict=True))
        return Reading((added(*parts),), codes.time)

    def is_number(self, root: int) -> bool:
        """Whether a node is written as a number first: a mean, or a linear map."""
        node = self.analysis.nodes[root]
        if len(self.analysis.universe(root)) == 1:
            return False
        if isinstance(node, AggregateNode):
            return not self.analysis.is_uniform(root)
        return isinstance(node, LinearNode) and all(map(is_number, self.analysis.universe(root)))

    def _indicators(self, number: int) -> Reading:
        known, analysis = self.analysis.known[number], self.analysis
        if len(known.universe) == 1:
            return Reading((self._one,), 0)
        root = known.root
        node = analysis.nodes[root]
        if self.is_number(root):
            reading = self._as_number(root)
            values = [Fraction(v) for v in analysis.universe(root)]
            return self._decoded(number, reading, values, known.image.tolist())
        if root != number:
            return self._image(number, self.indicators(root))
        if isinstance(node, TokensNode | IndicesNode):
            return self._embedded(number, isinstance(node, TokensNode))
        if isinstance(node, WidthNode):
            return self._width(number, node)
        if isinstance(node, AggregateNode):
            return self._moved(number, node)
        assert isinstance(node, PairNode | LinearNode)
        return self._pair(number, node)

    def _image(self, number: int, base: Reading) -> Reading:
        """Return indicators of a function of a node, from those of the node."""
        known = self.analysis.known[number]
        weights: list[Weights] = [{} for _ in known.universe]
        for own, at in zip(base.weights, known.image.tolist(), strict=True):
            weights[at] = added(weights[at], own)
        return replace(base, weights=tuple(weights))

    def _embedded(self, number: int, tokens: bool) -> Reading:
        universe = self.analysis.universe(number)
        places = self.stream.directions(f"{self._name(number)}: {v!r}" for v in universe)
        codes: list[Weights] = [{place: Fraction(1)} for place in places]
        for k, code in enumerate(codes):
            if tokens:
                self.stream.token_rows[k].update(code)
            else:
                self.stream.position_rows[k + self.stream.beginning].update(code)
        self.stream.register(number, None, places, codes)
        return Reading(tuple(codes), 0)

    def _as_number(self, root: int) -> Reading:
        if root not in self._numbers:
            node = self.analysis.nodes[root]
            if isinstance(node, LinearNode):
                parts = [self.number(part) for part in (node.first, node.second)]
                weights = [
                    scaled(part.weights[0], factor)
                    for part, factor in zip(parts, (node.a, node.b), strict=True)
                ]
                made = Reading((added(*weights),), max(part.time for part in parts))
            else:
                assert isinstance(node, AggregateNode)
                made = self._mean(root, node)
            self._numbers[root] = made
        return self._numbers[root]

    # Attention

    def _scores(
        self, literals: Sequence[Literal], beginning: Fraction, clean: bool
    ) -> tuple[list[Weights], list[Weights], int]:
        """Return rows of queries and keys, and when they can be read."""
        queries: list[Weights] = []
        keys: list[Weights] = []
        constant, time = Fraction(0), 0
        for literal in literals:
            node = self.analysis.selectors[literal.select]
            assert isinstance(node, SelectNode)
            accepts = self.analysis.predicate(literal.select) != literal.negated
            if accepts.all():
                continue
            key, query = self.indicators(node.keys, clean), self.indicators(node.queries, clean)
            time = max(time, key.time, query.time)
            rows = _factored(accepts, key.weights, query.weights)
            constant -= rows[2]
            queries += [self._query(row) for row in rows[0]]
            keys += [self.stream.zeroed(row) for row in rows[1]]
        if constant:
            queries.append(self._query(scaled(self._one, constant)))
            keys.append(self._one)
        if self.stream.beginning:
            own = {} if self.program.causal else {self.stream.bos: 2 * self.sharpness}
            queries.append(added(own, scaled(self._one, beginning * self.sharpness)))
            keys.append({self.stream.bos: Fraction(1)})
        return queries, keys, time

    def _query(self, weights: Weights) -> Weights:
        return scaled(self.stream.zeroed(weights), self.sharpness)

    def _attend(
        self,
        literals: Sequence[Literal],
        beginning: Fraction,
        clean: bool,
        values: Reading,
        at_beginning: Sequence[Fraction],
        names: Sequence[str],
    ) -> tuple[list[int], int]:
        """Plan a head; return the directions that it writes to, and when."""
        queries, keys, time = self._scores(literals, beginning, clean)
        time = max(time, values.time)
        time += 1 + time % 2
        stream = self.stream
        head = stream.head((tuple(literals), beginning, clean), time, queries, keys)
        places = stream.directions(names, at_beginning)
        for weights, default, place in zip(values.weights, at_beginning, places, strict=True):
            default_row = {stream.bos: default} if stream.beginning and default else {}
            head.values.append(added(stream.zeroed(weights), default_row))
            head.outputs.append(place)
        return places, time

    def _default(self, number: int, node: AggregateNode) -> tuple[Fraction, Value]:
        """Return the score of the beginning token in units of λ, and the default if it can be met."""
        if self.analysis.may_be_empty(number):
            self._need_beginning(number, "may select nothing")
            return -_HALF, self.program.values[node.default]
        return Fraction(-1), _NEVER

    def _moved(self, number: int, node: AggregateNode) -> Reading:
        beginning, default = self._default(number, node)
        literals = self.analysis.conjunction(node.selector)
        assert literals is not None
        universe = self.analysis.universe(number)
        held = self.indicators(node.values)
        by_value = dict(zip(self.analysis.universe(node.values), held.weights, strict=True))
        values = Reading(tuple(by_value.get(v, {}) for v in universe), held.time)
        defaults = [Fraction(int(default is not _NEVER and v == default)) for v in universe]
        names = [f"{self._name(number)}: {v!r}" for v in universe]
        places, time = self._attend(literals, beginning, False, values, defaults, names)
        codes: list[Weights] = [{place: Fraction(1)} for place in places]
        self.stream.register(number, None, places, codes)
        weights = tuple(self.stream.zeroed(code) for code in codes)
        return Reading(weights, time, tuple(places), moved=True)

    def _mean(self, number: int, node: AggregateNode) -> Reading:
        beginning, default = self._default(number, node)
        if default is not _NEVER and not is_number(default):
            raise InputError(
                f"{self._name(number)} is a mean of numbers, and its default is {default!r}, which is "
                "not one; give default=0 or another number"
            )
        literals = self.analysis.conjunction(node.selector)
        assert literals is not None
        values = self.number(node.values)
        at = Fraction(0) if default is _NEVER else Fraction(default)
        names = [self._name(number)]
        places, time = self._attend(literals, beginning, True, values, [at], names)
        codes = [{places[0]: Fraction(v)} for v in self.analysis.universe(number)]
        self.stream.register(number, None, places, codes)
        self._means.update(places)
        return Reading((self.stream.zeroed({places[0]: Fraction(1)}),), time)

    def _width(self, number: int, node: WidthNode) -> Reading:
        self._need_beginning(number, "counts positions")
        terms = self.analysis.terms(node.selector)
        parts = [self._term(number, k, len(terms)) for k in range(len(terms))]
        if len(parts) == 1:
            return parts[0][0]
        totals = [
            added(
                *(scaled(weights, v) for weights, v in zip(reading.weights, universe, strict=True))
            )
            for reading, universe in parts
        ]
        reading = Reading((added(*totals),), max(part.time for part, _ in parts))
        values = [Fraction(v) for v in self.analysis.universe(number)]
        return self._decoded(number, reading, values, range(len(values)))

    def _term(self, number: int, term: int, terms: int) -> tuple[Reading, list[int]]:
        """Return the indicators of one term of a width, and its values."""
        node = self.analysis.nodes[number]
        assert isinstance(node, WidthNode)
        universe = self.analysis.term_widths(node.selector, term)
        if len(universe) == 1:
            return Reading((self._one,), 0), universe
        literals = self.analysis.terms(node.selector)[term]
        suffix = f" ({term + 1} of {terms})" if terms > 1 else ""
        name = self._name(number) + suffix
        places, time = self._attend(
            literals, Fraction(0), True, Reading(({},), 0), [Fraction(1)], [f"1/(1 + {name})"]
        )
        codes = [{places[0]: Fraction(1, w + 1)} for w in universe]
        self.stream.register(number, term, places, codes)
        reading = Reading((self.stream.zeroed({places[0]: Fraction(1)}),), time)
        values = [Fraction(1, w + 1) for w in universe]
        decoded = self._decoded(number, reading, values, range(len(values)), term, name, universe)
        return decoded, universe

    # ReLUs

    def _decoded(
        self,
        number: int,
        reading: Reading,
        points: Sequence[Fraction],
        outputs: Sequence[int],
        term: int | None = None,
        name: str | None = None,
        universe: Sequence[Value] | None = None,
    ) -> Reading:
        """Return indicators of a node, from a number: bits [z > t] where its value changes."""
        universe = self.analysis.universe(number) if universe is None else universe
        name = name or self._name(number)
        # Whole weights: with a power of two for a slope, ReLUs of codes have no rounding error.
        scale = lcm(*(w.denominator for w in reading.weights[0].values()))
        order = sorted((scale * z, out) for z, out in zip(points, outputs, strict=True))
        changes = [
            (low, high, out) for (low, before), (high, out) in pairwise(order) if before != out
        ]
        time = reading.time + 2 - reading.time % 2
        places = self.stream.directions(
            f"{name}: above {float(low / scale):.4g}" for low, _, _ in changes
        )
        z = scaled(reading.weights[0], scale)
        for place, (low, high, _) in zip(places, changes, strict=True):
            slope, offset = _ramp(low, high)
            for shift, sign in ((0, 1), (1, -1)):
                self.stream.unit(time, scaled(z, slope), -offset - shift, {place: Fraction(sign)})
        # The bits before and after every stretch of equal values.
        edges = [self._one, *({place: Fraction(1)} for place in places), {}]
        stretches = [order[0][1], *(out for _, _, out in changes)]
        weights: list[Weights] = [{} for _ in universe]
        for k, out in enumerate(stretches):
            weights[out] = added(weights[out], edges[k], scaled(edges[k + 1], -1))
        if len(set(stretches)) == len(stretches):
            level = {out: k for k, out in enumerate(stretches)}
            self.stream.register_levels(
                number, term, places, [level[k] for k in range(len(universe))]
            )
        else:  # a value on several stretches: the bits code the root
            root, starts = (
                self.analysis.known[number].root,
                [high / scale for _, high, _ in changes],
            )
            levels = [bisect_right(starts, v) for v in map(Fraction, self.analysis.universe(root))]
            self.stream.register_levels(root, None, places, levels)
        means = sum(d in self._means for d in z)
        loose = means > 1 or (means == 1 and (len(z) > 2 or order[0][0] < 0))
        return Reading(tuple(weights), time, tuple(places) if loose else ())

    def _pair(self, number: int, node: PairNode | LinearNode) -> Reading:
        analysis = self.analysis
        universe = analysis.universe(number)
        place = {value: k for k, value in enumerate(universe)}
        outputs = {
            pair: place[value]
            for pair, value in analysis.outputs_of_pairs(node, self._name(number)).items()
        }
        groups = min(_groups(outputs, 0), _groups(outputs, 1), key=len)
        if line := self._line(node, outputs, len(groups)):
            return self._decoded(number, *line)
        first, second = self.indicators(node.first), self.indicators(node.second)
        sizes = [0] * len(universe)
        for _, _, out in groups:
            sizes[out] += 1
        rest = max(range(len(universe)), key=sizes.__getitem__)
        shown = [k for k in range(len(universe)) if k != rest]
        rough = bool(first.rough or second.rough)
        time = max(first.time, second.time)
        time += 2 - time % 2
        places = dict(
            zip(
                shown,
                self.stream.directions(f"{self._name(number)}: {universe[k]!r}" for k in shown),
                strict=True,
            )
        )
        for a, b, out in groups:
            if out == rest:
                continue
            both = added(*(first.weights[k] for k in a), *(second.weights[k] for k in b))
            write = {places[out]: Fraction(1)}
            if rough:
                self.stream.unit(time, scaled(both, 2), Fraction(-5, 2), write)
                self.stream.unit(time, scaled(both, 2), Fraction(-7, 2), scaled(write, -1))
            else:
                self.stream.unit(time, both, Fraction(-1), write)
        codes: list[Weights] = [
            {places[k]: Fraction(1)} if k != rest else {} for k in range(len(universe))
        ]
        self.stream.register(number, None, list(places.values()), codes)
        weights = [dict(code) for code in codes]
        weights[rest] = added(self._one, *(scaled(code, -1) for code in codes))
        return Reading(tuple(weights), time)

    def _line(
        self, node: PairNode | LinearNode, outputs: dict[tuple[int, int], int], groups: int
    ) -> tuple[Reading, list[Fraction], list[int]] | None:
        """Return a number that determines a pair's value, x + y or x − y, where that is cheaper."""
        xs, ys = (self.analysis.universe(part) for part in (node.first, node.second))
        if not all(is_number(v) for v in (*xs, *ys)):
            return None
        for sign in (1, -1):
            found: dict[Fraction, int] = {}
            for (a, b), out in outputs.items():
                z = Fraction(xs[a]) + sign * Fraction(ys[b])
                if found.setdefault(z, out) != out:
                    break
            else:
                points = sorted(found)
                changes = sum(found[a] != found[b] for a, b in pairwise(points))
                if 2 * changes >= groups or changes + 1 > len(set(found.values())):
                    return None
                parts = [self.number(part) for part in (node.first, node.second)]
                weights = added(parts[0].weights[0], scaled(parts[1].weights[0], sign))
                reading = Reading((weights,), max(part.time for part in parts))
                return reading, points, [found[z] for z in points]
        return None

    def _cleaned(self, number: int, reading: Reading) -> Reading:
        """Return a code once more, exact: relu(2x − 1/2) − relu(2x − 3/2) is 0 or 1."""
        stream, time = self.stream, reading.time + 2 - reading.time % 2
        bos = stream.bos if stream.beginning else None
        register = next(r for r in stream.registers if r.directions == reading.rough)
        places = stream.directions(f"{stream.names[d]}, exact" for d in reading.rough)
        new = dict(zip(reading.rough, places, strict=True))
        for old, place in new.items():
            weights = stream.zeroed({old: Fraction(1)})
            for bias, sign in ((-_HALF, 1), (-3 * _HALF, -1)):
                stream.unit(time, scaled(weights, 2), bias, {place: Fraction(sign)})
        rows = register.steps.rows - stream.beginning
        steps = {place: v for place, v in register.steps.entries.items() if place[0] < rows}
        stream.register_steps(register.node, register.term, places, rows, steps)
        found = (
            {new.get(d, d): v for d, v in weights.items() if d != bos}
            for weights in reading.weights
        )
        return Reading(tuple(map(stream.zeroed, found)), time)


class _Never:
    """In place of a default that no input meets."""


_NEVER = _Never()


def _ramp(low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
    """Return L and a such that Lz − a rises from below 0 at ``low`` to above 1 at ``high``.

    L is a power of two and a a multiple of a quarter, so that ReLUs of floats are often exact.
    """
    gap = high - low
    slope = Fraction(1)
    while slope * gap < 2:
        slope *= 2
    while slope * gap >= 4:
        slope /= 2
    middle = slope * (low + high) / 2 - _HALF
    return slope, Fraction(round(4 * middle), 4)


def _groups(
    outputs: dict[tuple[int, int], int], side: int
) -> list[tuple[tuple[int, ...], tuple[int, ...], int]]:
    """Return products {a} × B on which a table is constant, with one value on the given side."""
    found: dict[tuple[int, int], list[int]] = {}
    for pair, out in outputs.items():
        found.setdefault((pair[side], out), []).append(pair[1 - side])
    if side:
        return [(tuple(others), (own,), out) for (own, out), others in found.items()]
    return [((own,), tuple(others), out) for (own, out), others in found.items()]


def _factored(
    accepts: Flags, keys: Sequence[Weights], queries: Sequence[Weights]
) -> tuple[list[Weights], list[Weights], int]:
    """Return rows with Σ query·key = P − 1 + c, from indicators, and c, which is 0 or 1.

    Equal rows of the predicate share a row. The rows are those of keys or of queries, whichever are
    fewer; they list what is accepted (c = 1) or what is not (c = 0), whichever is less.
    """
    c = int(accepts.mean() <= 0.5)
    table = accepts if c else ~accepts
    sign = 1 if c else -1
    if len(np.unique(table, axis=0)) > len(np.unique(table, axis=1).T):
        key_rows, query_rows = _rows_of(table.T, queries, keys, sign)
        return query_rows, key_rows, c
    query_rows, key_rows = _rows_of(table, keys, queries, sign)
    return query_rows, key_rows, c


def _rows_of(
    table: Flags, own: Sequence[Weights], others: Sequence[Weights], sign: int
) -> tuple[list[Weights], list[Weights]]:
    """Return the rows of others and of own, one per different row of the table."""
    different, back = np.unique(table, axis=0, return_inverse=True)
    back = back.ravel()
    other_rows, own_rows = [], []
    for k, row in enumerate(different):
        if not row.any():
            continue
        other_rows.append(added(*(scaled(others[j], sign) for j in np.flatnonzero(row).tolist())))
        own_rows.append(added(*(own[j] for j in np.flatnonzero(back == k).tolist())))
    return other_rows, own_rows
