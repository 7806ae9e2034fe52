"""A case: one model with a name, and how to make it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """One model, honest or forged, that is asked all that :mod:`tests.golden.asking` knows to ask."""

    name: str
    make: Callable[..., Any]
    """Makes a model or a certificate, or raises an error of the package, which is an answer as well."""
    executors: tuple[str, ...] = ()
    """In which ways the model is run; ``make`` then takes ``executor=`` and ``dtype=``."""
    dtypes: tuple[str, ...] = ("float64", "float32")
    """In which formats it is run."""
    stored: bool = True
    """Whether answers are the same on every processor; tables from LAPACK make them differ."""
    short: bool = False
    """Whether answers are stored as one: a refusal, or a digest of all that an accepted model says."""
    slow: bool = False
