"""The check that makes extraction trustworthy: attention rebuilt is the model's own.

On the first batch the probabilities rebuilt from extracted queries, keys and additive part are compared

* with those that the model forms when its attention is written out (``eager``, ``fused_attn = False``,
  ``need_weights``, the softmax of a module that an adapter reads), and
* where queries and keys meet in a fused primitive, with its result: probabilities times values.

Scores of a rotary head, put together plane by plane from queries and keys before rotation, are compared
with the products that met. All must agree within 1e-5 in float32. Scores far from zero have rounding of
their own, 8 ε |q||k|, and where that is more it is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from exactformer.spectra.batches import Batch
from exactformer.spectra.errors import ExtractionError
from exactformer.spectra.extraction import hooks, watching
from exactformer.spectra.primitives import Primitives
from exactformer.spectra.rotation import Rotation
from exactformer.spectra.scores import Scores
from exactformer.spectra.switches import can_be_written_out, written_out

_AGREEMENT = {torch.float32: 1e-5, torch.float64: 1e-12}


def verify(model: nn.Module, batch: Batch) -> float:
    """Return the largest difference between rebuilt and own attention; raise if it is too large."""
    seen: dict[str, Scores] = {}
    checked: dict[str, float] = {}

    def check(scores: Scores) -> None:
        seen[scores.name] = scores
        if scores.rotation is not None:
            _compare_rotated(scores, scores.rotation)
        if scores.own_probabilities is not None:
            checked[scores.name] = compare(scores, scores.own_probabilities)
        elif scores.mixed is not None and scores.values is not None:
            checked[scores.name] = _compare_mixed(scores, scores.values, scores.mixed)

    with watching(model, whole=True, rotary=True) as watch:
        watch.run(batch, check)
    if not seen:
        raise ExtractionError(
            f"no attention was found: nothing in {type(model).__name__} multiplies queries with keys "
            "in a way that is known; register an adapter for the module that does"
        )
    unchecked = set(seen) - set(checked)
    if unchecked:
        raise ExtractionError(
            f"module {min(unchecked)!r}: its adapter shows no probabilities to check against"
        )
    if can_be_written_out(model):
        _verify_written_out(model, batch, seen, checked)
    return max(checked.values())


def _verify_written_out(
    model: nn.Module, batch: Batch, seen: dict[str, Scores], checked: dict[str, float]
) -> None:
    """Compare each softmax that runs in a module known to attend."""
    running: list[nn.Module] = []
    names: dict[nn.Module, list[str]] = {}
    for name, scores in seen.items():
        names.setdefault(scores.module, []).append(name)

    def leave(*_: object) -> None:
        running.pop()

    def compare_softmax(probabilities: Tensor) -> None:
        left = names.get(running[-1], [])
        if left and probabilities.ndim == 4:
            name = left.pop(0)
            checked[name] = max(checked[name], compare(seen[name], probabilities))

    with (
        torch.no_grad(),
        written_out(model),
        hooks(model, lambda module, _: running.append(module), leave),
        Primitives(lambda attention: None, compare_softmax),
    ):
        batch.call(model)


def compare(scores: Scores, own: Tensor) -> float:
    """Return how far the rebuilt attention is from a model's own, over tokens that are there."""
    expected = (*scores.queries.shape[:3], scores.keys.shape[2])
    if tuple(own.shape) != expected:
        raise ExtractionError(
            f"module {scores.name!r} has attention of shape {tuple(own.shape)}; what was extracted "
            f"gives {expected}"
        )
    there = scores.query_tokens
    worst = max(
        _largest(rebuilt - own[:, head][there].double()) for head, rebuilt in _rebuilt(scores)
    )
    return _accept(
        scores, worst, "probabilities rebuilt from its queries and keys differ from its own"
    )


def _compare_mixed(scores: Scores, values: Tensor, mixed: Tensor) -> float:
    there = scores.query_tokens
    share = scores.heads // values.shape[1]
    size = max(_largest(values), torch.finfo(values.dtype).tiny)
    worst = 0.0
    for head, rebuilt in _rebuilt(scores):
        owner = there.nonzero()[:, 0]
        weighed = (rebuilt.unsqueeze(1) @ values[:, head // share].double()[owner]).squeeze(1)
        worst = max(worst, _largest(weighed - mixed[:, head][there].double()) / size)
    return _accept(scores, worst, "values mixed with rebuilt probabilities differ from its own")


def _compare_rotated(scores: Scores, rotation: Rotation) -> None:
    products = scores.queries.double() @ scores.expanded_keys().double().mT
    there = scores.query_tokens[:, :, None] & scores.key_tokens[:, None, :]
    difference = (rotation.scores() - products) * there[:, None]
    size = max(1.0, _largest(products * there[:, None]))
    _accept(
        scores, _largest(difference) / size, "scores rebuilt plane by plane differ from its own"
    )


def _rebuilt(scores: Scores) -> Iterator[tuple[int, Tensor]]:
    """Yield the attention of one head after the other, rows of real tokens only: (rows, τ_k)."""
    additive = scores.additive
    shape = (*scores.queries.shape[:3], scores.keys.shape[2])
    spread = None if additive is None else additive.expand(shape)
    for head in range(scores.heads):
        keys = scores.keys[:, scores.key_head(head)].double()
        products = (scores.queries[:, head].double() @ keys.mT)[scores.query_tokens]
        if spread is not None:
            products = products + spread[:, head][scores.query_tokens].double()
        yield head, products.softmax(dim=-1)


def _accept(scores: Scores, worst: float, problem: str) -> float:
    dtype = scores.queries.dtype
    size = _largest(scores.queries.norm(dim=-1)) * _largest(scores.keys.norm(dim=-1))
    allowed = max(_AGREEMENT.get(dtype, 1e-5), 8 * torch.finfo(dtype).eps * size)
    if not worst <= allowed:
        kind = type(scores.module).__name__
        raise ExtractionError(
            f"module {scores.name!r} ({kind}): {problem} by {worst:.3g}, more than {allowed:.3g}; it "
            "does something to its scores that is not understood"
        )
    return worst


def _largest(values: Tensor) -> float:
    return float(values.abs().max()) if values.numel() else 0.0
