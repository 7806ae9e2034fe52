"""The check that makes extraction trustworthy: attention rebuilt is the model's own.

On the first batch the probabilities rebuilt from queries, keys and additive part are compared with
those that the model forms when its attention is written out (``eager``, ``fused_attn = False``); where
it knows one way only, with those of the primitive that it calls, or of the softmax in a module that a
function reads. They must agree within 1e-5 in float32. Scores far from zero have rounding of their own,
8 ε |q||k|, and where that is more it is allowed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from exactformer.spectra.batches import Batch
from exactformer.spectra.errors import ExtractionError
from exactformer.spectra.extraction import Readers, uncompiled, watching
from exactformer.spectra.running import Running
from exactformer.spectra.scores import Scores
from exactformer.spectra.switches import can_be_written_out, written_out
from exactformer.spectra.unread import Unread

_AGREEMENT = {torch.float32: 1e-5, torch.float64: 1e-12}


def verify(model: nn.Module, batch: Batch, readers: Readers | None = None) -> float:
    """Return the largest difference between rebuilt and own attention; raise if it is too large."""
    with watching(model, readers, whole=True) as watch:
        seen = watch.run(batch)
    if not seen:
        listed = "".join(f"; left out: {left}" for left in watch.left_out)
        raise ExtractionError(
            f"no attention was found: nothing in {type(model).__name__} multiplies queries with keys "
            f"at a primitive{listed}"
        )
    own = _written_out(model, batch, seen) if can_be_written_out(model) else {}
    return max(compare(scores, own.get(scores.name, scores.own_probabilities)) for scores in seen)


def _written_out(model: nn.Module, batch: Batch, seen: list[Scores]) -> dict[str, Tensor]:
    """Return each softmax that runs in a module known to attend, by its call."""
    running = Running(model)
    left = {scores.name: scores for scores in seen}
    names: dict[nn.Module, list[str]] = {}
    for scores in seen:
        names.setdefault(scores.module, []).append(scores.name)
    found: dict[str, Tensor] = {}

    def keep(probabilities: Tensor) -> None:
        waiting = names.get(running.stack[-1], []) if running.stack else []
        if waiting and probabilities.shape == _shape(left[waiting[0]]):
            found[waiting.pop(0)] = probabilities

    flow = Unread(model, lambda: running.place)
    flow.rest(keep)
    with torch.no_grad(), uncompiled(), written_out(model), running.watch(_nothing), flow:
        batch.call(model)
    return found


def _nothing(*_: Any) -> None:
    """Do nothing when a module has run."""


def compare(scores: Scores, own: Tensor | None) -> float:
    """Return how far the rebuilt attention is from a model's own, over tokens that are there."""
    kind = type(scores.module).__name__
    if own is None:
        raise ExtractionError(
            f"module {scores.name!r} ({kind}) shows no probabilities to check against: have its "
            "function return them"
        )
    if own.shape != _shape(scores):
        raise ExtractionError(
            f"module {scores.name!r} ({kind}) has attention of shape {tuple(own.shape)}; what was "
            f"read gives {tuple(_shape(scores))}"
        )
    there, additive = scores.query_tokens, scores.additive
    spread = None if additive is None else additive.expand(own.shape)
    apart = []
    for head in range(scores.heads):
        keys = scores.keys[:, scores.key_head(head)].double()
        products = (scores.queries[:, head].double() @ keys.mT)[there]
        if spread is not None:
            products = products + spread[:, head][there].double()
        apart.append(_largest(products.softmax(dim=-1) - own[:, head][there].double()))
    worst = float(torch.tensor(apart).max())  # Python's max would pass over NaN
    dtype = scores.queries.dtype
    size = _largest(scores.queries.norm(dim=-1)) * _largest(scores.keys.norm(dim=-1))
    allowed = max(_AGREEMENT.get(dtype, 1e-5), 8 * torch.finfo(dtype).eps * size)
    if not worst <= allowed:
        raise ExtractionError(
            f"module {scores.name!r} ({kind}): probabilities rebuilt from its queries and keys differ "
            f"from its own by {worst:.3g}, more than {allowed:.3g}; it does something to its scores "
            "that is not understood"
        )
    return worst


def _shape(scores: Scores) -> torch.Size:
    return torch.Size((*scores.queries.shape[:3], scores.keys.shape[2]))


def _largest(values: Tensor) -> float:
    """Return the largest size; NaN if there is one."""
    return float(values.abs().max()) if values.numel() else 0.0
