"""Spectra of real models: what attention multiplies, and how much of its head it needs."""

from exactformer.spectra.adapters import Adapter, Call, register, unregister
from exactformer.spectra.analysis import spectrum
from exactformer.spectra.control import control_model
from exactformer.spectra.errors import ExtractionError
from exactformer.spectra.omissions import LeftOut
from exactformer.spectra.primitives import Attention
from exactformer.spectra.result import Spectrum
from exactformer.spectra.scores import Projection, Scores

__all__ = [
    "Adapter",
    "Attention",
    "Call",
    "ExtractionError",
    "LeftOut",
    "Projection",
    "Scores",
    "Spectrum",
    "control_model",
    "register",
    "spectrum",
    "unregister",
]
