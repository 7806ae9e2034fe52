"""Spectra of real models: what attention multiplies, and how much of its head it needs."""

from exactformer.spectra.analysis import spectrum
from exactformer.spectra.control import control_model
from exactformer.spectra.errors import ExtractionError
from exactformer.spectra.primitives import Attention
from exactformer.spectra.result import Spectrum
from exactformer.spectra.unread import LeftOut

__all__ = [
    "Attention",
    "ExtractionError",
    "LeftOut",
    "Spectrum",
    "control_model",
    "spectrum",
]
