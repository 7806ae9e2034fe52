"""A fit as far as it has come: fitted layers, and the hidden states behind the last of them.

In a checkpoint a layer is written before the states behind it, and the states are removed behind the
last layer. So a fit goes on where its states are, and a layer without them is fitted again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from torch import Tensor

from exactformer.spectra.caching.attention import LatentAttention
from exactformer.spectra.caching.checkpoint import Checkpoint
from exactformer.spectra.caching.methods import Plan

_STATES = "states"
_FITTED = (
    "encode.weight",
    "encode.bias",
    "decode.weight",
    "decode.bias",
    "sensitivity",
    "o_proj.weight",
)


@dataclass(frozen=True)
class FittedLayer:
    """What calibration found of one layer."""

    name: str
    state: int
    ranks: Plan
    predicted: float
    """Nats of loss by the Fisher metric: ½ tr G cov(u − û)."""
    strain: float
    """The part of it by G's diagonal, which the finished model can measure."""
    residual: float
    """‖u − û‖ / ‖u − μ‖ on the calibration text, root mean square."""
    scores: float
    """Root mean square change of scores, predicted from moments."""
    output: float
    """‖x' − x‖ / ‖x‖ of hidden states behind the layer, on the calibration text."""


@dataclass(frozen=True)
class Stream:
    """What enters the next layer, by rows of windows: (rows, length, width)."""

    before: list[Tensor]
    """In the original."""
    after: list[Tensor]
    """In the smaller model."""
    latents: list[list[Tensor]]
    """By layer and rows; empty where no layer above reads them."""


def layers_done(checkpoint: Checkpoint) -> int:
    """Return the layers behind which states were saved."""
    return checkpoint.done(_STATES)


def save(
    checkpoint: Checkpoint, attention: LatentAttention, found: FittedLayer, stream: Stream | None
) -> None:
    """Write a layer that was just fitted, and the states behind it unless it is the last."""
    checkpoint.write(_name(attention.layer_idx), _tensors(attention), asdict(found))
    if stream is None:
        checkpoint.remove(_STATES)
        return
    rows = {"before": stream.before, "after": stream.after}
    rows |= {f"latents.{i}": latents for i, latents in enumerate(stream.latents)}
    tensors = {f"{name}.{i}": x for name, xs in rows.items() for i, x in enumerate(xs)}
    checkpoint.write(
        _STATES, tensors, {"done": attention.layer_idx + 1, "rows": len(stream.before)}
    )


def restore(
    checkpoint: Checkpoint, attentions: Sequence[LatentAttention], plans: Sequence[Plan]
) -> tuple[list[FittedLayer], Stream | None]:
    """Fill the layers that were saved; return what was found of them, and the states to go on from."""
    saved = checkpoint.read(_STATES)
    done, stream = 0, None
    if saved is not None:
        done, stream = int(saved[1]["done"]), _stream(*saved)
    elif checkpoint.has(_name(len(attentions) - 1)):
        done = len(attentions)
    found = [_restored(checkpoint, *one) for one in zip(attentions[:done], plans, strict=False)]
    return found, stream


def _restored(checkpoint: Checkpoint, attention: LatentAttention, plan: Plan) -> FittedLayer:
    name = _name(attention.layer_idx)
    saved = checkpoint.read(name)
    if saved is None:
        raise checkpoint.refusal(name, "is missing")
    tensors, facts = saved
    found = FittedLayer(**{**facts, "ranks": tuple(facts["ranks"])})
    if found.ranks != plan:
        raise checkpoint.refusal(name, f"has the ranks {found.ranks}, not {plan}")
    for key, parameter in _tensors(attention).items():
        parameter.copy_(tensors[key])
    return found


def _stream(tensors: dict[str, Tensor], facts: dict[str, int]) -> Stream:
    def rows(name: str) -> list[Tensor]:
        return [tensors[key] for i in range(facts["rows"]) if (key := f"{name}.{i}") in tensors]

    latents = [rows(f"latents.{i}") for i in range(facts["done"])]
    return Stream(rows("before"), rows("after"), latents)


def _tensors(attention: LatentAttention) -> dict[str, Tensor]:
    """Return the tensors that a fit changes."""
    return {name: attention.get_parameter(name).data for name in _FITTED}


def _name(layer: int) -> str:
    return f"layer-{layer:03}"
