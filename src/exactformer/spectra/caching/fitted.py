"""A fit as far as it has come: fitted layers, and the hidden states behind the last of them.

In a checkpoint a layer is written before the states behind it, and the states are removed behind the
last layer. So a fit goes on where its states are, and a layer without them is fitted again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

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


@dataclass
class Stream:
    """Some windows on their way through both models: what enters the next layer."""

    settings: dict[str, Any]
    """What all layers are told: positions, angles, a mask."""
    before: Tensor
    """(rows, length, width), in the original."""
    after: Tensor
    """In the smaller model."""
    latents: dict[int, Tensor] = field(default_factory=dict)
    """By layer, those that a layer above may read: (rows, length, rank)."""


def save(
    checkpoint: Checkpoint,
    attention: LatentAttention,
    found: FittedLayer,
    streams: Sequence[Stream],
) -> None:
    """Write a layer that was just fitted, and the states behind it; behind the last there are none."""
    checkpoint.write(_name(attention.layer_idx), _tensors(attention), asdict(found))
    if not streams:
        checkpoint.remove(_STATES)
        return
    tensors = {f"{name}.{i}": x for i, s in enumerate(streams) for name, x in _states(s).items()}
    checkpoint.write(_STATES, tensors, {"done": attention.layer_idx + 1, "rows": len(streams)})


def restore(
    checkpoint: Checkpoint,
    attentions: Sequence[LatentAttention],
    plans: Sequence[Plan],
    streams: Sequence[Stream],
) -> list[FittedLayer]:
    """Fill the layers that were saved, and the states behind them; return what was found."""
    saved = checkpoint.read(_STATES)
    done = 0
    if saved is not None:
        tensors, facts = saved
        done = int(facts["done"])
        for i, stream in enumerate(streams):
            own = {n.removesuffix(f".{i}"): x for n, x in tensors.items() if n.endswith(f".{i}")}
            stream.before, stream.after = own.pop("before"), own.pop("after")
            stream.latents = {int(name.removeprefix("latents.")): x for name, x in own.items()}
    elif checkpoint.has(_name(len(attentions) - 1)):
        done = len(attentions)
    return [_restored(checkpoint, *one) for one in zip(attentions[:done], plans, strict=False)]


def _states(stream: Stream) -> dict[str, Tensor]:
    latents = {f"latents.{layer}": x for layer, x in stream.latents.items()}
    return {"before": stream.before, "after": stream.after, **latents}


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


def _tensors(attention: LatentAttention) -> dict[str, Tensor]:
    """Return the tensors that a fit changes."""
    return {name: attention.get_parameter(name).data for name in _FITTED}


def _name(layer: int) -> str:
    return f"layer-{layer:03}"
