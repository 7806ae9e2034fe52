"""What is known of a model: claims, bounds and what they are made of, measurements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from math import isnan
from types import MappingProxyType
from typing import Any, Self

from exactformer.core.words import at_most, raised
from exactformer.errors import CertificationError


class Kind(StrEnum):
    """How a claim is known, the best first."""

    PROVEN = "proven"
    """For every input: in exact arithmetic, or rounded outwards."""
    NUMERICAL = "numerical"
    """From samples of functions; what lies between them was not seen."""
    ESTIMATED = "estimated"
    """From a number that was itself extrapolated or met in samples."""
    STATED = "stated"
    """By a file, and not contradicted by its weights; nothing else was checked."""

    @classmethod
    def weakest(cls, kinds: Iterable[Kind]) -> Kind:
        """Return what can be said of several claims together."""
        order = list(cls)
        return max(kinds, key=order.index, default=cls.PROVEN)


@dataclass(frozen=True)
class Claim:
    """A statement about a model, and how it is known."""

    name: str
    text: str
    kind: Kind = Kind.PROVEN

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class Bound(float):
    """How large an error can be: a number, with its parts, the norm it is in, and how it is known.

    >>> error = Bound(0.5, {"truncation": 0.375, "rounding": 0.125}, "sup |computed − exact|")
    >>> error <= 1, error.parts["rounding"], str(error.kind)
    (True, 0.125, 'proven')
    """

    parts: Mapping[str, float]
    """What causes it. Parts may be rounded, or add up in another way than by a plain sum."""
    norm: str
    """What is bounded, in words."""
    kind: Kind

    def __new__(
        cls, total: float, parts: Mapping[str, float], norm: str, kind: Kind = Kind.PROVEN
    ) -> Self:
        """Return the bound; what is no number at or above zero raises."""
        if isnan(total) or total < 0:
            raise CertificationError(f"{norm} came out as {total}: the error is not bounded")
        bound = super().__new__(cls, total)
        bound.__dict__.update(parts=MappingProxyType(dict(parts)), norm=norm, kind=Kind(kind))
        return bound

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a bound is not changed; {name} was fixed when it was found")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (float(self), dict(self.parts), self.norm, self.kind)

    @property
    def total(self) -> float:
        """The number, as ``float(bound)`` gives it."""
        return float(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "total": self.total,
            "parts": dict(self.parts),
            "norm": self.norm,
            "kind": str(self.kind),
        }

    def __format__(self, form: str) -> str:
        """Return the number in a form, rounded up: what is printed is a bound, too."""
        return raised(float(self), form) if form else str(self)

    def __str__(self) -> str:
        """Return a line for the whole and one for each part."""
        parts = [f"  {at_most(value, 4):>10}  {name}" for name, value in self.parts.items()]
        return "\n".join([f"{self.norm} ≤ {at_most(self.total, 4)} ({self.kind})", *parts])


@dataclass(frozen=True, kw_only=True)
class Certificate(ABC):
    """What is known of one model of any family.

    The certificate that a model shows speaks of its number format and its executor; one that
    ``certify`` returns for a file speaks of float64 and of every executor.
    """

    blueprint_digest: str
    """A SHA-256 over every weight and name: equal for equal blueprints only."""
    dtype: str = field(default="float64", compare=False)
    """The number format that :meth:`bound` is about unless told otherwise."""
    executor: str | None = field(default=None, compare=False)
    """The executor that it is about; None is whichever errs most."""
    checks: tuple[Claim, ...] = field(default=(), compare=False)
    """What other programs, such as Coq, have checked."""

    @property
    @abstractmethod
    def claims(self) -> tuple[Claim, ...]:
        """What is known, sentence by sentence."""

    @abstractmethod
    def bound(self, dtype: object = None, executor: str | None = None) -> Bound:
        """Return how far the model can be from its target.

        Raises:
            CertificationError: where nothing is known.
        """

    @property
    @abstractmethod
    def zero_error(self) -> bool:
        """Whether the model equals its target in exact arithmetic."""

    @property
    def kind(self) -> Kind:
        """How the weakest of the claims is known."""
        return Kind.weakest(claim.kind for claim in self.claims)

    def about(self, dtype: str, executor: str) -> Self:
        """Return the certificate as it is about one number format and one executor."""
        return replace(self, dtype=dtype, executor=executor)

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return plain data that JSON holds without loss."""


@dataclass(frozen=True)
class Measured:
    """A mean over random inputs, its standard error, and what it is made of. No bound."""

    value: float
    standard_error: float
    samples: int
    seed: int
    norm: str
    """What was measured, in words."""
    parts: Mapping[str, Measured] = field(default_factory=dict)

    def __float__(self) -> float:
        return self.value

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    def __str__(self) -> str:
        rows = {"": self, **self.parts}
        head = f"{self.norm}, on {self.samples:,} inputs"
        lines = [
            f"  {m.value:10.4g} ± {m.standard_error:<8.1g} {n}".rstrip() for n, m in rows.items()
        ]
        return "\n".join([head, *lines])
