"""BLEU as sacrebleu counts it: on the text itself, case kept, its own splitting into words (13a)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from exactformer.errors import needs


def bleu(lines: Sequence[str], references: Sequence[str]) -> float:
    """Return the corpus score, 0 to 100, of ``lines`` against one reference each."""
    return float(counter().corpus_score(list(lines), [list(references)]).score)


def counter() -> Any:
    """Return sacrebleu's counter; called before a long training, it reports a missing package."""
    with needs("reproduce", "BLEU"):
        from sacrebleu.metrics.bleu import BLEU
    return BLEU()
