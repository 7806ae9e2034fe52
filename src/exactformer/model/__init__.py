"""Compiled models: compile, load, certify."""

from exactformer.model.checking import certify, load
from exactformer.model.compiled import CompiledModel, Trace
from exactformer.model.compiling import compile
from exactformer.model.coupling_compiling import compile_coupling
from exactformer.model.coupling_model import CouplingModel
from exactformer.model.sequence_errors import measure_sequence_error
from exactformer.model.sequence_model import SequenceModel
from exactformer.model.sequences import compile_sequence

__all__ = [
    "CompiledModel",
    "CouplingModel",
    "SequenceModel",
    "Trace",
    "certify",
    "compile",
    "compile_coupling",
    "compile_sequence",
    "load",
    "measure_sequence_error",
]
