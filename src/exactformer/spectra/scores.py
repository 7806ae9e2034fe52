"""What one attention module computes before its softmax, exactly.

    scores[b, h, t, s] = queries[b, h, t] · keys[b, g(h), s] + additive[b, h, t, s]

Queries and keys are those that meet in the product: after biases, rotary positions and norms, queries
times the scale. The additive part holds what is no product of a token's query and a token's key: masks,
padding, a relative bias. With grouped queries heads h of one group share the keys of g(h).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from exactformer.errors import InputError

HIDDEN = -9999.0
"""An additive term at or below this hides a key (models use −10⁴, −10⁹, the least number, −∞)."""


@dataclass(frozen=True)
class Scores:
    """One call of one attention module on one batch."""

    name: str
    """The module; ``name#2`` when it runs a second time in one pass."""
    module: nn.Module
    queries: Tensor
    """(B, heads, τ_q, m), times the scale."""
    keys: Tensor
    """(B, kv_heads, τ_k, m)."""
    mask: Tensor | None
    """Added to the scores, or true where a key is seen; broadcasts to (B, heads, τ_q, τ_k)."""
    causal: bool
    """Whether besides the mask a query sees only keys up to its own place."""
    query_tokens: Tensor
    """(B, τ_q): true at tokens that are there; padding is not."""
    key_tokens: Tensor
    kind: Literal["self", "cross"]
    own_probabilities: Tensor | None = None
    """The model's own attention, where it forms it."""

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.queries.shape[1]

    @property
    def kv_heads(self) -> int:
        """Key heads: fewer than heads with grouped queries."""
        return self.keys.shape[1]

    @property
    def head_dim(self) -> int:
        """The m of queries and keys."""
        return self.queries.shape[-1]

    @property
    def share(self) -> int:
        """Query heads for one key head."""
        return self.heads // self.kv_heads

    def key_head(self, head: int) -> int:
        """Return the key head that a query head uses."""
        return head // self.share

    def expanded_keys(self) -> Tensor:
        """Return keys with a head for each query head (B, heads, τ_k, m)."""
        return self.keys.repeat_interleave(self.share, dim=1)

    def check_finite(self, place: str = "") -> None:
        """Raise if a query or key of a token that is there is NaN or infinite."""
        for what, values, there in (
            ("queries", self.queries, self.query_tokens),
            ("keys", self.keys, self.key_tokens),
        ):
            if not bool((torch.isfinite(values).all(dim=-1) | ~there[:, None]).all()):
                raise InputError(
                    f"module {self.name!r} has {what} that are not finite{place}: look for NaN or "
                    "infinities in the weights and inputs"
                )

    @property
    def additive(self) -> Tensor | None:
        """What is added to the products; −∞ hides. Causal masks are made here: τ_q × τ_k."""
        added = None if self.mask is None else _as_additive(self.mask, self.queries.dtype)
        if self.causal:
            shape = (self.queries.shape[-2], self.keys.shape[-2])
            later = torch.ones(shape, dtype=torch.bool, device=self.queries.device).triu(1)
            hidden = torch.zeros(shape, device=self.queries.device).masked_fill(later, -torch.inf)
            added = hidden if added is None else added + hidden
        return added

    def scores(self) -> Tensor:
        """Return the scores (B, heads, τ_q, τ_k): for checks, not for analysis."""
        products = self.queries @ self.expanded_keys().mT
        added = self.additive
        return products if added is None else products + added

    def probabilities(self) -> Tensor:
        """Return the attention (B, heads, τ_q, τ_k): for checks, not for analysis."""
        return self.scores().softmax(dim=-1)


def _as_additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a mask as what it adds: −∞ where a boolean one is false."""
    if mask.dtype != torch.bool:
        return mask.to(dtype)
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -torch.inf)


def seen_keys(mask: Tensor, batch: int, tokens: int) -> Tensor:
    """Return (B, τ_k): keys that a mask lets at least one query see."""
    seen = mask if mask.dtype == torch.bool else mask > HIDDEN
    while seen.ndim < 4:
        seen = seen.unsqueeze(0)
    return seen.any(dim=1).any(dim=1).expand(batch, tokens)
