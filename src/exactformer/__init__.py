"""exactformer: functions into transformers, with proof of how far off they are.

>>> import exactformer as ef
>>> model = ef.compile("x^2 + y^2", radius=2)
>>> model.certificate.zero_error
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from exactformer.errors import ExactformerError
from exactformer.version import __version__ as __version__

if TYPE_CHECKING:
    from exactformer import targets, theory
    from exactformer.algebra import Polynomial
    from exactformer.algebra.ridge import RidgeForm, ridge_form
    from exactformer.coq.prove import prove
    from exactformer.core.certificate import Bound, Certificate, Claim, Measured
    from exactformer.core.loading import certify, load
    from exactformer.core.model import CertifiedModel, Trace
    from exactformer.couplings.compile import compile_coupling
    from exactformer.couplings.model import CouplingModel
    from exactformer.experiments import reproduce
    from exactformer.learning.dynamics import Equations, fit_dynamics
    from exactformer.learning.laws.diagnosis import LawWarning
    from exactformer.learning.laws.regressor import PolynomialAttentionRegressor
    from exactformer.polynomials.blueprint import Blueprint
    from exactformer.polynomials.compile import compile
    from exactformer.polynomials.model import PolynomialModel
    from exactformer.probing import check_equivariance, is_contextual_mapping
    from exactformer.programs import language as rasp
    from exactformer.programs.compile import compile_program
    from exactformer.programs.hugging_face import register_transformers
    from exactformer.programs.model import ProgramModel
    from exactformer.sequences.blueprint import SequenceBlueprint
    from exactformer.sequences.compile import compile_sequence
    from exactformer.sequences.model import SequenceModel
    from exactformer.spectra import spectrum
    from exactformer.verification.verdict import Verdict
    from exactformer.verification.verify import verify


# Names and where they live: torch, sympy and the like load with the first name that needs them.
_HOMES = {
    "Blueprint": "polynomials.blueprint",
    "Bound": "core.certificate",
    "Certificate": "core.certificate",
    "CertifiedModel": "core.model",
    "Claim": "core.certificate",
    "CouplingModel": "couplings.model",
    "Equations": "learning.dynamics",
    "LawWarning": "learning.laws.diagnosis",
    "Measured": "core.certificate",
    "Polynomial": "algebra",
    "PolynomialAttentionRegressor": "learning.laws.regressor",
    "PolynomialModel": "polynomials.model",
    "ProgramModel": "programs.model",
    "RidgeForm": "algebra.ridge",
    "SequenceBlueprint": "sequences.blueprint",
    "SequenceModel": "sequences.model",
    "Trace": "core.model",
    "certify": "core.loading",
    "check_equivariance": "probing",
    "compile": "polynomials.compile",
    "compile_coupling": "couplings.compile",
    "compile_program": "programs.compile",
    "compile_sequence": "sequences.compile",
    "fit_dynamics": "learning.dynamics",
    "is_contextual_mapping": "probing",
    "load": "core.loading",
    "prove": "coq.prove",
    "register_transformers": "programs.hugging_face",
    "reproduce": "experiments",
    "ridge_form": "algebra.ridge",
    "spectrum": "spectra",
    "Verdict": "verification.verdict",
    "universality_curve": "polynomials.functions.curve",
    "verify": "verification.verify",
}

__all__ = [
    "Blueprint",
    "Bound",
    "Certificate",
    "CertifiedModel",
    "Claim",
    "CouplingModel",
    "Equations",
    "ExactformerError",
    "LawWarning",
    "Measured",
    "Polynomial",
    "PolynomialAttentionRegressor",
    "PolynomialModel",
    "ProgramModel",
    "RidgeForm",
    "SequenceBlueprint",
    "SequenceModel",
    "Trace",
    "Verdict",
    "certify",
    "check_equivariance",
    "compile",
    "compile_coupling",
    "compile_program",
    "compile_sequence",
    "fit_dynamics",
    "is_contextual_mapping",
    "load",
    "prove",
    "rasp",
    "register_transformers",
    "reproduce",
    "ridge_form",
    "spectrum",
    "targets",
    "theory",
    "universality_curve",
    "verify",
]


# Modules that are part of the public face: ef.targets.Coupling, ef.theory.pod, ef.rasp.Select.
_PACKAGES = {"rasp": "programs.language", "targets": "targets", "theory": "theory"}


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"exactformer.{_PACKAGES[name]}")
    if name not in _HOMES:
        raise AttributeError(f"module 'exactformer' has no attribute {name!r}")
    return getattr(import_module(f"exactformer.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
