"""A tiny format, exactly: float64 holds every sum and product of its numbers; one rounding is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exactformer.core.formats import Arithmetic, FloatFormat
from exactformer.verification.balls import Ball
from exactformer.verification.rounding import read
from exactformer.verification.rules import Context

Array = NDArray[np.float64]
FLUSHING = ("never", "small results", "before rounding", "what is read")


@dataclass(frozen=True)
class Tiny:
    """A format of few bits; round to nearest, ties to even, and one way of treating subnormals."""

    precision: int = 4
    low: int = -6
    high: int = 7
    flushing: str = "never"

    def round(self, exact: Array) -> Array:
        """Round exact numbers to the format; what overflows is infinite."""
        exponent = np.frexp(exact)[1] - 1
        spacing = np.maximum(exponent, self.low) - self.precision + 1
        made: Array = np.ldexp(np.rint(np.ldexp(exact, -spacing)), spacing)
        small = np.abs(exact if self.flushing == "before rounding" else made) < 2.0**self.low
        if self.flushing in ("small results", "before rounding"):
            made = np.where(small, 0.0, made)
        return np.where(np.abs(made) > self.largest, np.copysign(np.inf, made), made)

    def taken(self, numbers: Array) -> Array:
        """Return what an operation reads."""
        if self.flushing != "what is read":
            return numbers
        return np.where(np.abs(numbers) < 2.0**self.low, 0.0, numbers)

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return float(2.0**self.high * (2 - 2.0 ** (1 - self.precision)))

    @cached_property
    def numbers(self) -> Array:
        """All finite numbers, from low to high; one zero."""
        whole = 2 ** (self.precision - 1)
        mantissas = np.arange(whole, 2 * whole)
        exponents = np.arange(self.low, self.high + 1) - self.precision + 1
        normal = np.ldexp(mantissas[None, :], exponents[:, None]).reshape(-1)
        positive = np.concatenate([np.ldexp(np.arange(1, whole), int(exponents[0])), normal])
        return np.concatenate([-positive[::-1], [0.0], positive])

    def add(self, a: Array, b: Array) -> Array:
        """Add two numbers of the format."""
        return self.round(self.taken(a) + self.taken(b))

    def times(self, a: Array, b: Array) -> Array:
        """Multiply two numbers of the format."""
        return self.round(self.taken(a) * self.taken(b))

    def fused(self, a: Array, b: Array, c: Array) -> Array:
        """Compute ab + c with one rounding."""
        return self.round(self.taken(a) * self.taken(b) + self.taken(c))

    def over(self, a: Array, b: Array) -> Array:
        """Divide; float64 has so many digits more that rounding twice changes nothing."""
        return self.round(self.taken(a) / self.taken(b))

    @cached_property
    def context(self) -> Context:
        """A context of this arithmetic, with exponentials to one unit in the last place."""
        form = FloatFormat("tiny", self.precision, self.low, self.high, self.flushing != "never")
        return Context(Arithmetic.of(form, exp_ulps=1), torch.device("cpu"), axis=0)

    def but(self, flushing: str) -> Tiny:
        """Return the format with another treatment of subnormals."""
        return replace(self, flushing=flushing)

    def ball(self, numbers: Array) -> Ball:
        """Return stored numbers as the engine reads them."""
        c = torch.from_numpy(np.ascontiguousarray(numbers))
        return Ball(c, read(self.context.arithmetic, c))


def trees(terms: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield every split of some terms in two; sums commute, so one of each pair is enough."""
    first, rest = terms[0], terms[1:]
    for k in range(len(rest)):
        for others in combinations(rest, k):
            left = (first, *others)
            yield left, tuple(t for t in terms if t not in left)


def sums(add: Callable[[Array, Array], Array], terms: list[Array]) -> Iterator[Array]:
    """Yield the sum of some terms by every binary tree: 1, 3, 15, 105 of them for 2, 3, 4, 5 terms."""
    known: dict[tuple[int, ...], list[Array]] = {(k,): [t] for k, t in enumerate(terms)}

    def of(chosen: tuple[int, ...]) -> list[Array]:
        if chosen not in known:
            known[chosen] = [
                add(a, b) for left, right in trees(chosen) for a in of(left) for b in of(right)
            ]
        return known[chosen]

    yield from of(tuple(range(len(terms))))


@dataclass
class Tightness:
    """The largest part of a radius that was used, over all executions that were compared."""

    share: float = 0.0
    count: int = 0

    def compare(self, ball: Ball, runs: Array, exact: Array | None = None) -> None:
        """Assert that finite runs lie in a ball, entry by entry and as tokens."""
        r = ball.radius.numpy()
        assert not (r < 0).any()
        known = np.isfinite(r) & np.isfinite(runs)
        off = np.where(known, np.abs(runs - ball.c.numpy()), 0.0)
        assert (off <= np.where(known, r, 0.0)).all()
        token = np.linalg.norm(off, axis=-1)
        n = ball.spread.numpy()
        assert (~(token > n * (1 + 1e-12)) | ~known.all(-1)).all()
        used = np.divide(off, r, out=np.zeros_like(off), where=known & (r > 0))
        self.share = max(self.share, float(used.max(initial=0.0)))
        self.count += int(known.sum())


def tensor(numbers: Array) -> Tensor:
    """Return a torch tensor of numbers."""
    return torch.from_numpy(np.ascontiguousarray(numbers))
