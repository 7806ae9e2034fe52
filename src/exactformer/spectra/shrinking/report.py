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
    energy: float
    """Share of the energy that the new dimension keeps."""
    score_error: float
    """Relative error of the scores, root mean square, up to a constant of each query."""
    attention_change: float
    """Mean total variation distance between old and new attention, 0 … 1."""


@dataclass(frozen=True)
class ShrinkReport:
    """The account of one call of ``shrink_heads``; ``print`` shows it, ``.table`` has all heads."""

    model: str
    method: str
    form: str
    inputs: int
    heads: tuple[HeadChange, ...]
    parameters: Saving
    """Of the whole model."""
    projection_parameters: Saving
    """Of the projections of queries and keys."""
    key_cache: Saving
    """Bytes for each token."""
    score_flops: Saving
    """Operations for each pair of tokens, in all layers."""
    predicted_score_error: float
    """Relative, from moments and the discarded directions."""
    score_error: float
    """Relative, measured in the finished model on the inputs."""
    attention_change: float
    output_change: float
    """‖o' − o‖ / ‖o‖ on the inputs."""
    metric: Saving | None = None
    note: str = ""
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
            f"    queries, keys   {_saved(self.projection_parameters)}",
            f"  key cache         {_saved(self.key_cache)} bytes a token",
            f"  score operations  {_saved(self.score_flops)} a pair of tokens",
            f"  scores            {self.score_error:.2%} off (predicted "
            f"{self.predicted_score_error:.2%})",
            f"  attention         {self.attention_change:.2%} of its mass moved",
            f"  outputs           {self.output_change:.2%} off, on {self.inputs:,} inputs",
        ]
        if self.metric is not None:
            lines.append(f"  metric            {self.metric.before:.6g} → {self.metric.after:.6g}")
        lines += [f"  {self.note}"] if self.note else []
        return "\n".join([*lines, *(f"  left out: {left}" for left in self.left_out)])


_METHODS = {"data": "fitted to the inputs", "weights": "by weights alone"}


def _span(values: Any) -> str:
    return f"{values[0]}" if len(values) == 1 else f"{values[0]} … {values[-1]}"


def _saved(saving: Saving) -> str:
    return f"{saving.before:,.0f} → {saving.after:,.0f}  (−{saving.share:.1%})"
