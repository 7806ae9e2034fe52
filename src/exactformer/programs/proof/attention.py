"""Registers that attention heads write.

A head is proven against the conjunction of literals of the selector that its node names. With δ, g
and β as in :mod:`exactformer.programs.proof.scores`, softmax gives what is not selected a mass of
at most μ = (N − w)/w · exp(−g + 2δ), and, within the selected, differs from uniform weights by at
most tanh(δ/2) in total variation; a hard maximum gives it none where g > 2δ, and uniform weights
where δ = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from exactformer.algebra.rational import to_float
from exactformer.core.layers import Rule
from exactformer.errors import CertificationError
from exactformer.programs.blueprint import ProjectedHead
from exactformer.programs.program import AggregateNode, WidthNode
from exactformer.programs.proof.arithmetic import (
    SMALLEST,
    UNKNOWN,
    Array,
    at_least_smallest,
    sum_below,
    times,
    up,
)
from exactformer.programs.proof.cases import cases_of
from exactformer.programs.proof.scores import HeadScores, Scores
from exactformer.programs.proof.state import Reading, State
from exactformer.programs.values import Value, is_number
from exactformer.programs.witness import Flags, Integers

Code = Callable[[Sequence[Value], Integers], tuple[Array, Flags]]
"""From values, and places in them, to codes, and which of these there are."""


Proven = tuple[int, Array, Array]
"""A register's number, the codes that it holds, and radii."""


def prove_head(state: State, head: ProjectedHead, registers: Sequence[int]) -> list[Proven]:
    """Return what is proven of the registers that a head writes."""
    return [(number, *_Written(state, head, number).prove()) for number in registers]


