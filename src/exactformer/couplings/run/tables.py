"""Piecewise-linear functions by their values at equidistant knots, many at a time, trainable.

A feed-forward network Σ_j v_j hat_j(x), hat_j(x) = relu(1 − relu(z_j) − relu(−z_j)), z_j = (x − t_j)/h,
has at most two hats that are not zero at any x. Reading the two values beside x from a table gives the
same function at a cost that does not depend on the number of knots:

    v_j + (z − j)(v_{j+1} − v_j),    z = (x − low)/h,  j = ⌊z⌋.

The values are parameters: what was constructed can be trained on. A leading axis M makes a table for
each of M models, evaluated together. Outside [low, high] the functions are constant.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from exactformer.errors import InputError

METHODS = ("gather", "hats")


class KnotTable(nn.Module):
    """n functions on [low, high], or on so many copies of it: ``segments`` tables, one after another.

    Args:
        values: ``(segments · (N + 1), n)`` or ``(M, segments · (N + 1), n)``, at the N + 1 knots.
        low: where the first knot lies; a number, or one for each of the M models.
        high: where the last one lies.
        segments: how many intervals there are, one for each position in a sequence.
        method: ``"gather"`` reads two entries a token; ``"hats"`` multiplies the matrix of all hats by
            the values, which on a GPU is quicker up to about a thousand knots: one product for all
            models, and no scattered additions in its gradient.
    """

    low: Tensor
    scale: Tensor

    def __init__(
        self,
        values: Tensor,
        low: float | Tensor = 0.0,
        high: float | Tensor = 1.0,
        segments: int = 1,
        method: str = "gather",
    ) -> None:
        super().__init__()
        if method not in METHODS:
            raise InputError(f"method={method!r}; choose one of {', '.join(METHODS)}")
        if values.dim() not in (2, 3) or values.shape[-2] % segments:
            raise InputError(
                f"values have the shape {tuple(values.shape)}; expected (knots, functions) or "
                f"(models, knots, functions) with the same number of knots on {segments} segment(s)"
            )
        self.method = method
        self.pieces = values.shape[-2] // segments - 1
        if self.pieces < 1:
            raise InputError("a piecewise-linear function needs two knots or more")
        self.values = nn.Parameter(values.clone())
        start, end = (torch.as_tensor(v, dtype=values.dtype) for v in (low, high))
        self.register_buffer("low", start.to(values.device))
        self.register_buffer("scale", (self.pieces / (end - start)).to(values.device))

    @property
    def models(self) -> int | None:
        """The number M of models, or None without such an axis."""
        return len(self.values) if self.values.dim() == 3 else None

    def forward(self, x: Tensor, segment: Tensor | None = None, per_model: bool = False) -> Tensor:
        """Evaluate all functions at x: ``(...)`` to ``(..., n)``, or ``(M, ..., n)``.

        ``segment`` says on which copy of the interval each x lies and broadcasts against x;
        ``per_model``: x has the leading axis M already, each model reads its own.
        """
        place = self._place(x, per_model)
        offset = 0 if segment is None else segment * (self.pieces + 1)
        if self.method == "hats" and not per_model:
            return self._by_hats(place + offset)
        left = place.detach().floor().clamp(max=self.pieces - 1)
        index = left.long() + offset
        return torch.lerp(
            self._read(index, per_model),
            self._read(index + 1, per_model),
            (place - left)[..., None],
        )

    def _place(self, x: Tensor, per_model: bool) -> Tensor:
        low, scale = self.low, self.scale
        if low.dim():
            if not per_model:
                raise InputError(
                    "tables with an interval for each model are read by per_model=True"
                )
            shape = (-1,) + (1,) * (x.dim() - 1)
            low, scale = low.view(shape), scale.view(shape)
        return ((x - low) * scale).clamp(0, self.pieces)

    def _read(self, index: Tensor, per_model: bool) -> Tensor:
        values, functions = self.values, self.values.shape[-1]
        if values.dim() == 2:
            return values.index_select(0, index.flatten()).view(*index.shape, functions)
        if not per_model:
            return values.index_select(1, index.flatten()).view(
                len(values), *index.shape, functions
            )
        knots = values.shape[1]
        own = torch.arange(len(values), device=index.device) * knots
        flat = (index.reshape(len(values), -1) + own[:, None]).flatten()
        rows = values.reshape(-1, functions).index_select(0, flat)
        return rows.view(*index.shape, functions)

    def _by_hats(self, place: Tensor) -> Tensor:
        values = self.values
        knots = torch.arange(values.shape[-2], device=place.device, dtype=place.dtype)
        hats = torch.relu(1 - (place[..., None] - knots).abs())
        if values.dim() == 2:
            return hats @ values
        flat = hats.reshape(-1, len(knots)) @ values.movedim(0, 1).flatten(1)
        shaped = flat.view(*place.shape, len(values), -1)
        return shaped.movedim(-2, 0)

    def extra_repr(self) -> str:
        """Describe the tables in ``print``."""
        return f"{tuple(self.values.shape)}, {self.pieces} pieces, {self.method}"

    def __call__(self, *args: Any, **options: Any) -> Tensor:
        """Evaluate; see :meth:`forward`."""
        return cast(Tensor, super().__call__(*args, **options))
