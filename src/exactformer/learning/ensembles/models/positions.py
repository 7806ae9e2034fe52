"""Position encodings x(t) ↦ A x(t) + e(t) of section 4.1, for M models at once.

sinusoidal   A ∈ R^(d'×d) is learnt, e(t) = (sin ω₁t, cos ω₁t, sin ω₂t, …), ω_k = 10000^(−2k/d')
learned      A and e(1), …, e(τ) are learnt
one-hot      d' = d + τ, A = (I, 0)ᵀ and e(t) = (0, δ_t): nothing is learnt, no two tokens meet
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from exactformer.errors import InputError
from exactformer.learning.ensembles.models.base import uniform

Positions = Literal["sinusoidal", "learned", "one-hot"] | None


class PositionEnsemble(nn.Module):
    """The encodings of M models; maps (B, τ, d) or (M, B, τ, d) to (…, τ, d')."""

    def __init__(
        self,
        kind: Positions,
        input_dim: int,
        position_dim: int,
        tokens: int | None,
        sources: Sequence[torch.Generator],
    ) -> None:
        super().__init__()
        self.kind, self.tokens, self.output_dim = kind, tokens, input_dim
        if kind not in (None, "sinusoidal", "learned", "one-hot"):
            raise InputError(f"positions {kind!r} are none of sinusoidal, learned, one-hot, None.")
        if kind in ("learned", "one-hot") and tokens is None:
            raise InputError(f"positions {kind!r} need tokens=, the length of the sequences.")
        if kind == "one-hot":
            assert tokens is not None
            self.output_dim = input_dim + tokens
        elif kind is not None:
            self.output_dim = position_dim
            shapes = [(position_dim, input_dim)] * len(sources)
            self.matrix = nn.Parameter(uniform(sources, shapes, input_dim**-0.5))
        if kind == "learned":
            assert tokens is not None
            drawn = [
                torch.randn(tokens, position_dim, generator=s, dtype=torch.float64) for s in sources
            ]
            self.offset = nn.Parameter(torch.stack(drawn))

    def forward(self, x: Tensor) -> Tensor:
        """Encode the tokens' places."""
        if self.kind is None:
            return x
        tau = x.shape[-2]
        if self.tokens is not None and tau > self.tokens:
            raise InputError(f"sequences of {tau} tokens are longer than tokens={self.tokens}.")
        if self.kind == "one-hot":
            places = torch.eye(tau, self.output_dim - x.shape[-1], dtype=x.dtype, device=x.device)
            return torch.cat([x, places.expand(*x.shape[:-1], -1)], dim=-1)
        rows = x.flatten(-3, -2).expand(len(self.matrix), -1, -1)
        mapped = torch.bmm(rows, self.matrix.mT).view(len(rows), *x.shape[-3:-1], -1)
        if self.kind == "learned":
            return mapped + self.offset[:, None, :tau]
        return mapped + sinusoids(tau, self.output_dim, x.device).to(x.dtype)


def sinusoids(
    tau: int,
    dimension: int,
    device: torch.device | None = None,
    dtype: torch.dtype = torch.float64,
    interleaved: bool = True,
) -> Tensor:
    """Return e(0), …, e(τ − 1), (τ, d'): sines and cosines in turn, or all sines first.

    >>> sinusoids(2, 2)
    tensor([[0.0000, 1.0000],
            [0.8415, 0.5403]], dtype=torch.float64)
    """
    time = torch.arange(tau, dtype=dtype, device=device)
    even = torch.arange(0, dimension, 2, dtype=dtype, device=device)
    angle = time[:, None] * (-math.log(10000) / dimension * even).exp()
    join = torch.stack if interleaved else torch.cat
    return join([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :dimension]
