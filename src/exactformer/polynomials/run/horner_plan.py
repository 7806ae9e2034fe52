"""Horner's scheme for polynomials in several variables, as a list of steps.

A polynomial in y = x − c is a tree: a node is a monomial y_j ⋯ y_k in ascending order of its
variables, its children are its products with y_k or a later variable, and

    value(node) = coefficient + Σ_j y_j · value(child_j).

So every term costs one multiplication and one addition, and no monomial is ever stored. A node keeps
its running value in the row of its level; a child is computed one level deeper, but the first one in
its parent's own row. Later variables come first: they have the smaller subtrees, and whatever is added
early meets the additions that follow. A term then meets hardly more than d + q of them.

A scheme is exact numbers, nothing that runs; a proof reads it as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from fractions import Fraction

Terms = Mapping[tuple[int, ...], Fraction]
"""{exponents: coefficient}."""

Leaf = tuple[int, Fraction]
"""A variable and its weight."""


class Action(IntEnum):
    """What a step does to the row S of its level; T is the row below, y the step's variable.

    Sums run from left to right, over the step's leaves (y_i, c_i).
    """

    BEGIN = 0  # S = constant + Σ c_i y_i
    CHAIN = 1  # S = c_i + y S, for one leaf after the other; all are of the variable y
    LEAVES = 2  # S = S + Σ c_i y_i
    FOLD = 3  # S = S + y T
    ADD = 4  # S = S + y (constant + Σ c_i y_i)
    OUT = 5  # S is the output with the number of the step's variable


@dataclass(frozen=True)
class Step:
    """One action on a row."""

    action: Action
    level: int
    variable: int = 0
    constant: Fraction = Fraction(0)
    leaves: tuple[Leaf, ...] = ()


@dataclass(frozen=True)
class Scheme:
    """The steps that compute all outputs, one after the other."""

    dimension: int
    centre: tuple[Fraction, ...]
    """Empty for the origin."""
    outputs: int
    steps: tuple[Step, ...]

    @property
    def rows(self) -> int:
        """How many rows the steps use."""
        return 2 + max(step.level for step in self.steps)

    @property
    def cost(self) -> float:
        """Multiply-adds of a point, and what passes over rows cost beside them."""
        return sum(len(step.leaves) + 1.5 for step in self.steps)


@dataclass
class _Node:
    coefficient: Fraction = Fraction(0)
    children: dict[int, _Node] = field(default_factory=dict)

    def leaves(self) -> tuple[Leaf, ...]:
        found = ((j, node.coefficient) for j, node in self.children.items() if not node.children)
        return tuple(sorted(found, reverse=True))

    def branches(self) -> list[tuple[int, _Node]]:
        own = ((j, node) for j, node in self.children.items() if node.children)
        return sorted(own, key=lambda item: -item[0])


def scheme(
    polynomials: Sequence[Terms], dimension: int, centre: Sequence[Fraction]
) -> Scheme | None:
    """Return Horner's scheme of polynomials in y = x − c; ``None`` for linear ones."""
    if max((sum(a) for table in polynomials for a in table), default=0) < 2:
        return None
    steps: list[Step] = []
    for output, table in enumerate(polynomials):
        steps += _joined(_steps(_tree(table)))
        steps.append(Step(Action.OUT, 0, output))
    offset = tuple(centre) if any(centre) else ()
    return Scheme(dimension, offset, len(polynomials), tuple(steps))


def _tree(table: Terms) -> _Node:
    root = _Node()
    for exponents, value in table.items():
        node = root
        for j, exponent in enumerate(exponents):
            for _ in range(exponent):
                node = node.children.setdefault(j, _Node())
        node.coefficient = value
    return root


def _steps(root: _Node) -> Iterator[Step]:
    """Yield the steps of a tree in order, without recursion: degrees may be high."""
    waiting: list[tuple[int, _Node] | Step] = [(0, root)]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Step):
            yield item
            continue
        level, node = item
        leaves, branches = node.leaves(), node.branches()
        if not branches:
            yield Step(Action.BEGIN, level, 0, node.coefficient, leaves)
            continue
        (first, child), *others = branches
        after: list[tuple[int, _Node] | Step] = [(level, child)]
        after.append(Step(Action.CHAIN, level, first, leaves=((first, node.coefficient),)))
        if leaves:
            after.append(Step(Action.LEAVES, level, leaves=leaves))
        for j, other in others:
            if other.branches():
                after += [(level + 1, other), Step(Action.FOLD, level, j)]
            else:
                after.append(Step(Action.ADD, level, j, other.coefficient, other.leaves()))
        waiting += reversed(after)


def _joined(steps: Iterator[Step]) -> Iterator[Step]:
    """Yield steps with neighbouring links of a chain in one."""
    last: Step | None = None
    for step in steps:
        if (
            last is not None
            and last.action is step.action is Action.CHAIN
            and (last.level, last.variable) == (step.level, step.variable)
        ):
            last = Step(Action.CHAIN, step.level, step.variable, leaves=last.leaves + step.leaves)
            continue
        if last is not None:
            yield last
        last = step
    if last is not None:
        yield last
