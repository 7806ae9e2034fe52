"""A model on many points: batches in order, one core each; its errors at random ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from exactformer.core.domain import points_in_domain
from exactformer.errors import RoundingError
from exactformer.learning.threads import one_torch_thread
from exactformer.progress import progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from exactformer.algebra import Polynomial
    from exactformer.polynomials.model import PolynomialModel

T = TypeVar("T")
R = TypeVar("R")

REFERENCE_DIGITS = int(np.finfo(np.longdouble).precision)
"""Decimal digits of the arithmetic that errors are measured in; float64 has 15."""
_BATCH = 4096


def in_order(function: Callable[[T], R], items: Iterable[T]) -> Iterator[tuple[T, R]]:
    """Apply ``function`` on all cores; yield item and result in order, two items per core ahead.

    Torch's own threads wait for each other after every small product, which on a busy machine costs
    several times the work; whole batches side by side do not. Items are taken in this thread, while
    the ones before are computed: joblib would take them in another, where Ctrl-C reaches no read.
    """
    from joblib import Parallel, delayed

    threads, source = torch.get_num_threads(), iter(items)
    with (
        one_torch_thread(0),
        Parallel(threads, prefer="threads", return_as="generator", pre_dispatch="all") as pool,
    ):
        piece = list(islice(source, threads))
        while piece:
            results = pool(delayed(function)(item) for item in piece)
            try:
                ahead = list(islice(source, threads))
                yield from zip(piece, results, strict=True)
            finally:
                deque(results, maxlen=0)  # joblib warns of results that nobody takes
            piece = ahead


def as_array(computed: torch.Tensor) -> NDArray[Any]:
    """Return a tensor as NumPy holds it, which has no bfloat16."""
    is_brain = computed.dtype == torch.bfloat16
    array: NDArray[Any] = (computed.float() if is_brain else computed).numpy()
    return array


def observed_errors(
    model: PolynomialModel, polynomial: Polynomial, count: int
) -> dict[str, NDArray[np.float64]]:
    """Return |transformer − polynomial| at random points of the ball, by executor."""
    from exactformer.polynomials.model import PolynomialModel
    from exactformer.polynomials.proof.certify import Proof

    blueprint, proof = model.blueprint, Proof(model.certificate)
    models = {
        executor: PolynomialModel(blueprint, proof, model.dtype, executor=executor)
        for executor in ("literal", "fused")
    }

    def errors(batch: int) -> list[NDArray[np.float64]]:
        size = min(_BATCH, count - batch * _BATCH)
        points = points_in_domain(size, blueprint.domain, len(blueprint.variables), batch)
        exact = polynomial.evaluate(points.astype(np.longdouble))
        inputs = torch.from_numpy(points).to(model.dtype)
        with torch.inference_mode():
            return [np.abs(as_array(m(inputs)) - exact).astype(np.float64) for m in models.values()]

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
