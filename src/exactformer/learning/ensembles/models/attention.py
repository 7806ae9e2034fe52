"""M single-layer transformers of equations (5) and (53) at once.

    h(s) = f̂(x(s)),    Ĥ_t(x) = F̂( Σ_s σ[(W_Q h(t))ᵀ W_K h(·)](s) · W_V h(s) )

f̂ and F̂ are feed-forward networks of ``depth`` linear layers, W_Q and W_K are m_h × n, W_V is d_v × n,
σ is the softmax over s, and scores are not divided by √m_h, as printed.

Models may differ in m_h. Rows of W_Q and W_K beyond a model's own are zero; the gradient of either is
a product with the other, so it is zero there too, and they stay zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from exactformer.errors import InputError
from exactformer.learning.ensembles.models.base import Ensemble, generators, same_sizes, uniform
from exactformer.learning.ensembles.models.dense import Activation, DenseEnsemble
from exactformer.learning.ensembles.models.positions import PositionEnsemble, Positions


@dataclass(frozen=True)
class AttentionConfiguration:
    """One model: its head size m_h, its seed, and what it shares with the others.

    ``features`` is n, ``value_dim`` d_v; ``width`` and ``depth`` are those of f̂ and F̂.
    ``position_dim`` is the size d' of encoded tokens, ``tokens`` the longest sequence where learned
    and one-hot positions need it. ``causal`` lets a token see itself and those before it alone.
    """

    head_dim: int
    seed: int = 0
    width: int = 128
    depth: int = 3
    features: int = 32
    value_dim: int = 32
    input_dim: int = 1
    output_dim: int = 1
    positions: Positions = None
    position_dim: int = 32
    tokens: int | None = None
    causal: bool = False
    activation: Activation = "relu"

    def __post_init__(self) -> None:
        """Refuse sizes below one."""
        for name in ("head_dim", "width", "depth", "features", "value_dim", "position_dim"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least 1.")


_SHARED = (
    "width depth features value_dim input_dim output_dim positions position_dim tokens causal "
    "activation"
).split()


class AttentionEnsemble(Ensemble):
    """The models of ``configurations``, which may differ in head size and seed.

    A model's weights are drawn from its seed as ``nn.Linear`` draws them, query and key last: models
    of one seed and different head sizes start from the same f̂, W_V and F̂.
    """

    def __init__(
        self,
        configurations: Sequence[AttentionConfiguration],
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        one = same_sizes(configurations, _SHARED)
        self.configurations, self.models = tuple(configurations), len(configurations)
        self.input_dim, self.output_dim = one.input_dim, one.output_dim
        sources = generators([c.seed for c in configurations])
        hidden = [one.width] * (one.depth - 1)
        self.positions = PositionEnsemble(
            one.positions, one.input_dim, one.position_dim, one.tokens, sources
        )
        self.inner = DenseEnsemble(
            [self.positions.output_dim, *hidden, one.features], sources, one.activation
        )
        self.outer = DenseEnsemble(
            [one.value_dim, *hidden, one.output_dim], sources, one.activation
        )
        bound = one.features**-0.5
        values = [(one.value_dim, one.features)] * self.models
        heads = [(c.head_dim, one.features) for c in configurations]
        self.value = nn.Parameter(uniform(sources, values, bound))
        self.query = nn.Parameter(uniform(sources, heads, bound))
        self.key = nn.Parameter(uniform(sources, heads, bound))
        self.to(device, dtype)

    def own_shape(self, name: str, model: int) -> tuple[int, ...]:
        """Return the shape of a parameter of one model, without padding."""
        shape = super().own_shape(name, model)
        own_head = self.configurations[model].head_dim
        return (own_head, *shape[1:]) if name in ("query", "key") else shape

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return Ĥ (M, B, τ[, o]); ``mask`` (B, τ) is true at tokens that are there."""
        query, key, value = self._project(x)
        attended = self._weigh(query, key, mask) @ value
        outputs: Tensor = self.outer(attended.flatten(1, 2))
        return self.write(outputs.view(*value.shape[:3], -1))

    def attention(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the attention matrices (M, B, τ, τ), one row for each query t."""
        query, key, _ = self._project(x)
        return self._weigh(query, key, mask)

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return W_Q h, W_K h, W_V h, each (M, B, τ, ·), by one product with all three matrices."""
        tokens = self.positions(self.read(x))
        h = self.inner(tokens.flatten(-3, -2))
        matrices = (self.query, self.key, self.value)
        projected = torch.bmm(h, torch.cat(matrices, dim=1).mT)
        rows = projected.view(self.models, *tokens.shape[-3:-1], -1)
        query, key, value = torch.split(rows, [matrix.shape[1] for matrix in matrices], dim=-1)
        return query, key, value

    def _weigh(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
        """Return the softmax of the scores over s, (M, B, τ, τ)."""
        scores: Tensor = query @ key.mT
        if mask is not None:
            own = torch.eye(mask.shape[-1], dtype=torch.bool, device=mask.device)
            scores = scores.masked_fill(~(mask[:, None, :] | own), -torch.inf)
        if self.configurations[0].causal:
            later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
            scores = scores.masked_fill(later, -torch.inf)
        return scores.softmax(dim=-1)

    def activations(self, tau: int) -> int:
        """Return about how many numbers one model keeps of one sequence for its gradient."""
        one = self.configurations[0]
        token = self.inner.activations + 2 * self.query.shape[1] + 2 * one.value_dim
        return tau * (token + self.outer.activations + 2 * tau)

    def multiplications(self, tau: int) -> int:
        """Return how many multiplications one model needs for one sequence, forwards."""
        one, head = self.configurations[0], self.query.shape[1]
        token = self.inner.multiplications + self.outer.multiplications
        token += one.features * (2 * head + one.value_dim) + tau * (head + one.value_dim)
        return tau * token
