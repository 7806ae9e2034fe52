"""A gated recurrent network, trained briefly: what a nonlinear RNN makes of the relationship.

One GRU layer reads the tokens in order; a small network reads its state and the token. Adam with one
cycle of the rate, clipped gradients, and the best weights on the sequences kept for checking.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np

from exactformer.learning.recommending.samples import Array, Samples

if TYPE_CHECKING:
    from torch import Tensor, nn

_STATES = 32
_TOKENS = 400_000
"""Tokens read in training, in all."""
_PASSES = 60
"""Passes through the sequences, at most."""
_FEWEST, _MOST = 200, 1000
"""Bounds on the number of steps that makes."""
_BATCH, _RATE, _REPORTS = 32, 1e-2, 12


def fit_gated(train: Samples, check: Samples, seed: int) -> Callable[[Array], Array]:
    """Train on ``train``, keeping the best on ``check``; return the map to outputs (N, P, k)."""
    import torch
    from torch import nn

    centre, scale = train.inputs.mean(axis=(0, 1)), train.inputs.std(axis=(0, 1))
    scale = np.where(scale > 0, scale, 1.0)
    offset, spread = train.offset, train.spread
    x, x_check = (_tensor((part.inputs - centre) / scale) for part in (train, check))
    y, y_check = (_tensor((part.outputs - offset) / spread) for part in (train, check))
    d, k, last = x.shape[-1], y.shape[-1], y.shape[1] == 1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        reader = nn.Sequential(nn.Linear(_STATES + d, _STATES), nn.ReLU(), nn.Linear(_STATES, k))
        network = nn.ModuleDict({"state": nn.GRU(d, _STATES, batch_first=True), "output": reader})
    generator = torch.Generator().manual_seed(seed)
    steps = min(_TOKENS // x.shape[1], _PASSES * len(x)) // _BATCH
    steps = int(np.clip(steps, _FEWEST, _MOST))
    optimiser = torch.optim.Adam(network.parameters(), lr=_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, total_steps=steps)
    best, kept = float("inf"), deepcopy(network)
    for step in range(1, steps + 1):
        rows = torch.randint(len(x), (_BATCH,), generator=generator)
        optimiser.zero_grad()
        error = (_run(network, x[rows], last) - y[rows]).square().mean()
        error.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % (steps // _REPORTS) == 0 or step == steps:
            with torch.no_grad():
                checked = float((_run(network, x_check, last) - y_check).square().mean())
            if checked < best:
                best, kept = checked, deepcopy(network)

    def predict(inputs: Array) -> Array:
        with torch.no_grad():
            outputs = _run(kept, _tensor((inputs - centre) / scale), last)
        return np.asarray(offset + spread * outputs.double().numpy())

    return predict


def _run(network: nn.ModuleDict, x: Tensor, last: bool) -> Tensor:
    import torch

    states, _ = network["state"](x)
    both = torch.cat([states, x], dim=-1)
    outputs: Tensor = network["output"](both[:, -1:] if last else both)
    return outputs


def _tensor(values: Array) -> Tensor:
    import torch

    return torch.as_tensor(np.ascontiguousarray(values, dtype=np.float32))
