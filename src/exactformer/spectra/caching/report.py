"""What a smaller cache saved, and what it changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from math import exp, sqrt
from typing import TYPE_CHECKING, Any

from exactformer.spectra.caching.fitted import FittedLayer
from exactformer.spectra.shrinking.report import Saving

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class CacheReport:
    """The account of one call of ``shrink_cache``; ``print`` shows it, ``.table`` has all layers."""

    model: str
    method: str
    lookback: int
    calibrated: int
    """Tokens that the latents were fitted to."""
    measured: int
    """Predicted tokens of held-out text."""
    bytes_per_token: Saving
    """Of the cache, measured."""
    loss: Saving
    """Mean loss on held-out text, in nats for each token."""
    loss_error: float
    """Standard error of the change of the loss, over windows."""
    predicted: float
    """Change of the loss by the Fisher metric: good for comparing, too small where much is left out."""
    layers: tuple[FittedLayer, ...]
    scores: tuple[float, ...]
    """Root mean square change of scores in every layer, measured on held-out text."""
    note: str = ""

    @property
    def perplexity(self) -> Saving:
        """The exponential of the loss."""
        return Saving(exp(self.loss.before), exp(self.loss.after))

    @property
    def loss_change(self) -> float:
        """Nats for each token, on held-out text."""
        return self.loss.after - self.loss.before

    @property
    def perplexity_rise(self) -> float:
        """The relative change of perplexity on held-out text, which ``max_loss`` bounds."""
        return exp(self.loss_change) - 1

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row for each layer."""
        import pandas as pd

        rows = [
            {**asdict(layer), "rank": sum(layer.ranks), "scores measured": measured}
            for layer, measured in zip(self.layers, self.scores, strict=True)
        ]
        return pd.DataFrame(rows).rename(columns={"scores": "scores predicted"})

    def to_dict(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        derived = {"perplexity": asdict(self.perplexity), "perplexity_rise": self.perplexity_rise}
        return {**asdict(self), **derived}

    def plot(self) -> Figure:
        """Draw the rank of every layer's latent, and what each layer loses."""
        from exactformer.figures.style import BLUE, GREY, ORANGE, PALE, exactformer_style, subplots

        places = range(len(self.layers))
        with exactformer_style():
            figure, (ranks, losses) = subplots(10, 3.6, 1, 2)
            ranks.bar(places, [layer.state for layer in self.layers], color=PALE, label="before")
            ranks.bar(places, [sum(x.ranks) for x in self.layers], color=BLUE, label="after")
            ranks.set(xlabel="layer", ylabel="numbers in the cache for a token")
            ranks.legend()
            losses.plot(places, [x.predicted for x in self.layers], "o-", color=ORANGE, ms=3)
            losses.set(xlabel="layer", ylabel="predicted loss, nats for each token")
            losses.axhline(0, color=GREY, lw=0.8)
            change = f"{self.perplexity.before:.2f} → {self.perplexity.after:.2f}"
            figure.suptitle(f"{self.model}, {self.method}: perplexity {change}", fontsize=10)
        return figure

    def __str__(self) -> str:
        """Return the account in lines."""
        cache, before, after = self.bytes_per_token, self.perplexity.before, self.perplexity.after
        ranks = [sum(layer.ranks) for layer in self.layers]
        state = max(layer.state for layer in self.layers)
        lines = [
            f"{self.model}: latents of {min(ranks)} … {max(ranks)} for {state} numbers of keys and "
            f"values, in {len(ranks)} layers ({self.method})",
            f"  cache       {cache.before:,.0f} → {cache.after:,.0f} bytes for each token "
            f"({cache.after / cache.before:.1%})",
            f"  perplexity  {before:.2f} → {after:.2f} on {self.measured:,} held-out tokens "
            f"(× {after / before:.4f})",
            f"  loss        {self.loss_change:+.4f} ± {self.loss_error:.4f} nats for each token "
            f"(predicted {self.predicted:+.4f})",
            f"  scores      ± {_mean(self.scores):.3f}, root mean square over layers "
            f"(predicted {_mean([x.scores for x in self.layers]):.3f})",
            f"  calibrated  on {self.calibrated:,} tokens",
        ]
        return "\n".join([*lines, *([f"  {self.note}"] if self.note else [])])


def _mean(changes: Sequence[float]) -> float:
    """Return the root mean square."""
    return sqrt(sum(x * x for x in changes) / len(changes))
