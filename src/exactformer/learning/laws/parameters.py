"""Parameters of a regressor: which values there are, and which go together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from exactformer.errors import InputError
from exactformer.learning.laws.robust import LOSSES

if TYPE_CHECKING:
    from exactformer.learning.laws.regressor import PolynomialAttentionRegressor

SOLVERS = ("sparse", "least-squares", "sgd")
FAMILIES = ("auto", "lattice", "spread", "tailored")


def check_parameters(given: PolynomialAttentionRegressor) -> None:
    """Refuse values that mean nothing, and those that exclude each other."""
    for name, able in (("solver", SOLVERS), ("loss", LOSSES)):
        if getattr(given, name) not in able:
            raise InputError(f"{name}={getattr(given, name)!r}: choose one of {', '.join(able)}")
    if given.solver == "sgd" and (given.features is not None or given.loss != "squared"):
        raise InputError("features= and loss= are for solver='sparse' and 'least-squares'")
    if isinstance(given.directions, str) and given.directions not in FAMILIES:
        raise InputError(
            f"directions={given.directions!r}: choose one of {', '.join(FAMILIES)}, or give a "
            "number or an array (n, d)"
        )
    whole = isinstance(given.degree, int | np.integer) and not isinstance(given.degree, bool)
    if given.degree != "auto" and not (whole and given.degree >= 1):
        raise InputError(f"degree={given.degree!r}: give a whole number from 1, or 'auto'")
    if given.model_tolerance is not None and not given.model_tolerance > 0:
        raise InputError(f"model_tolerance={given.model_tolerance!r}: give a positive number")
    if not given.relevance >= 0:
        raise InputError(f"relevance={given.relevance!r}: give a share from 0, such as 0.001")
    for name in ("significance", "confidence"):
        if not 0 < getattr(given, name) < 1:
            raise InputError(f"{name}={getattr(given, name)!r}: must lie between 0 and 1")
    if given.momentum != "cycled" and not 0 <= float(given.momentum) < 1:
        raise InputError(f"momentum={given.momentum!r}: give a number in [0, 1), or 'cycled'")
