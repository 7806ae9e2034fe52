"""The recommendation: a verdict with its confidence, the evidence by name, words, a picture."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from operator import attrgetter
from textwrap import fill
from typing import TYPE_CHECKING, Any

from exactformer.errors import InputError
from exactformer.learning.recommending.decision import Reason, Verdict
from exactformer.learning.recommending.evidence import Evidence
from exactformer.learning.recommending.samples import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH = 100


@dataclass(frozen=True, eq=False)
class Recommendation:
    """Whether a transformer or an RNN suits a relationship between sequences, and why.

    ``confidence`` is the share of bootstrap draws of the held-out sequences in which the rule comes to
    the same verdict; for "undecided", in which it comes to no other one. ``shares`` has all three.
    """

    verdict: Verdict
    confidence: float
    reason: Reason
    shares: dict[Verdict, float]
    evidence: tuple[Evidence, ...]
    text: str
    kernel: Array = field(repr=False)
    """κ(s) (τ, d, k) of the best time-invariant linear map."""
    kernel_error: Array = field(repr=False)
    hankel: Array = field(repr=False)
    """Singular values of the kernel's Hankel matrix: what each further state is worth."""
    singular_values: Array = field(repr=False)
    """Those of the learnt score; of the coupling itself where it was given."""
    by_head_size: dict[int, float] = field(repr=False)
    """Share of the variance explained with the score cut to a head of each size."""

    def __getitem__(self, name: str) -> Evidence:
        """Return the evidence of a name."""
        for one in self.evidence:
            if one.name == name:
                return one
        raise InputError(
            f"there is no evidence {name!r}; there is {', '.join(e.name for e in self.evidence)}"
        )

    def __str__(self) -> str:
        """Return the words and, below them, the numbers."""
        words = [fill(line, _WIDTH) for line in self.text.splitlines()]
        name, number = (
            max(len(text(one)) for one in self.evidence) for text in (attrgetter("name"), str)
        )
        rows = [f"  {one.name:{name}}  {one!s:{number}}  {one.meaning}" for one in self.evidence]
        return "\n".join([*words, "", *rows])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        arrays = ("kernel", "kernel_error", "hankel", "singular_values")
        return {
            **asdict(self),
            **{name: getattr(self, name).tolist() for name in arrays},
            "evidence": [asdict(one) for one in self.evidence],
            "by_head_size": {str(m): share for m, share in self.by_head_size.items()},
        }

    def plot(self) -> Figure:
        """Draw memory kernel, spectrum, and what each model explains."""
        from exactformer.learning.recommending.drawing import draw

        return draw(self)
