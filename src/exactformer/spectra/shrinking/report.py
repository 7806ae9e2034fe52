"""What shrinking heads saved, and what it changed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from exactformer.spectra.omissions import LeftOut

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Saving:
    """A count before and after."""

    before: float
    after: float

    @property
    def share(self) -> float:
        """The part that is gone, 0 … 1."""
        return 1 - self.after / self.before if self.before else 0.0


@dataclass(frozen=True)
class HeadChange:
    """One query head: its new dimension, and what that did to its scores and attention."""

    layer: str
    head: int
    head_dim: int
    new_head_dim: int
    new_value_dim: int | None
    """Of values, where they shrink."""
    energy: float
    """Share of the energy that the new dimension keeps."""
    score_error: float
    """Relative error of the scores, root mean square, up to a constant of each query; like the next,
    on inputs that were held out, if there are any."""
    attention_change: float
    """Mean total variation distance between old and new attention, 0 … 1."""


@dataclass(frozen=True)
class Errors:
    """What smaller heads change on some inputs, measured in all heads together."""

    inputs: int
    score_error: float
    """Relative, root mean square, up to a constant of each query."""
    attention_change: float
    """Mean total variation distance between old and new attention, 0 … 1."""
    output_change: float
    """‖o' − o‖ / ‖o‖ of the outputs, at tokens that are there."""


@dataclass(frozen=True)
class ShrinkReport:
    """The account of one call of ``shrink_heads``; ``print`` shows it, ``.table`` has all heads."""

    model: str
    method: str
    form: str
    heads: tuple[HeadChange, ...]
    parameters: Saving
    """Of the whole model."""
    projection_parameters: Saving
    """Of the projections of queries and keys; where values shrink, of theirs and the outputs' too."""
    key_cache: Saving
    """Bytes for each token."""
    value_cache: Saving | None
    """Bytes for each token, where values shrink."""
    score_flops: Saving
    """Operations for each pair of tokens, in all layers."""
    predicted_score_error: float
    """Relative, on the inputs that were fitted to, from moments and the discarded directions."""
    predicted_value_error: float | None
    """Relative, of what attention adds to the stream, from moments in the same way; where values
    shrink."""
    fitted: Errors
    """Measured in the finished model on the inputs that it was fitted to."""
    held_out: Errors | None
    """Measured on inputs that were kept back; None where there are none."""
    metric: Saving | None = None
    notes: tuple[str, ...] = ()
    stock: dict[str, int] | None = None
    """The entries of a configuration by which plain transformers builds the model at its new size."""
    loading: str = ""
    """Which loader reads a Hugging Face model that was saved, at which size."""
    left_out: tuple[LeftOut, ...] = ()
    """Weights and products seen in the model that are not attention that was read."""

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row for each query head."""
        import pandas as pd

        return pd.DataFrame([asdict(head) for head in self.heads])

    @property
    def dims(self) -> tuple[int, ...]:
        """All new head dimensions that occur, ascending."""
        return tuple(sorted({head.new_head_dim for head in self.heads}))

    def to_dict(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """Return the account in lines."""
        old = sorted({head.head_dim for head in self.heads})
        lines = [
            f"{self.model}: {len(self.heads)} heads of {_span(old)} shrunk to {_span(self.dims)} "
            f"({_METHODS[self.method]}; {self.form})",
            f"  parameters        {_saved(self.parameters)}",
            f"    projections     {_saved(self.projection_parameters)}",
            f"  key cache         {_saved(self.key_cache)} bytes a token",
        ]
        if self.value_cache is not None:
            lines.append(f"  value cache       {_saved(self.value_cache)} bytes a token")
        lines.append(f"  score operations  {_saved(self.score_flops)} a pair of tokens")
        lines += self._errors()
        if self.metric is not None:
            lines.append(f"  metric            {self.metric.before:.6g} → {self.metric.after:.6g}")
        lines += [f"  {note}" for note in (*self.notes, self.loading) if note]
        return "\n".join([*lines, *(f"  left out: {left}" for left in self.left_out)])

    def _errors(self) -> list[str]:
        """Return what changed: on inputs held out first, on those fitted to in brackets."""
        known, other = self.fitted, self.held_out
        counts = f"{known.inputs:,} fitted"
        if other is None:
            heading = f"  measured on the {counts} inputs alone"
        else:
            heading = f"  measured on {other.inputs:,} inputs held out (on the {counts})"

        def both(name: str, tail: str = "") -> str:
            old = f"{getattr(known, name):.2%}"
            return f"{old}{tail}" if other is None else f"{getattr(other, name):.2%} ({old}{tail})"

        predicted = f", predicted {self.predicted_score_error:.2%}"
        return [
            heading,
            f"    scores          off by {both('score_error', predicted)}",
            f"    attention       moved by {both('attention_change')} of its mass",
            f"    outputs         off by {both('output_change')}",
        ]


_METHODS = {"data": "fitted to the inputs", "weights": "by weights alone"}


def _span(values: Any) -> str:
    return f"{values[0]}" if len(values) == 1 else f"{values[0]} … {values[-1]}"


def _saved(saving: Saving) -> str:
    return f"{saving.before:,.0f} → {saving.after:,.0f}  (−{saving.share:.1%})"
