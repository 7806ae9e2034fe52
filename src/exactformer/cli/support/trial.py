"""A compiled model put to the test: many random points, both executors, extended precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from exactformer.cli.support.evaluation import in_order, values
from exactformer.core.domain import points_in_domain
from exactformer.errors import RoundingError
from exactformer.polynomials.model import PolynomialModel
from exactformer.polynomials.proof.certify import Proof
from exactformer.progress import progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from exactformer.algebra import Polynomial

REFERENCE_DIGITS = int(np.finfo(np.longdouble).precision)
"""Decimal digits of the arithmetic that errors are measured in; float64 has 15."""

_BATCH = 4096


def observed_errors(
    model: PolynomialModel, polynomial: Polynomial, count: int
) -> dict[str, NDArray[np.float64]]:
    """Return |transformer − polynomial| at random points of the ball, by executor."""
    models = {
        executor: PolynomialModel(
            model.blueprint, Proof(model.certificate), model.dtype, executor=executor
        )
        for executor in ("literal", "fused")
    }

    def errors(batch: int) -> list[NDArray[np.float64]]:
        size = min(_BATCH, count - batch * _BATCH)
        points = points_in_domain(
            size, model.blueprint.domain, len(model.blueprint.variables), batch
        )
        exact = polynomial.evaluate(points.astype(np.longdouble))
        return [np.abs(values(m, points) - exact).astype(np.float64) for m in models.values()]

    pieces: list[list[NDArray[np.float64]]] = []
    with progress("points", count, patience=0.5) as advance:
        for batch, piece in in_order(errors, range(-(-count // _BATCH))):
            pieces.append(piece)
            advance(min(count, (batch + 1) * _BATCH))
    joined = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    return dict(zip(models, joined, strict=True))


def compare(
    model: PolynomialModel, errors: dict[str, NDArray[np.float64]]
) -> dict[str, dict[str, float | None]]:
    """Set the largest error of each executor beside its bound; raise if one is exceeded."""
    result: dict[str, dict[str, float | None]] = {}
    for executor, seen in errors.items():
        largest, bound = float(seen.max()), model.certificate.bound(model.dtype, executor)
        if not largest <= bound:
            raise RoundingError(f"{executor}: an error of {largest!r} exceeds the bound {bound!r}")
        ratio = bound / largest if largest else None
        result[executor] = {"largest_error": largest, "bound": bound, "ratio": ratio}
    return result
