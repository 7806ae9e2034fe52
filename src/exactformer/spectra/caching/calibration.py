"""Layer after layer: latents fitted to what reaches it, output projections to what should leave it.

Hidden states of the calibration text pass through the original and the smaller model side by side, one
layer at a time, so that the memory needed is that of one layer. In each layer

    1. the latent is fitted to the states in the smaller model, with the Fisher metric of the original;
    2. the output projection is fitted by ridge regression, so that the residual stream behind attention
       is that of the original as nearly as it can be: errors of layers below are corrected, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from exactformer.progress import progress as progress_bar
from exactformer.spectra.cache_config import LatentCacheConfig
from exactformer.spectra.caching.attention import LatentAttention
from exactformer.spectra.caching.cache import LatentCache
from exactformer.spectra.caching.checkpoint import Checkpoint
from exactformer.spectra.caching.fitted import FittedLayer, Stream, restore, save
from exactformer.spectra.caching.latents import Latent
from exactformer.spectra.caching.methods import Method, Plan, fit
from exactformer.spectra.caching.model import LatentCacheForCausalLM
from exactformer.spectra.caching.moments import LayerMoments, spread
from exactformer.spectra.caching.rotary import RotaryLayer, body_of, entering
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
    progress: bool = False,
    checkpoint: Checkpoint | None = None,
) -> tuple[LatentCacheForCausalLM, list[FittedLayer]]:
    """Return a copy of the model with latents in its cache, and what was found on the way.

    With a checkpoint every fitted layer is saved, and the fit goes on behind the last of them.
    """
    small = outline(original, plans, lookback, method)
    fitted: list[FittedLayer] = []
    blocks = list(body_of(small.network).layers)
    streams = [_entry(original, rows) for rows in torch.split(windows, _ROWS)]
    if checkpoint is not None:
        fitted = restore(checkpoint, [block.self_attn for block in blocks], plans, streams)
    each = list(zip(layers, blocks, moments, plans, strict=True))
    with progress_bar("fitting latents, layers", len(each), progress, done=len(fitted)) as tell:
        for layer, block, seen, plan in each[len(fitted) :]:
            attention: Any = block.self_attn
            below = range(max(0, layer.index - lookback), layer.index)
            entering = [_entering(attention, block, s.after, **s.settings)[0] for s in streams]
            known = [
                torch.cat([attention.state(x), *(s.latents[i] for i in below)], dim=-1)
                for x, s in zip(entering, streams, strict=True)
            ]
            found = fit(method, layer, seen, *_spread(known), plan)
            _fill(attention, found, seen)
            mixed, wanted = [], []
            for x, u, s in zip(entering, known, streams, strict=True):
                s.latents[layer.index] = attention.encode(u)
                output, behind = _through(layer.block, s.before, s.settings, layer.attention)
                if refit:
                    mixed.append(_mixed(attention, x, _with_cache(s, below)))
                    wanted.append(s.before + output - s.after)
                s.before = behind
            if refit:
                _refit(attention.o_proj, mixed, wanted)
            for s in streams:
                s.after = _run(block, s.after, _with_cache(s, below))
                s.latents.pop(layer.index - lookback - 1, None)
            asked = _second([attention.queries(x) for x in entering])
            fitted.append(_account(layer, plan, seen, found, asked, streams))
            if checkpoint is not None:
                save(checkpoint, attention, fitted[-1], [] if layer is layers[-1] else streams)
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


def _entry(model: Any, rows: Tensor) -> Stream:
    """Return some windows as they enter the first layer, with the settings of all layers."""
    first = body_of(model).layers[0]
    hidden, settings = _entering(first, model, input_ids=rows, use_cache=False)
    settings = {**settings, "use_cache": False, "past_key_values": None}
    return Stream(settings, hidden, hidden.clone())


def _entering(
    module: nn.Module, whole: nn.Module, *args: Any, **kwargs: Any
) -> tuple[Tensor, dict[str, Any]]:
    """Return the hidden states that enter a module inside another, and what comes with them."""
    seen: dict[str, Any] = {}

    def stop(_module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        seen.update({**kwargs, "hidden_states": entering(args, kwargs)})
        raise _Stop

    with module.register_forward_pre_hook(stop, with_kwargs=True), suppress(_Stop):
        whole(*args, **kwargs)
    return seen.pop("hidden_states"), seen


def _through(
    block: nn.Module, x: Tensor, settings: dict[str, Any], attention: nn.Module
) -> tuple[Tensor, Tensor]:
    """Return the output of attention and of the whole block, in the original."""
    seen: list[Tensor] = []
    with attention.register_forward_hook(lambda _m, _a, output: seen.append(output[0])):
        out = _run(block, x, settings)
    return seen[0], out


def _run(block: nn.Module, x: Tensor, settings: dict[str, Any]) -> Tensor:
    out = block(x, **settings)
    result: Tensor = out[0] if isinstance(out, tuple) else out
    return result


def _with_cache(stream: Stream, below: range) -> dict[str, Any]:
    """Return the settings of a layer, with a cache that the layers below it have written to."""
    cache = LatentCache(below.stop + 1)
    if below.stop:  # the lowest layer begins its cache itself
        mask = stream.settings.get("attention_mask")
        cache.begin(stream.settings["position_ids"], len(stream.after), mask)
    for place in below:
        layer: Any = cache.layers[place]
        layer.append(stream.latents[place])
    return {**stream.settings, "past_key_values": cache}


def _mixed(attention: LatentAttention, x: Tensor, settings: dict[str, Any]) -> Tensor:
    """Return what the output projection reads."""
    output, attention.o_proj = attention.o_proj, nn.Identity()
    try:
        mixed, _ = attention(x, **settings)
    finally:
        attention.o_proj = output
    result: Tensor = mixed
    return result


def _spread(known: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return mean and covariance of states with the latents below them, but for first tokens."""
    count, total, squares = 0, torch.zeros(()), torch.zeros(())
    for one in known:
        rows = one[:, 1:].flatten(0, 1).double()
        count, total, squares = count + len(rows), total + rows.sum(dim=0), squares + rows.mT @ rows
    return spread(count, total, squares)


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


def _account(
    layer: RotaryLayer,
    plan: Plan,
    moments: LayerMoments,
    found: Latent,
    queries: Tensor,
    streams: Sequence[Stream],
) -> FittedLayer:
    """Return what was found of a layer whose queries have the second moments ``queries``."""
    off = sum(float((s.after - s.before).square().sum()) for s in streams)
    size = sum(float(s.before.square().sum()) for s in streams)
    spread = float(moments.covariance.diagonal().sum())
    lost = float(found.residual.diagonal().sum())
    keys = found.residual[: layer.sizes.keys, : layer.sizes.keys]
    turn = streams[0].settings["position_embeddings"]
    return FittedLayer(
        name=layer.name,
        state=layer.sizes.state,
        ranks=plan,
        predicted=float((moments.fisher * found.residual).sum()) / 2,
        strain=float((moments.fisher.diagonal() * found.residual.diagonal()).sum()) / 2,
        residual=(max(lost, 0.0) / spread) ** 0.5 if spread > 0 else 0.0,
        scores=predicted_change(queries, keys, turn, layer.sizes),
        output=(off / size) ** 0.5 if size > 0 else 0.0,
    )
