"""Smaller heads that a stock configuration of transformers can express.

In BERT, GPT-2, BART and OPT a head is the hidden size over the number of heads, and no configuration
says otherwise. Some models read the size of a head from an entry: ``d_kv`` in T5 and its kin,
``head_dim`` in ViT and its kin. Where queries, keys and values of all layers have one new size and a
model built with that entry computes the same, plain ``from_pretrained`` builds it. Whether it does is
not looked up but tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from exactformer.spectra.batches import Batch
from exactformer.spectra.shrinking.forms import Form, Plan
from exactformer.spectra.shrinking.measurement import output_change

_ENTRIES = ("d_kv", "head_dim", "attention_head_size", "kv_channels")
_AGREE = 1e-4


def stock_configuration(
    small: nn.Module, plans: Sequence[Plan], form: Form, batch: Batch
) -> dict[str, int] | None:
    """Return entries of a configuration that give a model with smaller heads, or None."""
    config: Any = getattr(small, "config", None)
    sizes = {r for plan in plans for r in (*plan.dims, *(plan.value_dims or (0,)))}
    if form != "small" or len(sizes) != 1 or not hasattr(small, "from_pretrained"):
        return None
    old, new = {plan.layer.head_dim for plan in plans}, sizes.pop()
    for name in _ENTRIES:
        if not {getattr(config, name, None)} <= old | {None}:
            continue
        entries = {name: new}
        try:
            if not _fits(small, entries):
                continue
            with torch.random.fork_rng(devices=[]):
                same = output_change(small, stock_model(small, plans, entries), [batch]) <= _AGREE
        except (RuntimeError, TypeError, ValueError, AttributeError):
            continue
        if same:
            return entries
    return None


def _fits(small: nn.Module, entries: dict[str, int]) -> bool:
    """Whether a model built with these entries has the shapes of a smaller one; none is filled."""
    with torch.device("meta"):
        shapes = {name: t.shape for name, t in _built(small, entries).state_dict().items()}
    return shapes == {name: t.shape for name, t in small.state_dict().items()}


def _built(small: nn.Module, entries: dict[str, int]) -> nn.Module:
    """Return the model of a configuration with these entries, as it comes out of a file."""
    kind: Any = type(small)
    old: Any = small.config
    config = type(old).from_dict({**old.to_dict(), **entries})
    config._attn_implementation = "sdpa"
    built: nn.Module = kind(config)
    return built.eval()


def stock_model(small: nn.Module, plans: Sequence[Plan], entries: dict[str, int]) -> nn.Module:
    """Return a model of the same class, built by transformers, with the weights of a smaller one."""
    some = next(small.parameters())
    built = _built(small, entries).to(device=some.device, dtype=some.dtype)
    built.load_state_dict(small.state_dict())
    for plan in plans:  # a scale that follows the size of the head goes into the queries
        module: Any = built.get_submodule(plan.layer.name)
        query: Any = built.get_submodule(plan.layer.query.module)
        factor = plan.layer.scale / module.scaling
        if abs(factor - 1) < 1e-9:
            continue
        if plan.layer.query.module == plan.layer.key.module:
            raise ValueError("the scale of the head cannot go into the queries alone")
        query.weight.data *= factor
        if query.bias is not None:
            query.bias.data *= factor
    return built
