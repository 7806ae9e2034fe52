"""Layer after layer: latents fitted to what reaches it, output projections to what should leave it.

Hidden states of the calibration text pass through the original and the smaller model side by side, one
layer at a time, so that the memory needed is that of one layer. In each layer

    1. the latent is fitted to the states in the smaller model, with the Fisher metric of the original;
    2. the output projection is fitted by ridge regression, so that the residual stream behind attention
       is that of the original as nearly as it can be: errors of layers below are corrected, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from exactformer.spectra.cache_config import LatentCacheConfig
from exactformer.spectra.caching.attention import LatentAttention
from exactformer.spectra.caching.cache import LatentCache
from exactformer.spectra.caching.checkpoint import Checkpoint
from exactformer.spectra.caching.fitted import FittedLayer, Stream, restore, save
from exactformer.spectra.caching.latents import Latent
from exactformer.spectra.caching.methods import Method, Plan, fit
from exactformer.spectra.caching.model import LatentCacheForCausalLM
from exactformer.spectra.caching.moments import Covariance, LayerMoments
from exactformer.spectra.caching.rotary import RotaryLayer
from exactformer.spectra.caching.scores import predicted_change

_RIDGE = 0.05
"""Of the mean energy of what an output projection reads, added to all."""
_ROWS = 8
"""Windows that pass through a layer at once."""


@torch.no_grad()
def calibrate(
    original: nn.Module,
    layers: Sequence[RotaryLayer],
    windows: Tensor,
    moments: Sequence[LayerMoments],
    plans: Sequence[Plan],
    *,
    method: Method = "joint",
    lookback: int,
    refit: bool = True,
    tell: Callable[[int], None] = lambda done: None,
    checkpoint: Checkpoint | None = None,
) -> tuple[LatentCacheForCausalLM, list[FittedLayer]]:
    """Return a copy of the model with latents in its cache, and what was found on the way.

    With a checkpoint every fitted layer is saved, and the fit goes on behind the last of them.
    """
    small = outline(original, plans, lookback, method)
    entries = [_entry(original, rows) for rows in torch.split(windows, _ROWS)]
    before = [hidden for hidden, _ in entries]
    after = [hidden.clone() for hidden in before]
    settings = [settings for _, settings in entries]
    latents: list[list[Tensor]] = []
    """By layer and rows: (rows, length, rank)."""
    fitted: list[FittedLayer] = []
    blocks = [_block_of(small, layer) for layer in layers]
    if checkpoint is not None:
        fitted, stream = restore(checkpoint, [block.self_attn for block in blocks], plans)
        if stream is not None:
            before, after, latents = stream.before, stream.after, stream.latents
    each = list(zip(layers, blocks, moments, plans, strict=True))
    for layer, block, seen, plan in each[len(fitted) :]:
        below = latents[max(0, layer.index - lookback) :]
        attention: Any = block.self_attn
        entering = [
            _before(block.self_attn, block, x, s) for x, s in zip(after, settings, strict=True)
        ]
        states = [attention.state(x) for x in entering]
        found = fit(method, layer, seen, *_spread(states, below), plan)
        _fill(attention, found, seen)
        latents.append(
            [
                attention.encode(torch.cat([u, *(lower[i] for lower in below)], dim=-1))
                for i, u in enumerate(states)
            ]
        )
        if len(latents) > lookback + 1:
            latents[-lookback - 2] = []
        target = [
            _through(layer.block, x, s, layer.attention)
            for x, s in zip(before, settings, strict=True)
        ]
        caches = [
            _cache(latents[max(0, layer.index - lookback) : -1], layer.index, i, s, x)
            for i, (s, x) in enumerate(zip(settings, after, strict=True))
        ]
        if refit:
            mixed = [
                _mixed(attention, x, s, deepcopy(c))
                for x, s, c in zip(entering, settings, caches, strict=True)
            ]
            wanted = [x + y - new for x, (y, _), new in zip(before, target, after, strict=True)]
            _refit(attention.o_proj, mixed, wanted)
        after = [
            _run(block, x, {**s, "past_key_values": c})
            for x, s, c in zip(after, settings, caches, strict=True)
        ]
        before = [out for _, out in target]
        asked = _second([attention.queries(x) for x in entering])
        keys = found.residual[: layer.sizes.keys, : layer.sizes.keys]
        change = predicted_change(asked, keys, settings[0]["position_embeddings"], layer.sizes)
        fitted.append(_account(layer, plan, seen, found, change, before, after))
        if checkpoint is not None:
            last = layer is layers[-1]
            stream = None if last else Stream(before, after, latents)
            save(checkpoint, attention, fitted[-1], stream)
        tell(layer.index + 1)
    small.config.expected_strain = sum(one.strain for one in fitted)
    return small, fitted


def outline(
    original: Any, plans: Sequence[Plan], lookback: int, method: str
) -> LatentCacheForCausalLM:
    """Return a copy of the model with room for latents, nothing fitted yet."""
    network = deepcopy(original)
    config = LatentCacheConfig(
        text_config=network.config,
        ranks=[sum(plan) for plan in plans],
        lookback=lookback,
        method=method,
        dtype=network.dtype,
    )
    config.bos_token_id, config.eos_token_id, config.pad_token_id = (
        getattr(network.config, f"{name}_token_id", None) for name in ("bos", "eos", "pad")
    )
    config._attn_implementation = original.config._attn_implementation
    small = LatentCacheForCausalLM(config, network)
    torch.nn.Module.eval(small).requires_grad_(False)
    small.generation_config = deepcopy(original.generation_config)
    return small


class _Stop(Exception):  # noqa: N818
    """Ends a forward pass where enough was seen."""


def _entry(model: Any, rows: Tensor) -> tuple[Tensor, dict[str, Any]]:
    """Return what enters the first layer: hidden states, and the settings of all layers."""
    seen: list[tuple[Tensor, dict[str, Any]]] = []
    first = getattr(model, model.base_model_prefix).layers[0]

    def stop(_module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        hidden = kwargs.pop("hidden_states") if "hidden_states" in kwargs else args[0]
        seen.append((hidden.detach(), {**kwargs, "use_cache": False, "past_key_values": None}))
        raise _Stop

    handle = first.register_forward_pre_hook(stop, with_kwargs=True)
    try:
        model(input_ids=rows, use_cache=False)
    except _Stop:
        pass
    finally:
        handle.remove()
    return seen[0]


def _before(module: nn.Module, block: nn.Module, x: Tensor, settings: dict[str, Any]) -> Tensor:
    """Return what enters a module inside a block."""
    seen: list[Tensor] = []

    def stop(_module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        seen.append(kwargs["hidden_states"] if "hidden_states" in kwargs else args[0])
        raise _Stop

    handle = module.register_forward_pre_hook(stop, with_kwargs=True)
    try:
        block(x, **settings)
    except _Stop:
        pass
    finally:
        handle.remove()
    return seen[0]


def _through(
    block: nn.Module, x: Tensor, settings: dict[str, Any], attention: nn.Module
) -> tuple[Tensor, Tensor]:
    """Return the output of attention and of the whole block, in the original."""
    seen: list[Tensor] = []
    handle = attention.register_forward_hook(lambda _m, _a, output: seen.append(output[0]))
    try:
        out = _run(block, x, settings)
    finally:
        handle.remove()
    return seen[0], out


def _run(block: nn.Module, x: Tensor, settings: dict[str, Any]) -> Tensor:
    out = block(x, **settings)
    result: Tensor = out[0] if isinstance(out, tuple) else out
    return result


def _cache(
    below: Sequence[Sequence[Tensor]], index: int, row: int, settings: dict[str, Any], x: Tensor
) -> LatentCache:
    """Return a cache in which the layers below one have written their latents of some windows."""
    cache = LatentCache(index + 1)
    if index:  # the lowest layer begins its cache itself
        cache.begin(settings["position_ids"], len(x), settings.get("attention_mask"))
    for place, latents in enumerate(below, start=index - len(below)):
        layer: Any = cache.layers[place]
        layer.append(latents[row])
    return cache


def _mixed(
    attention: LatentAttention, x: Tensor, settings: dict[str, Any], cache: LatentCache
) -> Tensor:
    """Return what the output projection reads."""
    output, attention.o_proj = attention.o_proj, nn.Identity()
    try:
        mixed, _ = attention(x, **{**settings, "past_key_values": cache})
    finally:
        attention.o_proj = output
    result: Tensor = mixed
    return result


def _spread(states: Sequence[Tensor], below: Sequence[Sequence[Tensor]]) -> tuple[Tensor, Tensor]:
    """Return mean and covariance of states with the latents below them, but for first tokens."""
    sums = Covariance()
    for i, state in enumerate(states):
        rows = torch.cat([state, *(lower[i] for lower in below)], dim=-1)
        sums.add(rows[:, 1:].flatten(0, 1))
    return sums.result()


def _second(queries: Sequence[Tensor]) -> Tensor:
    """Return E q qᵀ of every head, of queries (rows, heads, tokens, head dim), but for first tokens."""
    sums = [torch.einsum("bhtd,bhte->hde", *[q[:, :, 1:].double()] * 2) for q in queries]
    return sum(sums[1:], sums[0]) / sum(q.shape[0] * (q.shape[2] - 1) for q in queries)


def _fill(attention: LatentAttention, found: Latent, moments: LayerMoments) -> None:
    """Write a latent's maps into a module."""
    encode, encode_bias, decode, decode_bias = found.linear()
    for parameter, value in (
        (attention.encode.weight, encode),
        (attention.encode.bias, encode_bias),
        (attention.decode.weight, decode),
        (attention.decode.bias, decode_bias),
        (attention.sensitivity, moments.fisher.diagonal()),
    ):
        parameter.data.copy_(value)


