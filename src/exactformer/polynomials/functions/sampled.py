"""A user's function, seen from the cube [−1, 1]^d: sampled in float64, checked, never trusted."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from exactformer.core.arrays import Array
from exactformer.core.pointwise import agree, check_pointwise, largest
from exactformer.errors import InputError

Kind = Callable[[Array], Any]
Way = Callable[[Array], Array]
_KINDS: tuple[Kind, ...] = (np.asarray, torch.from_numpy)


class BoxFunction:
    """f on a box, as a function of local coordinates u ∈ [−1, 1]^d; (N, d) gives (N, m).

    ``f`` may take the coordinates one by one, ``f(x, y)``, or points with coordinates on the last
    axis; many points at once if every value is then that of its point alone, one by one otherwise;
    as arrays if it can, as tensors otherwise.
    """

    def __init__(
        self, f: Callable[..., Any], centre: Sequence[float], half_widths: Sequence[float]
    ) -> None:
        self.f = f
        self.centre, self.half_widths = np.asarray(centre, float), np.asarray(half_widths, float)
        self._by_coordinate = len(self.centre) == 1 or _arguments(f) == len(self.centre)
        self._values, self._alone, probe = self._ways()
        self.vector = probe.ndim == 2
        self.outputs = probe.shape[1] if self.vector else 1

    @property
    def name(self) -> str:
        """What to call it."""
        name = str(getattr(self.f, "__name__", type(self.f).__name__))
        return name if name.isprintable() and name != "<lambda>" else "the function"

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return len(self.centre)

    def __call__(self, u: Array) -> Array:
        """Return the values at local points."""
        return self.at(self.centre + self.half_widths * u)

    @np.errstate(all="ignore")  # what is not finite is refused, with its place
    def at(self, x: Array) -> Array:
        """Return the values at points of the box; anything that is not a finite number raises."""
        values = self._values(x)
        values = values if self.vector else values[:, None]
        wrong = ~np.isfinite(values).all(axis=1)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(
                f"{self.name} is not a finite number at {x[row].tolist()}: {values[row].tolist()}; "
                "choose a domain on which it is continuous"
            )
        check_pointwise(values, lambda row: self._alone(x[row : row + 1]), self.name)
        return values

    @np.errstate(all="ignore")
    def _ways(self) -> tuple[Way, Way, Array]:
        """Return how to ask for values at many points and at single ones, and those at some points."""
        count = self.dimension + 3  # another number than that of coordinates
        scattered = np.random.default_rng(0).uniform(-0.9, 0.9, (count, self.dimension))
        x = self.centre + self.half_widths * scattered
        failures = []
        for kind in _KINDS:
            together, one_by_one = self._together(kind), self._one_by_one(kind)
            many, _ = _attempt(together, x)
            single, failure = _attempt(one_by_one, x)
            alone = one_by_one
            if single is None:  # a function may want an axis of points, be it of one
                alone = _each(together)
                single, _ = _attempt(alone, x)
            if single is not None and many is not None and agree(many, single, largest(single)):
                return together, alone, many
            if single is not None and alone is one_by_one:
                return alone, alone, single
            if many is not None:
                failure = InputError(
                    f"{self.name} gives other values to points alone than to the same points among "
                    "others; each value must depend on its own point only"
                )
            failures.append(failure)
        raise failures[0]

    def _call(self, x: Any) -> Any:
        if self._by_coordinate:
            return self.f(*(x[..., j] for j in range(x.shape[-1])))
        return self.f(x)

    def _together(self, kind: Kind) -> Way:
        """All points in one call."""

        def values(x: Array) -> Array:
            found = self._plain(kind(x.copy()))
            if found.shape == ():  # a constant
                return np.full(len(x), float(found))
            if found.ndim not in (1, 2) or len(found) != len(x):
                raise self._failure(f"of {len(x)} of them it gave the shape {found.shape}")
            return found

        return values

    def _one_by_one(self, kind: Kind) -> Way:
        """A call for each point."""

        def values(x: Array) -> Array:
            rows = [self._plain(kind(row.copy())) for row in x]
            shapes = {row.shape for row in rows}
            if len(shapes) > 1 or len(rows[0].shape) > 1:
                raise self._failure(f"it gave the shapes {sorted(shapes)}")
            return np.stack(rows)

        return values

    def _plain(self, x: Any) -> Array:
        """Return what the function gives as float64."""
        try:
            values = self._call(x)
            if isinstance(values, torch.Tensor):
                values = values.detach().cpu().numpy()
            return np.asarray(values, dtype=np.float64)
        except Exception as error:  # whatever a user's function raises
            raise self._failure(repr(error)) from error

    def _failure(self, why: str) -> InputError:
        d = self.dimension
        return InputError(
            f"{self.name} could not be evaluated at points of {d} coordinate{'s' * (d > 1)}: {why}. It "
            f"takes them one by one or as an array (…, {d}), and returns numbers or vectors"
        )


def _each(together: Way) -> Way:
    """Many points in as many calls."""
    return lambda x: np.concatenate([together(point[None]) for point in x])


def _attempt(way: Way, x: Array) -> tuple[Array | None, InputError]:
    """Return the values, if there are any, and why there are none."""
    try:
        return way(x), InputError("")
    except InputError as error:
        return None, error


def _arguments(f: Callable[..., Any]) -> int | None:
    """Return how many positional arguments must be given, where Python can tell."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return getattr(f, "nin", None)  # NumPy's own functions know
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is inspect.Parameter.empty for p in parameters)
