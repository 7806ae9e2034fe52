"""Training that never waits for the device: batches, rates and losses are tensors there.

The clock is a tensor, too, so that on a GPU one step is recorded and replayed. Products are in
bfloat16 there, sums and parameters in single precision.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from exactformer.experiments.models.translation.subwords import PAD
from exactformer.learning.ensembles.data import RowOrder
from exactformer.learning.ensembles.training.protocol import warm_up

_DECAY = 1e-4
_LARGEST_STEP = 1.0  # norm of the gradient
_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def fit(
    model: nn.Module,
    loss: Callable[[Tensor], Tensor],
    count: int,
    *,
    steps: int,
    batch: int,
    rate: float,
) -> list[float]:
    """Take ``steps`` of Adam; return all losses, and leave the model in evaluation mode.

    ``loss`` returns the mean loss of rows, ids (batch,) out of ``count``. The rate is ``rate`` times
    the shares of :func:`~exactformer.learning.ensembles.training.protocol.warm_up`.
    """
    device = next(model.parameters()).device
    rows = RowOrder(count, batch).next(steps).to(device)
    rates = rate * warm_up(steps).to(device)
    losses = torch.zeros(steps, device=device)
    clock = torch.zeros(1, dtype=torch.long, device=device)
    on_gpu = device.type == "cuda"
    current = torch.zeros((), device=device)
    parameters = list(model.parameters())
    adam = torch.optim.AdamW(parameters, current, (0.9, 0.98), 1e-9, _DECAY, fused=True)
    model.train()

    def step() -> None:
        current.copy_(rates.index_select(0, clock)[0])
        with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu, cache_enabled=False):
            value = loss(rows.index_select(0, clock)[0])
        gradients = torch.autograd.grad(value, parameters)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        nn.utils.clip_grad_norm_(parameters, _LARGEST_STEP)
        adam.step()
        losses.index_copy_(0, clock, value.detach()[None])
        clock.add_(1)

    with sdpa_kernel(_KERNELS):
        for _ in range(steps):
            step()
    adam.zero_grad(set_to_none=True)
    model.eval()
    return [float(value) for value in losses.tolist()]


def cross_entropy(scores: Tensor, target: Tensor, smoothing: float = 0.0) -> Tensor:
    """Return the mean over all ``target`` ids but padding; a share ``smoothing`` goes to all alike."""
    own, wanted = scores.float().flatten(0, -2), target.flatten()
    return functional.cross_entropy(own, wanted, ignore_index=PAD, label_smoothing=smoothing)
