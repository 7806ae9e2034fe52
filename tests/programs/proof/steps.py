"""Single steps of proofs of programs: comparisons with rationals, and states made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer import rasp
from exactformer.core.formats import FORMATS
from exactformer.core.layers import Rule, Selection
from exactformer.core.matrix import Matrix
from exactformer.programs.blueprint import ProgramBlueprint, Register
from exactformer.programs.proof.arithmetic import Arithmetic, Array
from exactformer.programs.proof.facts import Facts
from exactformer.programs.proof.state import State
from exactformer.programs.tabulation import tabulate
from tests.cases.programs import facts_of

FORMAT_NAMES = tuple(FORMATS)
Exact = NDArray[Any]
ROOM = 1 + Fraction(1, 2**17)
"""Every bound is raised by 2^−20 a few times; this is more, and less than any term that is missing."""


def exact(array: Any) -> Exact:
    """Return floats as rationals."""
    return np.vectorize(Fraction, otypes=[object])(np.asarray(array, dtype=np.float64))


def holds(found: Any, formula: Any) -> None:
    """Assert that bounds in float64 are not below those of a formula in rationals, and hardly above."""
    found, formula = np.broadcast_arrays(np.asarray(found, dtype=np.float64), formula)
    for bound, truth in zip(found.ravel().tolist(), formula.ravel().tolist(), strict=True):
        assert truth <= Fraction(bound) <= truth * ROOM


def nearly(found: Any, formula: Any) -> None:
    """Assert that numbers in float64 are those of a formula, up to what bounds are raised by."""
    found, formula = np.broadcast_arrays(np.asarray(found, dtype=np.float64), formula)
    for number, truth in zip(found.ravel().tolist(), formula.ravel().tolist(), strict=True):
        assert abs(Fraction(number) - Fraction(truth)) <= abs(Fraction(truth)) * (ROOM - 1)


@dataclass(frozen=True)
class Loose(Arithmetic):
    """Arithmetic whose weights are known up to a share of themselves: their errors count."""

    share: float = 0.0

    def weights(self, matrix: Matrix) -> tuple[Array, Array]:
        """Return weights as floats, and that share of them."""
        values = np.zeros(matrix.shape)
        for i, j, value in matrix:
            values[i, j] = float(value)
        return values, np.abs(values) * self.share


def arithmetic_of(name: str | None, share: float = 0.0) -> Loose:
    """Return the arithmetic of a format, or exact arithmetic."""
    return Loose(None if name is None else FORMATS[name], share)


def drawn(rng: np.random.Generator, rows: int, columns: int, empty: float = 0.3) -> Matrix:
    """Return a matrix of multiples of 1/64 between −2 and 2, some of them zero."""
    numbers = rng.integers(-128, 129, (rows, columns)) * (rng.random((rows, columns)) >= empty)
    return Matrix.of(
        rows, columns, {(i, j): Fraction(int(n), 64) for (i, j), n in np.ndenumerate(numbers)}
    )


@cache
def _facts(expression: rasp.SOp, vocabulary: Any, max_length: int, causal: bool) -> Facts:
    return facts_of(tabulate(expression, vocabulary, max_length, causal))


def made_state(
    expression: rasp.SOp,
    registers: Sequence[tuple[int | None, int | None, int]],
    arithmetic: Arithmetic,
    *,
    vocabulary: Any = (0, 1, 3),
    max_length: int = 3,
    rule: Rule = Rule.SOFTMAX,
    beginning: bool = True,
    causal: bool = False,
    seed: int = 0,
) -> State:
    """Return the state of a model with registers of a node, a term and so many directions.

    The codes that they are meant to hold are drawn. Nothing is held yet.
    """
    facts = _facts(expression, tuple(vocabulary), max_length, causal)
    rng, made, width = np.random.default_rng(seed), [], 0
    for node, term, count in registers:
        rows = 1
        if node is not None:
            rows = len(facts.universe(node))
        if term is not None:
            selector: Any = facts.nodes[node or 0]
            rows = len(facts.term_widths(selector.selector, term))
        directions = tuple(range(width, width + count))
        made.append(Register(node, term, directions, drawn(rng, rows + beginning, count, 0.0)))
        width += count
    blueprint = ProgramBlueprint(
        Matrix.of(len(facts.program.vocabulary) + beginning, width, {}),
        Matrix.of(max_length + beginning, width, {}),
        (),
        Matrix.of(1, width, {}),
        Selection(rule),
        causal,
        beginning,
        tuple(made),
        tuple(map(str, range(width))),
    )
    return State(blueprint, facts, arithmetic)


def hold(state: State, numbers: Sequence[int], seed: int = 0, radius: float = 0.125) -> None:
    """Let registers hold codes that are drawn, up to radii that are drawn: multiples of 1/4096."""
    rng = np.random.default_rng(seed)
    for number in numbers:
        shape = state.claimed(number)[0].shape
        radii = rng.integers(0, 4097, shape) / 4096 * radius
        state.hold(number, rng.integers(-128, 129, shape) / 64, radii)
