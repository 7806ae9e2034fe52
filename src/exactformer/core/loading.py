"""``ef.load``: whatever was saved, the model of a polynomial, a sequence map or a coupling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from exactformer.couplings.compile import load_coupling_model
from exactformer.couplings.files import is_coupling_file
from exactformer.couplings.model import CouplingModel
from exactformer.polynomials import check as checking
from exactformer.polynomials.model import CompiledModel
from exactformer.sequences.compile import load_sequence_model
from exactformer.sequences.files import is_sequence_file
from exactformer.sequences.model import SequenceModel


def load(path: str | Path, **options: Any) -> CompiledModel | SequenceModel | CouplingModel:
    """Load a saved model.

    Models of polynomials and of sequence maps are proven anew, against the polynomial or the table
    that their file names. The file of a coupling holds no functions: its bound is the one that the
    file states, checked against the weights as far as these determine it, and marked so
    (``model.bound.source``). Give the functions, ``target=``, to have it computed anew.

    Options of polynomials are ``dtype``, ``device``, ``executor``, ``outside`` and ``memory_limit``;
    those of sequence maps ``device``, ``executor`` and ``memory_limit``; those of couplings ``target``,
    ``dtype``, ``device``, ``executor`` and ``memory_limit``.

    Raises:
        ExactformerError: if the file is not a model, would not fit, or cannot be proven.
    """
    if is_coupling_file(path):
        return load_coupling_model(path, **options)
    if is_sequence_file(path):
        return load_sequence_model(path, **options)
    return checking.load(path, **options)
