"""Error against degree (Corollary 3.7), measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from exactformer.algebra.sympy_trees import is_sympy
from exactformer.core.given_domain import function_domain
from exactformer.errors import InputError, SizeError
from exactformer.polynomials.functions.chebyshev_expansion import expand
from exactformer.polynomials.functions.sampled import BoxFunction
from exactformer.polynomials.functions.search import MAX_SAMPLES, check_points
from exactformer.polynomials.functions.sympy_function import SympyFunction

if TYPE_CHECKING:
    import pandas as pd
    import sympy

_FINER = 8


def universality_curve(
    f: Callable[..., Any] | sympy.Expr,
    degrees: Iterable[int],
    domain: Sequence[tuple[float, float]] = ((-1.0, 1.0),),
) -> pd.DataFrame:
    """Return the largest error of Chebyshev approximations of f, by total degree.

    A table with the columns ``degree``, ``error`` (largest |f − p| on points that p was not made
    from), ``relative`` (over the largest |f| met) and ``points`` (how many were checked). Errors are
    measured, not proven; the polynomials are cut from one expansion on a grid much finer than the
    highest degree asked for.

    >>> import numpy as np, exactformer as ef
    >>> curve = ef.universality_curve(np.exp, [2, 4, 8])
    >>> [f"{e:.0e}" for e in curve["error"]]
    ['5e-02', '6e-04', '1e-08']
    """
    import pandas as pd

    asked = list(degrees)
    if not asked or any(not isinstance(q, Integral) or q < 0 for q in asked):
        raise InputError(f"degrees= needs whole numbers of at least 0, not {asked!r}")
    wanted = sorted({int(q) for q in asked})
    box, _ = function_domain(None, domain, None)
    low, high = np.array(box.intervals, dtype=float).T
    function = BoxFunction(
        SympyFunction(f) if is_sympy(f) else f, (low + high) / 2, (high - low) / 2
    )
    m = _grid(max(wanted[-1], 1), function.dimension)
    check = check_points(function.dimension)
    exact = function(check)
    expansion, scale = expand(function, m), float(np.abs(exact).max()) or 1.0
    errors = [float(np.abs(expansion.cut(q)(check) - exact).max()) for q in wanted]
    return pd.DataFrame(
        {
            "degree": wanted,
            "error": errors,
            "relative": [error / scale for error in errors],
            "points": len(check),
        }
    )


def _grid(degree: int, dimension: int) -> int:
    """Return a grid several times as fine as the degree, as far as the number of samples allows."""
    finest = int(MAX_SAMPLES ** (1 / dimension)) - 1
    if degree > finest:
        raise SizeError(
            f"degree {degree} in {dimension} variables needs ({degree} + 1)^{dimension} samples, "
            f"the limit is {MAX_SAMPLES:,}; ask for degrees up to {finest}"
        )
    return min(_FINER * degree, finest)
