"""exactformer: functions into transformers, with proof of how far off they are.

>>> import exactformer as ef
>>> model = ef.compile("x^2 + y^2", radius=2)
>>> model.certificate.zero_error
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from exactformer.errors import ExactformerError

if TYPE_CHECKING:
    from exactformer import targets, theory
    from exactformer.algebra import Polynomial
    from exactformer.algebra.ridge import RidgeForm, ridge_form
    from exactformer.blueprint import Blueprint, SequenceBlueprint
    from exactformer.certificates import Certificate
    from exactformer.experiments import reproduce
    from exactformer.learning import PolynomialAttentionRegressor
    from exactformer.learning.recommending import Recommendation, recommend_architecture
    from exactformer.model import (
        CompiledModel,
        CouplingModel,
        SequenceModel,
        Trace,
        certify,
        compile,
        compile_coupling,
        compile_sequence,
        measure_sequence_error,
    )
    from exactformer.model.loading import load
    from exactformer.probing import check_equivariance, is_contextual_mapping
    from exactformer.spectra import spectrum
    from exactformer.spectra.shrink import shrink_heads

__version__ = "0.1.0"

# Names and where they live: torch, sympy and the like load with the first name that needs them.
_HOMES = {
    "Blueprint": "blueprint",
    "Certificate": "certificates",
    "CompiledModel": "model",
    "CouplingModel": "model",
    "Polynomial": "algebra",
    "PolynomialAttentionRegressor": "learning",
    "Recommendation": "learning.recommending",
    "RidgeForm": "algebra.ridge",
    "SequenceBlueprint": "blueprint",
    "SequenceModel": "model",
    "Trace": "model",
    "certify": "model",
    "check_equivariance": "probing",
    "compile": "model",
    "compile_coupling": "model",
    "compile_sequence": "model",
    "is_contextual_mapping": "probing",
    "load": "model.loading",
    "measure_sequence_error": "model",
    "recommend_architecture": "learning.recommending",
    "reproduce": "experiments",
    "ridge_form": "algebra.ridge",
    "shrink_heads": "spectra.shrink",
    "spectrum": "spectra",
    "universality_curve": "approximation",
}

__all__ = [
    "Blueprint",
    "Certificate",
    "CompiledModel",
    "CouplingModel",
    "ExactformerError",
    "Polynomial",
    "PolynomialAttentionRegressor",
    "Recommendation",
    "RidgeForm",
    "SequenceBlueprint",
    "SequenceModel",
    "Trace",
    "certify",
    "check_equivariance",
    "compile",
    "compile_coupling",
    "compile_sequence",
    "is_contextual_mapping",
    "load",
    "measure_sequence_error",
    "recommend_architecture",
    "reproduce",
    "ridge_form",
    "shrink_heads",
    "spectrum",
    "targets",
    "theory",
    "universality_curve",
]


# Packages that are part of the public face: ef.targets.Coupling, ef.theory.pod.
_PACKAGES = ("targets", "theory")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"exactformer.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'exactformer' has no attribute {name!r}")
    return getattr(import_module(f"exactformer.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
