"""The memory that training takes, known before any of it is allocated."""

from __future__ import annotations

import os

import torch

from exactformer.core.words import readable
from exactformer.errors import SizeError
from exactformer.learning.ensembles.models.base import Ensemble
from exactformer.learning.ensembles.training.protocol import EnsembleProtocol

_COPIES = 10  # weights, gradient, two moments, the best so far, and what a step needs in between
_PIECE = 2**30
_SHARE = 0.8  # of what there is: allocators round sizes up and leave gaps
_BACKWARD = 2.25  # beside what is kept, the backward pass holds gradients of some layers; measured


def sequence_bytes(ensemble: Ensemble, tau: int) -> int:
    """Return what one more sequence in a batch takes, for all models together."""
    size = next(ensemble.parameters()).element_size()
    return int(_BACKWARD * size * ensemble.models * ensemble.activations(tau))


def weight_bytes(ensemble: Ensemble, protocol: EnsembleProtocol) -> int:
    """Return what weights, gradients and the optimisers take."""
    pairs = 2 * protocol.finish_memory + _COPIES if protocol.finish else 0
    return (_COPIES + pairs) * sum(p.numel() * p.element_size() for p in ensemble.parameters())


def _available_bytes(device: torch.device) -> int:
    """Return what may be used of a device's memory."""
    if device.type == "cuda":
        return int(_SHARE * torch.cuda.get_device_properties(device).total_memory)
    return int(_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def rows_that_fit(
    ensemble: Ensemble, protocol: EnsembleProtocol, tau: int, batch: int, limit: int | None
) -> int:
    """Return how many sequences to take at once where order does not matter.

    Refuses a ``batch`` that does not fit; more than fill a piece of memory would gain nothing.
    """
    if limit is None:
        limit = _available_bytes(next(ensemble.parameters()).device)
    weights, each = weight_bytes(ensemble, protocol), sequence_bytes(ensemble, tau)
    rows = (limit - weights) // each
    if rows < batch:
        hint = f"a batch_size of {rows}" if rows > 0 else "fewer models"
        raise SizeError(
            f"{ensemble.models} models and a batch of {batch} sequences of {tau} tokens take about "
            f"{readable(weights + batch * each)}, and there are {readable(limit)}; {hint} would fit."
        )
    return min(rows, max(batch, _PIECE // each))
