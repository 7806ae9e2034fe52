"""The table of rules, and how an operator's arguments reach its rule.

A rule is a function whose parameters are the arguments that it understands, named as in the operator's
schema. An argument that it does not name must have its default; anything else is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, TypeVar

import torch
from torch import Tensor

from exactformer.core.formats import Arithmetic
from exactformer.verification.balls import Ball
from exactformer.verification.rounding import loss, scalar, share

Rule = Callable[..., Any]
F = TypeVar("F", bound=Rule)
RULES: dict[str, Rule] = {}
MAKERS: set[str] = set()
"""Operators that make a tensor of numbers out of none, and so have a rule for arguments without
balls.
"""


class NotCoveredError(Exception):
    """What a rule does not understand, in words."""


@dataclass
class Context:
    """The arithmetic, and the largest magnitudes that the walk has met where they matter."""

    arithmetic: Arithmetic
    device: torch.device
    peaks: list[Tensor] = field(default_factory=list)
    axis: int | None = None
    """Which axis of the arguments is the batch, for the operator at hand."""

    def share(self, roundings: int) -> float:
        """Return the share of its magnitude that a term can lose in so many roundings."""
        return share(self.arithmetic, roundings)

    def loss(self, operations: int) -> float:
        """Return what so many operations can lose to underflow."""
        return loss(self.arithmetic, operations)

    def watch(self, magnitude: Tensor, roundings: int = 1) -> None:
        """Note how large an intermediate result can get, partial sums included."""
        if self.arithmetic.largest < torch.inf:
            self.peaks.append(magnitude.amax() * (1 + self.share(roundings)) * (1 + 2.0**-40))

    def hold(self, magnitude: Tensor) -> None:
        """Note a number that is stored as it is; the largest one of the format is held, too."""
        if self.arithmetic.largest < torch.inf:
            most = magnitude.amax()
            self.peaks.append(torch.where(most <= self.arithmetic.largest, 0.0, torch.inf))

    def watch_sum(self, exact: Tensor) -> None:
        """Note how large a sum of two is before it is rounded.

        It overflows from the largest number and half a unit in its last place on, which is a share of
        u/2 more: the lowest number, as masks have it, stays itself when a score is added.
        """
        if self.arithmetic.largest < torch.inf:
            self.peaks.append(exact.amax() * (1 + 2.0**-50) / (1 + self.arithmetic.unit / 4))

    def overflow(self) -> bool:
        """Whether some intermediate result may overflow; what is not a number may."""
        return any(not float(peak) < self.arithmetic.largest for peak in self.peaks)

    def lift(self, value: Any, like: Tensor) -> Ball:
        """Return a ball for a number of the user's code, which is rounded to the format."""
        if isinstance(value, Ball):
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise NotCoveredError(f"{type(value).__name__} where a tensor of numbers is expected")
        number = torch.tensor([float(value)], dtype=torch.float64, device=like.device)
        self.hold(number.abs())
        whole = float(value).is_integer() and abs(value) * self.arithmetic.unit <= 1
        radius = 0.0 if whole else scalar(self.arithmetic, float(value))
        return Ball(number, number.new_full((1,), radius) if radius else None)


def rule(*names: str, maker: bool = False) -> Callable[[F], F]:
    """Register a rule for operators."""

    def register(function: F) -> F:
        for name in names:
            RULES[name] = function
            if maker:
                MAKERS.add(name)
        return function

    return register


def bind(
    target: Any, function: Rule, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return an operator's arguments by name, for a rule that understands them all."""
    known = set(signature(function).parameters) - {"ctx"}
    bound: dict[str, Any] = {}
    schema = target._schema.arguments
    for place, argument in enumerate(schema):
        given = place < len(args) or argument.name in kwargs
        value = args[place] if place < len(args) else kwargs.get(argument.name)
        name = "input" if argument.name == "self" else argument.name
        if name in known:
            if given:
                bound[name] = value
        elif given and not _usual(value, argument):
            raise NotCoveredError(f"argument {argument.name}={_shown(value)}")
    return bound


def _usual(value: Any, argument: Any) -> bool:
    if isinstance(value, Ball | Tensor) or not argument.has_default_value():
        return False
    default = argument.default_value
    return type(value) is type(default) and bool(value == default)


def _shown(value: Any) -> str:
    return "a tensor" if isinstance(value, Ball | Tensor) else repr(value)[:40]


def axis(dim: int, x: Ball, what: str) -> int:
    """Return an axis counted from the end, as a negative number."""
    last = dim if dim < 0 else dim - x.c.ndim
    if not -x.c.ndim <= last < 0:
        raise NotCoveredError(f"{what} over axis {dim} of {x.c.ndim}")
    return last


def plain(x: Ball) -> Ball:
    """Return a ball that no mask has touched."""
    if x.dead is not None:
        raise NotCoveredError("a tensor with entries of −∞, other than in a softmax")
    return x
