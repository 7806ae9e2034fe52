"""How much scores change when keys are rebuilt: predicted from moments, and measured.

The score of a query at place t and a key at place s depends on the distance t − s. With Q = E q qᵀ of a
head, D the covariance of what its keys are rebuilt off by, both before rotation, and queries that are
independent of those errors,

    E (change at distance d)² = scale² tr(R_dᵀ Q R_d D).

The mean is over all pairs s ≤ t of a window but those of its first token, whose key is kept.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from exactformer.spectra.caching.attention import LatentAttention
from exactformer.spectra.caching.rotary import Sizes, entering, rotated, split


def predicted_change(
    queries: Tensor, errors: Tensor, turn: tuple[Tensor, Tensor], sizes: Sizes
) -> float:
    """Return the root mean square change of scores.

    ``queries`` is Q of every head, ``errors`` the covariance of keys (all key heads), ``turn`` the
    cosines and sines of a window's positions, (1, tokens, rotary dim).
    """
    tokens = turn[0].shape[1]
    cos, sin = (x[:1].double() for x in turn)
    pairs = torch.arange(tokens - 1, -1, -1, dtype=queries.dtype, device=queries.device)
    total = queries.new_zeros(())
    for head, q in enumerate(queries):
        block = slice(*(sizes.head_dim * (head // sizes.shared + i) for i in (0, 1)))
        values, vectors = torch.linalg.eigh(errors[block, block])
        columns = (vectors * values.clamp(min=0).sqrt()).T[None, :, None].expand(-1, -1, tokens, -1)
        turned = rotated(columns, cos, -sin)[0]  # the key lies behind the query
        total = total + (torch.einsum("ctd,de,cte->t", turned, q, turned) * pairs).sum()
    mean = total / (len(queries) * pairs.sum())
    return float(sizes.scale * cos[0, 0, 0] * mean.clamp(min=0).sqrt())


@torch.no_grad()
def measured_changes(model: nn.Module, windows: Tensor) -> list[float]:
    """Return the root mean square change of scores of every layer, over windows of text."""
    layers = [m for m in model.modules() if isinstance(m, LatentAttention)]
    squares = [0.0] * len(layers)
    tokens = windows.shape[1]
    counted = torch.ones(tokens, tokens, dtype=torch.bool, device=windows.device).tril()
    counted[:, 0] = False

    def look(module: Any, args: Any, kwargs: dict[str, Any], _output: Any) -> None:
        x = entering(args, kwargs)
        turn = kwargs["position_embeddings"] if "position_embeddings" in kwargs else args[1]
        cache, place = kwargs["past_key_values"], module.layer_idx
        latents = [*cache.below(place, module.lookback), cache.layers[place].numbers]
        gap = module.state(x) - module.decode(torch.cat(latents, dim=1).mT)
        keys = rotated(split(gap, module.sizes)[0], *turn)
        queries = torch.unflatten(
            rotated(module.queries(x), *turn), 1, (module.sizes.key_heads, -1)
        )
        changes = queries @ keys[:, :, None].mT * module.sizes.scale
        squares[place] += float(changes[..., counted].double().square().sum())

    with ExitStack() as hooks:
        for layer in layers:
            hooks.enter_context(layer.register_forward_hook(look, with_kwargs=True))
        for window in windows:
            model(input_ids=window[None], use_cache=True)
    pairs = len(windows) * int(counted.sum())
    return [
        (total / (pairs * layer.sizes.heads)) ** 0.5
        for total, layer in zip(squares, layers, strict=True)
    ]
