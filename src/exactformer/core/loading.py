"""``ef.load`` and ``ef.certify`` for models and files of every family."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exactformer.core.files import kind_of
from exactformer.errors import InputError

if TYPE_CHECKING:
    from exactformer.core.certificate import Certificate
    from exactformer.couplings.model import CouplingModel
    from exactformer.polynomials.model import PolynomialModel
    from exactformer.programs.model import ProgramModel
    from exactformer.sequences.model import SequenceModel

    AnyModel = PolynomialModel | SequenceModel | CouplingModel | ProgramModel

_KINDS = {
    "polynomial": "polynomials",
    "sequence": "sequences",
    "coupling": "couplings",
    "program": "programs",
}
"""By the kind of a file: its family. Any other is refused by the reader of polynomials."""
_LOADERS = {
    "polynomials": ("check", "load"),
    "sequences": ("compile", "load_sequence_model"),
    "couplings": ("check", "load_coupling_model"),
    "programs": ("check", "load_program_model"),
}
_CERTIFIERS = {
    "polynomials": ("check", "certify"),
    "sequences": ("check", "certify_sequence_model"),
    "couplings": ("check", "certify_coupling"),
    "programs": ("check", "certify_program_model"),
}


def load(path: str | Path, **options: Any) -> AnyModel:
    """Load a saved model.

    Models of polynomials, of sequence maps and of programs are proven anew, against the polynomial or
    the tables that their file names. The file of a coupling holds no functions: its bound is the one
    that the file states, checked against the weights as far as these determine it, and marked so (kind
    *stated*). Give the functions, ``target=``, to have it computed anew.

    Options of polynomials are ``dtype``, ``device``, ``executor``, ``outside`` and ``memory_limit``;
    those of sequence maps ``device``, ``executor``, ``outside`` and ``memory_limit``; those of
    couplings ``target``, ``dtype``, ``device``, ``executor`` and ``memory_limit``; those of programs
    ``dtype``, ``device``, ``executor``, ``outside`` and ``memory_limit``.

    Raises:
        ExactformerError: if the file is not a model, would not fit, or cannot be proven.
    """
    model: AnyModel
    if options.get("dtype") is not None:
        from exactformer.core.precision import as_dtype

        options["dtype"] = as_dtype(options["dtype"])
    model = _function(_LOADERS, family_of(path))(path, **options)
    return model


def certify(source: Any, target: Any = None, **options: Any) -> Certificate:
    """Prove a model or a saved file of any family from scratch; raise if it does not hold.

    Nothing that the model or the file says of itself is believed. Without ``target`` it is proven
    against the one that it names: a polynomial, or the tables of a sequence map or a program. The file
    of a coupling holds no functions; without them its bound is *stated by the file*, as far as the
    weights allow.

    Args:
        source: a model, or the path of a saved one.
        target: what it must compute, as the family's compiler takes it.
        options: ``memory_limit``; for polynomials ``variables``; for programs ``vocabulary``,
            ``max_length`` and ``causal``, which are the model's own where they are not given.

    The certificate of a model speaks of its number format and its executor, that of a file of
    float64 and of every executor.

    Raises:
        ExactformerError: if something is not proven, or the source is not a model.
    """
    certificate: Certificate = _function(_CERTIFIERS, family_of(source))(source, target, **options)
    if isinstance(source, str | PathLike):
        return certificate
    from exactformer.core.formats import float_format

    return certificate.about(float_format(source.dtype).name, source.executor)


def family_of(source: Any) -> str:
    """Return the family of a model or of a saved file: the name of its package."""
    if isinstance(source, str | PathLike):
        return _KINDS.get(kind_of(Path(source)) or "", "polynomials")
    for ancestor in type(source).__mro__:
        package, _, rest = ancestor.__module__.partition(".")
        if package == "exactformer" and (family := rest.partition(".")[0]) in _LOADERS:
            return family
    raise InputError(f"a model or the path of a saved one is wanted, not {type(source).__name__}")


def _function(table: Mapping[str, tuple[str, str]], family: str) -> Any:
    module, name = table[family]
    return getattr(import_module(f"exactformer.{family}.{module}"), name)
