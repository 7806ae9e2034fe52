"""BLEU as sacrebleu counts it: on the text itself, case kept, its own splitting into words (13a)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from exactformer.errors import InputError


def bleu(lines: Sequence[str], references: Sequence[str]) -> float:
    """Return the corpus score, 0 to 100, of ``lines`` against one reference each."""
    return float(counter().corpus_score(list(lines), [list(references)]).score)


def counter() -> Any:
    """Return sacrebleu's counter; call this early, so that a missing package stops no long training."""
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError:
        raise InputError("BLEU is counted by sacrebleu: pip install sacrebleu") from None
    return BLEU()
