"""The transformer of Theorem 3.5 with its blocks fused: F, β and b are free, the blocks are fixed.

Once every token is known to select itself, block s writes t_k^s into its slot, and the model is

    C(x) = b + Σ_k Σ_s β[k, s] t_k^s,        t = F x,

the same function of the same parameters, at O(n q) per point instead of O(n² q).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

# Rows are taken in blocks of about this many numbers t: cache-sized on a processor, and few
# enough on an accelerator that memory does not grow with the batch.
_BLOCK = {"cpu": 2**17, "other": 2**28}


class PolynomialAttention(nn.Module):
    """n directions in d variables, degree q: F (n, d), β (n, q), b. Maps (N, d) to (N,).

    F starts at the given directions, β and b at zero. ``compiled`` fuses the powers into one kernel
    each way by ``torch.compile``; see :func:`can_compile`.
    """

    F: nn.Parameter
    beta: nn.Parameter
    b: nn.Parameter

    def __init__(self, directions: Tensor, degree: int, *, compiled: bool = False) -> None:
        super().__init__()
        width = len(directions)
        self.F = nn.Parameter(directions.clone())
        self.beta = nn.Parameter(directions.new_zeros(width, degree))
        self.b = nn.Parameter(directions.new_zeros(()))
        self.compiled = compiled

    def forward(self, x: Tensor) -> Tensor:
        """Return C(x) for every row."""
        result: Tensor = RidgePowers.apply(x, self.F, self.beta, self.compiled)  # type: ignore[no-untyped-call]
        return result + self.b

    @property
    def free_parameters(self) -> int:
        """n·d + n·q + 1, as the paper counts them."""
        return count_parameters(self)


def count_parameters(network: nn.Module) -> int:
    """Return how many numbers training may change."""
    return sum(p.numel() for p in network.parameters() if p.requires_grad)


def can_compile(device: torch.device) -> bool:
    """Whether ``torch.compile`` helps on this device: on a GPU that has its compiler, Triton."""
    return device.type == "cuda" and find_spec("triton") is not None


class RidgePowers(torch.autograd.Function):
    """(x, F, β) ↦ Σ_k Σ_s β[k, s] (F_k · x)^s. Nothing of size N × n outlives a block."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, F: Tensor, beta: Tensor, compiled: bool) -> Tensor:
        """Evaluate by Horner's rule."""
        ctx.save_for_backward(x, F, beta)
        ctx.compiled = compiled
        values = _kernel(_values, compiled)
        return torch.cat([values(rows @ F.T, beta) for rows in _rows(x, F)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None]:
        """∂/∂β[k, s] = Σ_i g_i t_ik^s and ∂/∂F_k = Σ_i g_i P_k'(t_ik) x_i."""
        x, F, beta = ctx.saved_tensors
        (gradient,) = gradients
        slopes = _kernel(_slopes, ctx.compiled)
        of_F, of_beta = torch.zeros_like(F), torch.zeros_like(beta)
        of_x = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        start = 0
        for rows in _rows(x, F):
            stop = start + len(rows)
            slope, powers = slopes(rows @ F.T, beta, gradient[start:stop])
            of_F += slope.T @ rows
            of_beta += powers
            if of_x is not None:
                of_x[start:stop] = slope @ F
            start = stop
        return of_x, of_F, of_beta, None


def _rows(x: Tensor, F: Tensor) -> tuple[Tensor, ...]:
    block = _BLOCK["cpu" if x.device.type == "cpu" else "other"]
    return torch.split(x, max(1, block // len(F)))


def _values(t: Tensor, beta: Tensor) -> Tensor:
    total = t * beta[:, -1]
    for s in range(beta.shape[1] - 2, -1, -1):
        total = (total + beta[:, s]) * t
    return total.sum(dim=1)


def _slopes(t: Tensor, beta: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Return g_i P_k'(t_ik), (N, n), and Σ_i g_i t_ik^s, (n, q)."""
    degree = beta.shape[1]
    slope = torch.zeros_like(t)
    for s in range(degree, 0, -1):
        slope = slope * t + s * beta[:, s - 1]
    power, sums = t, []
    for s in range(degree):
        sums.append(gradient @ power)
        if s + 1 < degree:
            power = power * t
    return slope * gradient[:, None], torch.stack(sums, dim=1)


def _kernel(function: Callable[..., Any], compiled: bool) -> Callable[..., Any]:
    return _compiled(function) if compiled else function


@cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, dynamic=True)
