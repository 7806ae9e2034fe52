"""A user's function, seen from the cube [−1, 1]^d: sampled in float64, checked, never trusted."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from exactformer.core.arrays import Array
from exactformer.errors import InputError


class BoxFunction:
    """f on a box, as a function of local coordinates u ∈ [−1, 1]^d; (N, d) gives (N, m).

    ``f`` may take the coordinates one by one, ``f(x, y)``, or points with coordinates on the last
    axis; arrays if it can, tensors or numbers otherwise.
    """

    def __init__(
        self, f: Callable[..., Any], centre: Sequence[float], half_widths: Sequence[float]
    ) -> None:
        self.f = f
        self.centre, self.half_widths = np.asarray(centre, float), np.asarray(half_widths, float)
        self._by_coordinate = len(self.centre) == 1 or _arguments(f) == len(self.centre)
        self._kinds: list[Callable[[Array], Any]] = [np.asarray, torch.from_numpy]
        probe = self._values(self.centre[None] + np.zeros((2, 1)))
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
        return values

    @np.errstate(all="ignore")  # what is not finite is refused, with its place
    def _values(self, x: Array) -> Array:
        while self._kinds:
            try:
                values = _plain(self._call(self._kinds[0](x)))
                if values.shape == () and len(x):  # a constant
                    values = np.full(len(x), float(values))
                if values.ndim in (1, 2) and len(values) == len(x):
                    return values
            except (TypeError, ValueError, IndexError, AttributeError, RuntimeError):
                pass
            del self._kinds[0]
        try:
            rows = [_plain(self._call(row)) for row in x]
            values = np.stack(rows)
        except (TypeError, ValueError, IndexError) as error:
            raise InputError(
                f"{self.name} could not be evaluated at a point of {self.dimension} coordinates: "
                f"{error}; it should take them one by one or as an array (…, {self.dimension})"
            ) from None
        if values.ndim > 2:
            raise InputError(
                f"{self.name} should return numbers or vectors, not {values.shape[1:]}"
            )
        return values

    def _call(self, x: Any) -> Any:
        if self._by_coordinate:
            return self.f(*(x[..., j] for j in range(x.shape[-1])))
        return self.f(x)


def _plain(values: Any) -> Array:
    """Return what a function gave as float64."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    return np.asarray(values, dtype=np.float64)


def _arguments(f: Callable[..., Any]) -> int | None:
    """Return how many positional arguments must be given, where Python can tell."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return getattr(f, "nin", None)  # NumPy's own functions know
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is inspect.Parameter.empty for p in parameters)
