"""Heads of a lower rank, on the model itself: scores from their leading directions.

With A = Σ q qᵀ and B = Σ k kᵀ over all tokens of the inputs and A^½ B^½ = U Σ Vᵀ, the best
approximation of rank r of all scores of a head is that of queries q M, where

    M = A^(−½) U_r U_rᵀ A^½ = B^½ V_r Σ_r⁻¹ U_rᵀ A^½.

It is the scores' singular value decomposition, cut: the energy lost is Σ_(k > r) σ_k² (Eckart and
Young). The second form needs no inverse of A. A model runs with q M in the place of q, everything else
as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from exactformer.errors import InputError
from exactformer.spectra.errors import ExtractionError
from exactformer.spectra.extraction import uncompiled
from exactformer.spectra.layers import LayerSpectrum
from exactformer.spectra.preparation import inner_module
from exactformer.spectra.primitives import Turning
from exactformer.spectra.running import Running
from exactformer.spectra.singular import symmetric_root
from exactformer.spectra.switches import fused

if TYPE_CHECKING:
    from exactformer.spectra.result import Spectrum


@contextmanager
def truncated(
    spectrum: Spectrum, model: nn.Module, rank: int | None, energy: float | None
) -> Iterator[None]:
    """Have a model compute its scores from leading directions while the context lasts."""
    model = inner_module(model)
    ranks = {layer.name: _ranks(layer, rank, energy) for layer in spectrum.layers}
    if all(min(ranks[one.name]) >= one.head_dim for one in spectrum.layers):
        yield
        return
    turns = _Turns(model, {one.name: projections(one, ranks[one.name]) for one in spectrum.layers})
    with (
        fused(model),
        uncompiled(),
        turns.running.watch(turns.leave, turns.enter),
        Turning(turns.matrix),
    ):
        yield


def projections(layer: LayerSpectrum, ranks: list[int]) -> Tensor:
    """Return M (heads, m, m) of every head, in float64; the identity where a head keeps all."""
    left = symmetric_root(torch.from_numpy(layer.query_moments))
    right = symmetric_root(torch.from_numpy(layer.key_moments))
    right = right.repeat_interleave(layer.heads // layer.kv_heads, dim=0)
    u, values, vh = torch.linalg.svd(left @ right)
    # What cannot be told from zero on an input is rounding, and would be divided by.
    least = torch.from_numpy(layer.resolution / np.maximum(layer.mean[:, 0], np.finfo(float).tiny))
    kept = (torch.arange(layer.head_dim) < torch.tensor(ranks)[:, None]) & (
        values > least[:, None] * values[:, :1]
    )
    inverse = torch.where(kept, 1 / values.where(kept, 1), 0)
    cut = right @ (vh.mT * inverse[:, None]) @ u.mT @ left
    whole = torch.tensor(ranks) >= layer.head_dim
    one = torch.eye(layer.head_dim, dtype=torch.float64)
    return torch.where(whole[:, None, None], one, cut)


def _ranks(layer: LayerSpectrum, rank: int | None, energy: float | None) -> list[int]:
    if (rank is None) == (energy is None):
        raise InputError("give a rank or a share of the energy, one of the two")
    if energy is not None:
        if not 0 < energy <= 1:
            raise InputError(
                f"energy is {energy}: give a share above 0 and at most 1, such as 0.99"
            )
        if energy == 1:
            return [layer.head_dim] * layer.heads
        return [max(1, layer.shared(head, energy)) for head in range(layer.heads)]
    if not isinstance(rank, int) or isinstance(rank, bool) or rank < 1:
        raise InputError(
            f"rank is {rank!r}: give the number of directions of every head, 1 or more"
        )
    return [rank] * layer.heads


class _Turns:
    """The matrix of every call of attention, and the watch that each is used."""

    def __init__(self, model: nn.Module, matrices: dict[str, Tensor]) -> None:
        self.running = Running(model)
        self._matrices = matrices
        self._ready: dict[tuple[str, torch.device, torch.dtype], Tensor] = {}
        self._modules = {name.partition("#")[0] for name in matrices}
        known = {name for name, _ in model.named_modules()}
        if missing := self._modules - known:
            raise InputError(f"the spectrum is of another model: this one has no {min(missing)!r}")
        self._met: set[nn.Module] = set()

    def enter(self, module: nn.Module) -> None:
        """Note that a module begins to run."""
        self._met.discard(module)

    def leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """Refuse a module that has attended, for all that is known, with its own queries."""
        name = self.running.name(module)
        if name in self._modules and module not in self._met:
            raise ExtractionError(
                f"module {name!r} ({type(module).__name__}) ran and called no primitive in which its "
                "queries could be replaced; heads that a function reads cannot be truncated"
            )

    def matrix(self, heads: int, size: int, like: Tensor) -> Tensor:
        """Return the matrices of a call, on a tensor's device, in single precision or better."""
        place, kind = self.running.place
        if not self.running.stack:
            raise ExtractionError("a model that the spectrum is not of attends inside the context")
        module = self.running.stack[-1]
        self._met.add(module)
        name = self.running.call(module)
        whole = self._matrices.get(name)
        if whole is None or whole.shape[:2] != (heads, size):
            known = f"no attention {name!r}" if whole is None else f"{whole.shape[0]} heads there"
            raise ExtractionError(
                f"module {place!r} ({kind}) attends with {heads} heads of {size}, and the spectrum "
                f"has {known}: take it of this model"
            )
        dtype = torch.promote_types(like.dtype, torch.float32)
        key = (name, like.device, dtype)
        if key not in self._ready:
            self._ready[key] = whole.to(like.device, dtype)
        return self._ready[key]
