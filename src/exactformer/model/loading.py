"""``ef.load``: whatever was saved, a polynomial's model or a sequence map's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from exactformer.blueprint.sequence_storing import is_sequence_file
from exactformer.model import checking
from exactformer.model.compiled import CompiledModel
from exactformer.model.sequence_model import SequenceModel
from exactformer.model.sequences import load_sequence_model


def load(path: str | Path, **options: Any) -> CompiledModel | SequenceModel:
    """Load a saved model, proving it anew against the polynomial or the table that its file names.

    Options of polynomials are ``dtype``, ``device``, ``executor``, ``outside`` and ``memory_limit``;
    those of sequence maps ``device`` and ``executor``.
    """
    if is_sequence_file(path):
        return load_sequence_model(path, **options)
    return checking.load(path, **options)