class _Written:
    """One register that a head writes."""

    def __init__(self, state: State, head: ProjectedHead, number: int) -> None:
        self.state, self.head, self.number = state, head, number
        self.facts, self.arithmetic = state.facts, state.arithmetic
        self.register = state.blueprint.registers[number]
        self.tokens = self.facts.max_length
        self.hard = state.blueprint.selection.rule is Rule.HARD_MAX
        self.underflow: Array = np.zeros(len(self.register.directions))
        if state.blueprint.selection.temperature != 1 or (
            not self.hard and state.blueprint.selection.rule is not Rule.SOFTMAX
        ):
            raise CertificationError("heads of a program select by a hard maximum or by softmax")

    def prove(self) -> tuple[Array, Array]:
        """Return the codes that the register holds, and radii."""
        node = None if self.register.node is None else self.facts.nodes[self.register.node]
        head = HeadScores(self.state, self.head, self.state.name(self.number))
        if isinstance(node, WidthNode) and self.register.term is not None:
            literals = self.facts.terms(node.selector)[self.register.term]
            return self._width(node, head.scores(literals))
        if isinstance(node, AggregateNode) and self.register.term is None:
            conjunction = self.facts.conjunction(node.selector)
            if conjunction is not None:
                return self._aggregate(node, head.scores(conjunction))
        raise self._refusal("a head writes it, and it is neither an aggregate nor a width")

    def _refusal(self, why: str) -> CertificationError:
        return CertificationError(f"{self.state.name(self.number)}: {why}")

    # Values

    def _values(self) -> tuple[Reading, Array, Array]:
        """Return what the register's directions get from a position; what rounding changes; bits."""
        output, output_error = self.arithmetic.weights(self.head.output)
        value, value_error = self.arithmetic.weights(self.head.value)
        rows = list(self.register.directions)
        output, output_error = output[rows], output_error[rows]
        both, loss = times(output, value)
        errors = loss + np.abs(output) @ value_error + output_error @ (np.abs(value) + value_error)
        errors = np.where((output != 0).astype(float) @ (value != 0) > 0, errors, 0.0)
        reading = self.state.read_weights(both, errors)
        lowest = reading.lowest
        total = self.state.read_weights(np.abs(output) @ np.abs(value), np.zeros(both.shape))
        size = self._largest(total)
        plain = ((output != 0).sum(1) <= 1) & (np.frexp(output)[0] % 0.5 == 0).all(1)
        mixed = self.state.read_weights(value, value_error)
        count, name = self.tokens + self.state.blueprint.beginning, self.state.name(self.number)
        height = count * self._largest(mixed)
        self.arithmetic.check_range(height, f"{name}: a sum of values")
        self.arithmetic.check_range(np.abs(output) @ height, f"{name}: what its head writes")
        inexact = ~self.arithmetic.is_exact(height, mixed.lowest)
        exact = plain & self.arithmetic.is_exact(size, lowest) & ~(output[:, inexact] != 0).any(1)
        roundings = (value != 0).sum(1).max(initial=0) + output.shape[1] + 3
        tiny = roundings * self.arithmetic.tiny * (1 + np.abs(output).sum(1))
        lost = self.arithmetic.gamma(float(roundings)) * size + tiny
        self.underflow = (2 * count + 3) * count * tiny
        return reading, np.where(exact, 0.0, lost), np.where(exact, lowest, UNKNOWN)

    @staticmethod
    def _largest(reading: Reading) -> Array:
        total = np.zeros(len(reading.terms))
        for part in reading.parts:
            total = total + part.size.max(0)
        if reading.beginning is not None:
            total = np.maximum(total, reading.beginning.size[0])
        return up(total)

    def _mixing(self, size: Array, bits: Array, one_value: bool) -> Array:
        """Return what rounding can change in a mixture of values of a size."""
        arithmetic = self.arithmetic
        count = self.tokens + self.state.blueprint.beginning
        if arithmetic.format is None:
            return np.zeros(size.shape)
        if self.hard:
            fine = arithmetic.is_exact(up(count * size), bits.astype(np.int64))
            fine &= count <= 2.0**arithmetic.format.precision
            divided = arithmetic.gamma(1.0) * size + self.underflow
            whole = np.zeros(size.shape) if one_value else divided
            return np.where(fine, whole, arithmetic.gamma(2.0 * count + 3) * size + self.underflow)
        return self._weight_rounding(mixture=True, spread=True) * size + self.underflow

    def _weight_rounding(self, mixture: bool, spread: bool) -> Array:
        """Return the relative error of softmax weights and of a sum with them.

        An exponential, its subtraction of a maximum, a rescaling of what came before it (an exponential
        and a product, once for every sixteen keys where selected scores are not equal), the sum of the
        normaliser, a reciprocal, a product, and the sum of the mixture unless one term is not zero.
        """
        count = self.tokens + self.state.blueprint.beginning
        sums = count * (1.0 + mixture + spread)
        return self.arithmetic.gamma(2.0 * (2 * self.arithmetic.exponential + 8) + sums)

    def _width(self, node: WidthNode, scores: Scores) -> tuple[Array, Array]:
        state, register = self.state, self.register
        assert register.term is not None
        if not state.blueprint.beginning:
            raise self._refusal("a width is counted with a beginning token, and there is none")
        widths = np.array(self.facts.term_widths(node.selector, register.term), dtype=np.float64)
        spread = max(scores.spread, -scores.lowest, scores.highest)
        spread = float(at_least_smallest(spread))
        reading, lost, bits = self._values()
        assert reading.beginning is not None
        first = reading.beginning.centre[0]
        if any(part.centre.any() or part.radius.any() for part in reading.parts):
            raise self._refusal(
                "a width is read at the beginning token, and other positions add to it"
            )
        share = 1 / (widths + 1)
        relative = self._relative(scores, spread, widths)
        size = np.abs(first) + reading.beginning.radius[0] + lost
        if self.hard:
            rounding = self._mixing(size, bits, one_value=False)
        else:
            rounding = self._weight_rounding(mixture=False, spread=spread > 0) * size
            rounding = rounding + self.underflow
        rounded = share[:, None] * rounding[None, :]
        radius = share[:, None] * (relative[:, None] * size + reading.beginning.radius[0] + lost)
        radius = (
            radius + rounded * (1 + relative[:, None]) + share[:, None] * np.abs(first) * 2.0**-52
        )
        kept = self._kept(reading, scores, lost, bits)
        assert kept is not None
        found, radius = np.vstack([share[:, None] * first, kept[0]]), np.vstack([radius, kept[1]])
        centre, error = self.state.claimed(self.number)
        return centre, up(np.abs(centre - found) + radius + error)

    def _relative(self, scores: Scores, spread: float, widths: Array) -> Array:
        """Return the relative error of the share 1/(w + 1) of the beginning token."""
        if self.hard:
            if spread > 0:
                raise self._refusal(
                    "selected positions do not have exactly equal scores, and a hard maximum would "
                    "drop some"
                )
            return np.zeros(len(widths))
        leak = (self.tokens - widths) / (widths + 1)
        leak = leak * self._leak(_total(scores.gap, -scores.spread, -spread))
        return up(np.expm1(min(2 * spread, 700.0)) * (1 + leak) + leak)

    def _leak(self, room: float) -> float:
        """Return the most that a key whose score is lower by ``room`` weighs, next to one that is not.

        The exponential of x errs by a factor, and 4u·|x| in x: no more than if the room were smaller.
        However large the room, it is not zero.
        """
        if self.arithmetic.format is None:
            return max(float(np.exp(min(-room, 700.0))) * (1 + 2.0**-20), SMALLEST)
        less = room * (1 - 8 * self.arithmetic.format.unit)
        return max(2 * float(np.exp(min(-less, 700.0))), SMALLEST)

    def _kept(
        self, reading: Reading, scores: Scores, lost: Array, bits: Array
    ) -> tuple[Array, Array] | None:
        """Return what the beginning token gets, which attends itself, and radii."""
        if reading.beginning is None:
            return None
        if not scores.own > 0:
            raise self._refusal("the beginning token does not attend to itself alone")
        own = reading.beginning
        radius = own.radius[0] + lost
        if not self.hard:
            mass = self.tokens * self._leak(scores.own)
            radius = radius + self._range(reading) * mass
        size = np.abs(own.centre[0]) + own.radius[0] + lost
        return own.centre[0], radius + self._mixing(size, bits, one_value=True)

    @staticmethod
    def _range(reading: Reading) -> Array:
        """Return bounds of how far values at two positions can be apart."""
        size = np.zeros(len(reading.terms))
        for part in reading.parts:
            size = size + (np.abs(part.centre) + part.radius).max(0)
        if reading.beginning is not None:
            size = size + np.abs(reading.beginning.centre[0]) + reading.beginning.radius[0]
        return up(2 * size)

    def _aggregate(self, node: AggregateNode, scores: Scores) -> tuple[Array, Array]:
        assert self.register.node is not None
        number = self.register.node
        uniform, may_be_empty = self.facts.is_uniform(number), self.facts.may_be_empty(number)
        reading, lost, bits = self._values()
        code, nearness = self._code(number, node.values, uniform)
        roots = [part.root for part in reading.parts]
        cases = cases_of(self.state, roots, node.values, None)
        value, away = reading.at(cases.columns, len(cases))
        wanted, known = code(self.facts.universe(node.values), cases.target)
        error = np.where(known[:, None], np.abs(value - wanted) + away, 0.0)
        error = error.max(0, initial=0.0) + lost
        stray = self._range(reading)
        if may_be_empty:
            error = np.maximum(error, self._default(node, reading, code, scores, stray) + lost)
        size = self._largest(reading) + lost
        selecting = self._selecting(scores, uniform) * stray
        total = error + nearness + selecting + self._mixing(size, bits, one_value=uniform)
        centre, claimed_error = self.state.claimed(self.number)
        radius = np.broadcast_to(total, centre.shape) + claimed_error
        kept = self._kept(reading, scores, lost, bits)
        if kept is not None:
            radius = radius.copy()
            radius[-1] = np.abs(centre[-1] - kept[0]) + kept[1] + claimed_error[-1]
        return centre, up(radius)

    def _code(self, number: int, values: int, uniform: bool) -> tuple[Code, Array]:
        """Return the function from values to codes, and how far codes are from a linear one."""
        centre, error = self.state.claimed(self.number)
        universe = self.facts.universe(number)
        place = {value: k for k, value in enumerate(universe)}
        if uniform:

            def look_up(values: Sequence[Value], target: Integers) -> tuple[Array, Flags]:
                rows = np.array([place.get(value, -1) for value in values])[target]
                return centre[rows], rows >= 0

            return look_up, error.max(0)
        both = (*universe, *self.facts.universe(values))
        if len(universe) < 2 or not all(map(is_number, both)):
            raise self._refusal("a mean of things that are not different numbers")
        numbers = np.array([to_float(Fraction(value)) for value in universe])
        low, high = int(numbers.argmin()), int(numbers.argmax())
        slope = (centre[high] - centre[low]) / (numbers[high] - numbers[low])
        level = centre[low] - numbers[low] * slope
        line = numbers[:, None] * slope + level
        largest = max(abs(to_float(Fraction(value))) for value in both)
        size = largest * np.abs(slope) + np.abs(level) + np.abs(centre).max(0)
        nearness = np.abs(centre[: len(numbers)] - line).max(0) + error.max(0) + size * 2.0**-48

        def line_of(values: Sequence[Value], target: Integers) -> tuple[Array, Flags]:
            if not all(map(is_number, values)):
                raise self._refusal("its default is not a number")
            found = np.array([to_float(Fraction(value)) for value in values])[target]
            return found[:, None] * slope + level, np.ones(len(target), bool)

        return line_of, nearness

    def _default(
        self, node: AggregateNode, reading: Reading, code: Code, scores: Scores, stray: Array
    ) -> Array:
        """Return how far the output can be from the default's code where nothing is selected."""
        if reading.beginning is None:
            raise self._refusal("nothing may be selected, and there is no beginning token")
        wanted, known = code([self.facts.value(node.default)], np.zeros(1, np.int64))
        if not known[0]:
            raise self._refusal("its default has no code")
        room = _total(scores.gap, scores.lowest, -scores.spread)
        if not room > 0:
            raise self._refusal("where nothing is selected, other positions outweigh the default")
        away = np.abs(reading.beginning.centre[0] - wanted[0]) + reading.beginning.radius[0]
        if self.hard:
            return np.asarray(away)
        mass = self.tokens * self._leak(room)
        return np.asarray(away + stray * mass)

    def _selecting(self, scores: Scores, uniform: bool) -> float:
        """Return how far weights can be from uniform ones on the selected positions."""
        beginning = self.state.blueprint.beginning
        below = _total(-scores.highest, -scores.spread) if beginning else np.inf
        room = _total(scores.gap, -2 * scores.spread)
        if not (room > 0 and below > 0):
            raise self._refusal("its head does not score selected positions above all others")
        if self.hard:
            if scores.spread > 0 and not uniform:
                raise self._refusal(
                    "selected positions do not have exactly equal scores, and a hard maximum would "
                    "drop some"
                )
            return 0.0
        mass = (self.tokens - 1) * self._leak(room) + self._leak(below)
        return float(up(mass + (0.0 if uniform else np.tanh(scores.spread / 2))))


def _total(*numbers: float) -> float:
    """Return a sum, not above the true one."""
    total = 0.0
    for number in numbers:
        total = float(sum_below(total, number))
    return total
