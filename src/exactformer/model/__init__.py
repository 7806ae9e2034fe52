"""Compiled models: compile, load, certify."""

from exactformer.model.checking import certify, load
from exactformer.model.compiled import CompiledModel, Trace
from exactformer.model.compiling import compile

__all__ = ["CompiledModel", "Trace", "certify", "compile", "load"]