def _refit(output: nn.Linear, mixed: Sequence[Tensor], wanted: Sequence[Tensor]) -> None:
    """Change an output projection W so that W mixed + b is near to what is wanted."""
    width = output.in_features
    gram = torch.zeros(width, width, dtype=torch.float64, device=output.weight.device)
    cross = torch.zeros(output.out_features, width, dtype=torch.float64, device=gram.device)
    for o, w in zip(mixed, wanted, strict=True):
        o, gap = o.flatten(0, 1).double(), (w - output(o)).flatten(0, 1).double()
        gram += o.T @ o
        cross += gap.T @ o
    gram += _RIDGE * gram.diagonal().mean() * torch.eye(width, dtype=gram.dtype, device=gram.device)
    change = torch.linalg.solve(gram, cross.T).T
    output.weight.data += change.to(output.weight.dtype)


def _block_of(small: LatentCacheForCausalLM, layer: RotaryLayer) -> Any:
    network: Any = small.network
    return getattr(network, network.base_model_prefix).layers[layer.index]


def _account(
    layer: RotaryLayer,
    plan: Plan,
    moments: LayerMoments,
    found: Latent,
    scores: float,
    before: Sequence[Tensor],
    after: Sequence[Tensor],
) -> FittedLayer:
    off = sum(float((a - b).square().sum()) for a, b in zip(after, before, strict=True))
    size = sum(float(b.square().sum()) for b in before)
    spread = float(moments.covariance.diagonal().sum())
    lost = float(found.residual.diagonal().sum())
    return FittedLayer(
        name=layer.name,
        state=layer.sizes.state,
        ranks=plan,
        predicted=float((moments.fisher * found.residual).sum()) / 2,
        strain=float((moments.fisher.diagonal() * found.residual.diagonal()).sum()) / 2,
        residual=(max(lost, 0.0) / spread) ** 0.5 if spread > 0 else 0.0,
        scores=scores,
        output=(off / size) ** 0.5 if size > 0 else 0.0,
    )
