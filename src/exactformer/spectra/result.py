"""The spectrum of a model: a table with a row for every head, figures, a file, comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from exactformer.core.words import at_most, plural
from exactformer.errors import InputError
from exactformer.spectra.layers import LayerSpectrum
from exactformer.spectra.unread import LeftOut

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from torch import nn

_COMPARED = ("sigma_1", "effective_rank", "alpha", "dim_99", "dim_999", "shared_99", "shared_999")


@dataclass(frozen=True)
class Spectrum:
    """What :func:`spectrum` returns."""

    layers: tuple[LayerSpectrum, ...]
    """In the order in which they run."""
    model: str
    """The class of the model."""
    agreement: float
    """The largest difference of attention rebuilt and the model's own, on the first batch."""
    centred: bool = False
    control: Spectrum | None = None
    """The same for the control model, if one was asked for."""
    left_out: tuple[LeftOut, ...] = ()
    """Weights and products seen in the model that are not attention that was read."""

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row for each layer and head."""
        return self._rows(lambda layer, head: [layer.row(head)])

    @cached_property
    def singular_values(self) -> pd.DataFrame:
        """One row for each layer, head and k: mean and spread of σ_k over inputs, and pooled."""
        return self._rows(LayerSpectrum.by_value)

    def _rows(self, rows: Callable[[LayerSpectrum, int], list[dict[str, Any]]]) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(
            [
                {"layer": layer.name, "head": head, **row}
                for layer in self.layers
                for head in range(layer.heads)
                for row in rows(layer, head)
            ]
        )

    def layer(self, which: str | int) -> LayerSpectrum:
        """Return a layer by its name or its place."""
        if isinstance(which, int):
            if not -len(self.layers) <= which < len(self.layers):
                raise InputError(f"layer {which}: there are {len(self.layers)}, counted from 0")
            return self.layers[which]
        found = [layer for layer in self.layers if layer.name == which]
        if not found:
            names = ", ".join(layer.name for layer in self.layers)
            raise InputError(f"no layer is called {which!r}; there are {names}")
        return found[0]

    def compare(self, other: Spectrum) -> pd.DataFrame:
        """Return both tables side by side, head by head: one's value, the other's, and how far apart.

        ``distance`` is ½ Σ |p_k − p'_k| of the spectra p_k = σ_k/Σσ: 0 for equal shapes, 1 at most.
        Layers are matched in the order in which they run; head dimensions may differ.
        """
        import pandas as pd

        ours, theirs = ([layer.heads for layer in s.layers] for s in (self, other))
        if ours != theirs:
            raise InputError(
                f"spectra of {len(ours)} and {len(theirs)} layers with heads {ours} and {theirs} "
                "cannot be compared head by head"
            )
        columns: dict[str, Any] = {name: self.table[name] for name in ("layer", "head")}
        for name in _COMPARED:
            columns[name] = self.table[name]
            columns[f"{name}_other"] = other.table[name]
        columns["distance"] = [
            distance
            for one, two in zip(self.layers, other.layers, strict=True)
            for distance in _distances(one, two)
        ]
        return pd.DataFrame(columns)

    def plot(
        self,
        layer: str | int = -1,
        head: int = 0,
        kind: Literal["both", "violin", "decay", "needed"] = "both",
    ) -> Figure:
        """Draw the distribution of each singular value of a head (figure 2), the decay of its layer's
        heads (figure 3a), both, or the head dimension needed by every head of the model.
        """
        from exactformer.spectra.drawing import draw

        return draw(self, layer, head, kind)

    def truncated(
        self, model: nn.Module, rank: int | None = None, *, energy: float | None = None
    ) -> AbstractContextManager[None]:
        """Have a model compute its scores from their leading directions only, inside a ``with`` block.

        So the price of smaller heads is measured on the model itself. ``rank`` is the number of
        directions of every head; ``energy`` gives each head as few as hold this share of the energy,
        such as 0.99. They are those of the inputs that this spectrum was taken on. A head that keeps
        all of its dimensions is left alone.
        """
        from exactformer.spectra.truncation import truncated

        return truncated(self, model, rank, energy)

    def save(self, path: str | Path) -> None:
        """Write everything to one .safetensors file."""
        from exactformer.spectra.storage import save

        save(self, path)

    @staticmethod
    def load(path: str | Path) -> Spectrum:
        """Read what :meth:`save` wrote."""
        from exactformer.spectra.storage import load

        return load(path)

    def to_dict(self) -> dict[str, Any]:
        """Return the table and what it is of, for JSON."""
        records: list[Mapping[Any, Any]] = list(self.table.to_dict(orient="records"))
        return {
            "model": self.model,
            "agreement": self.agreement,
            "centred": self.centred,
            "heads": [dict(record) for record in records],
            "left_out": [asdict(left) for left in self.left_out],
            "control": None if self.control is None else self.control.to_dict(),
        }

    @property
    def headline(self) -> str:
        """Say how much was looked at."""
        modules = plural(len(self.layers), "attention module")
        inputs = plural(self.layers[0].inputs, "input")
        return f"{self.model}: {plural(len(self.table), 'head')} in {modules}, {inputs}"

    def __str__(self) -> str:
        """Return a summary by layer."""
        size = max((len(layer.name) for layer in self.layers), default=0)
        lines = [f"{self.headline}; attention rebuilt within {at_most(self.agreement, 2)}"]
        for layer in self.layers:
            heads = range(layer.heads)
            kept = [layer.shared(head, 0.999) for head in heads]
            lines.append(
                f"  {layer.name:<{size}}  {layer.heads} heads of {layer.head_dim}: effective rank "
                f"{layer.effective_rank.mean():.1f}, 99.9 % in {min(kept)} to {max(kept)}"
            )
        return "\n".join([*lines, *(f"  left out: {left}" for left in self.left_out)])


def _distances(one: LayerSpectrum, two: LayerSpectrum) -> list[float]:
    width = max(one.head_dim, two.head_dim)
    shapes = []
    for layer in (one, two):
        total = layer.mean.sum(axis=1, keepdims=True)
        shape = np.divide(layer.mean, total, out=np.zeros_like(layer.mean), where=total > 0)
        shapes.append(np.pad(shape, ((0, 0), (0, width - layer.head_dim))))
    return [float(d) for d in np.abs(shapes[0] - shapes[1]).sum(axis=1) / 2]
