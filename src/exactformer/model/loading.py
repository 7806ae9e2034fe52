"""``ef.load``: whatever was saved, the model of a polynomial, a sequence map or a coupling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from exactformer.blueprint.coupling_storing import is_coupling_file
from exactformer.blueprint.sequence_storing import is_sequence_file
from exactformer.model import checking
from exactformer.model.compiled import CompiledModel
from exactformer.model.coupling_compiling import load_coupling_model
from exactformer.model.coupling_model import CouplingModel
from exactformer.model.sequence_model import SequenceModel
from exactformer.model.sequences import load_sequence_model


def load(path: str | Path, **options: Any) -> CompiledModel | SequenceModel | CouplingModel:
    """Load a saved model, proving it anew against the polynomial or the table that its file names.

    Options of polynomials are ``dtype``, ``device``, ``executor``, ``outside`` and ``memory_limit``;
    those of sequence maps ``device`` and ``executor``; those of couplings these and ``dtype``. The file
    of a coupling names no target: its bound is the one it was saved with.
    """
    if is_coupling_file(path):
        return load_coupling_model(path, **options)
    if is_sequence_file(path):
        return load_sequence_model(path, **options)
    return checking.load(path, **options)
