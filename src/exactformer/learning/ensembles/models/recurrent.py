"""M linear recurrent networks of appendices C and D.1 at once, evaluated by their impulse responses.

    h(t) = W h(t − 1) + U x(t) + b,  h(0) = 0,     y(t) = c h(t) + offset
         ⇒  y(t) = offset + Σ_{s<t} κ(s) x(t − s) + Σ_{s<t} c W^s b,      κ(s) = c W^s U.

A recurrence of τ dependent steps becomes ⌈log₂ τ⌉ products: with S_k = (U, WU, …, W^(2^k − 1) U),

    S_{k+1} = (S_k, W^(2^k) S_k),      W^(2^(k+1)) = (W^(2^k))².

The response then acts by one product with a Toeplitz matrix. b is the response to an input that is 1
at all times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from exactformer.errors import InputError
from exactformer.learning.ensembles.models.base import Ensemble, generators, same_sizes, uniform


@dataclass(frozen=True)
class LinearRNNConfiguration:
    """One linear network: ``states`` is the size of h.

    ``start`` is how W begins: "default" as in ``nn.RNN``, "orthogonal" as ``radius`` times a random
    rotation, "shift" as a shift register, W e_i = radius·e_{i+d} and U = (e_1, …, e_d), with normal
    ``noise``. All else is uniform on ±1/√states, as in ``nn.RNN`` and ``nn.Linear``.
    """

    seed: int = 0
    states: int = 128
    input_dim: int = 1
    output_dim: int = 1
    bias: bool = False
    offset: bool = False
    start: Literal["default", "orthogonal", "shift"] = "default"
    radius: float = 1.0
    noise: float = 1e-3

    def __post_init__(self) -> None:
        """Refuse unknown starts and too few states."""
        if self.start not in ("default", "orthogonal", "shift"):
            raise InputError(f"start {self.start!r} is none of default, orthogonal, shift.")
        if self.states < self.input_dim:
            raise InputError(
                f"{self.states} states do not hold an input of {self.input_dim} entries."
            )


class LinearRNNEnsemble(Ensemble):
    """The networks of ``configurations``, which may differ in seed and start."""

    def __init__(
        self,
        configurations: Sequence[LinearRNNConfiguration],
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        shared = ("states", "input_dim", "output_dim", "bias", "offset")
        one = same_sizes(configurations, shared)
        self.configurations, self.models = tuple(configurations), len(configurations)
        self.input_dim, self.output_dim = one.input_dim, one.output_dim
        sources, n = generators([c.seed for c in configurations]), one.states

        def draw(*shape: int) -> nn.Parameter:
            return nn.Parameter(uniform(sources, [shape] * self.models, n**-0.5))

        pairs = list(zip(self.configurations, sources, strict=True))
        self.output_weight = draw(one.output_dim, n)
        self.bias = draw(n) if one.bias else None
        self.offset = draw(one.output_dim) if one.offset else None
        self.input_weight = nn.Parameter(torch.stack([_input_weight(c, s) for c, s in pairs]))
        self.recurrent_weight = nn.Parameter(
            torch.stack([_recurrent_weight(c, s) for c, s in pairs])
        )
        self.to(device, dtype)

    def responses(self, tau: int) -> Tensor:
        """Return κ(0), …, κ(τ − 1), (M, τ, o, d); with a bias, its response in a last column."""
        U: Tensor = self.input_weight
        if self.bias is not None:
            U = torch.cat([U, self.bias.unsqueeze(-1)], dim=-1)
        columns: Tensor = U
        power: Tensor = self.recurrent_weight
        count, d = 1, U.shape[-1]
        while count < tau:
            more = torch.bmm(power, columns[..., : (tau - count) * d])
            columns = torch.cat([columns, more], dim=-1)
            count *= 2
            if count < tau:
                power = torch.bmm(power, power)
        return torch.bmm(self.output_weight, columns).view(self.models, -1, tau, d).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return y (M, B, τ[, o]). What comes after the tokens that are there needs no ``mask``."""
        tokens = self.read(x)
        tau, d = tokens.shape[-2:]
        responses = self.responses(tau)
        rows = tokens.flatten(-2).expand(self.models, -1, -1)
        y = torch.bmm(rows, _toeplitz(responses[..., :d])).view(*rows.shape[:2], tau, -1)
        if self.bias is not None:
            y = y + responses[..., d].cumsum(dim=1).unsqueeze(1)
        if self.offset is not None:
            y = y + self.offset[:, None, None]
        return self.write(y)

    def activations(self, tau: int) -> int:
        """Return about how many numbers one model keeps of one sequence for its gradient."""
        return tau * (self.input_dim + 3 * self.output_dim)

    def multiplications(self, tau: int) -> int:
        """Return how many multiplications one model needs for one sequence, forwards.

        Those for the response, about 2 n³ log₂ τ, are made once for all sequences.
        """
        return tau * tau * self.input_dim * self.output_dim


def _toeplitz(responses: Tensor) -> Tensor:
    """Turn κ (M, τ, o, d) into T (M, τ·d, τ·o) with T[(s, j), (t, i)] = κ(t − s)[i, j] for s ≤ t."""
    tau = responses.shape[1]
    time = torch.arange(tau, device=responses.device)
    lag = time[None, :] - time[:, None]  # (s, t)
    causal = (lag >= 0)[..., None, None]
    blocks = torch.where(causal, responses[:, lag.clamp(min=0)], 0)  # (M, s, t, o, d)
    return blocks.permute(0, 1, 4, 2, 3).flatten(3, 4).flatten(1, 2)


def _recurrent_weight(one: LinearRNNConfiguration, source: torch.Generator) -> Tensor:
    n, d = one.states, one.input_dim
    if one.start == "default":
        return uniform([source], [(n, n)], n**-0.5)[0]
    normal = torch.randn(n, n, generator=source, dtype=torch.float64)
    if one.start == "orthogonal":
        Q, R = torch.linalg.qr(normal)
        rotation: Tensor = Q * R.diagonal().sign()
        return one.radius * rotation
    return one.radius * torch.diag(torch.ones(n - d, dtype=torch.float64), -d) + one.noise * normal


def _input_weight(one: LinearRNNConfiguration, source: torch.Generator) -> Tensor:
    n, d = one.states, one.input_dim
    if one.start != "shift":
        return uniform([source], [(n, d)], n**-0.5)[0]
    weight = one.noise * torch.randn(n, d, generator=source, dtype=torch.float64)
    return weight + torch.eye(n, d, dtype=torch.float64)
