"""``ef.load``: whatever was saved, the model of a polynomial, a sequence map or a coupling."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exactformer.core.files import format_of

if TYPE_CHECKING:
    from exactformer.couplings.model import CouplingModel
    from exactformer.polynomials.model import PolynomialModel
    from exactformer.sequences.model import SequenceModel

_LOADERS = {
    "exactformer-sequence": ("sequences.compile", "load_sequence_model"),
    "exactformer-coupling": ("couplings.compile", "load_coupling_model"),
}
_POLYNOMIALS = ("polynomials.check", "load")


def load(path: str | Path, **options: Any) -> PolynomialModel | SequenceModel | CouplingModel:
    """Load a saved model.

    Models of polynomials and of sequence maps are proven anew, against the polynomial or the table
    that their file names. The file of a coupling holds no functions: its bound is the one that the
    file states, checked against the weights as far as these determine it, and marked so
    (``model.bound.source``). Give the functions, ``target=``, to have it computed anew.

    Options of polynomials are ``dtype``, ``device``, ``executor``, ``outside`` and ``memory_limit``;
    those of sequence maps ``device``, ``executor``, ``outside`` and ``memory_limit``; those of
    couplings ``target``, ``dtype``, ``device``, ``executor`` and ``memory_limit``.

    Raises:
        ExactformerError: if the file is not a model, would not fit, or cannot be proven.
    """
    kind = (format_of(path) or "").rpartition("-")[0]
    module, function = _LOADERS.get(kind, _POLYNOMIALS)
    loader: Any = getattr(import_module(f"exactformer.{module}"), function)
    model: PolynomialModel | SequenceModel | CouplingModel = loader(path, **options)
    return model
