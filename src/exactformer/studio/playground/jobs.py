"""What a worker can be asked for, by name; requests and answers are plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from exactformer.errors import ExactformerError
from exactformer.studio.playground import couplings, polynomial, programs, sequences, traces
from exactformer.studio.playground.couplings import CouplingRequest
from exactformer.studio.playground.polynomial import PolynomialRequest
from exactformer.studio.playground.programs import ProgramRequest
from exactformer.studio.playground.refusals import worded
from exactformer.studio.playground.sequences import SequenceRequest


def warm_up() -> None:
    """Load what every request needs, by answering one of each kind."""
    import torch

    torch.set_num_threads(1)
    traces.trace(PolynomialRequest())
    sequences.journey(SequenceRequest(cells=2, tokens=2))
    couplings.decompose(CouplingRequest())
    programs.follow(ProgramRequest(max_length=2))


def _trace(request: dict[str, Any]) -> Any:
    x = request.pop("x")
    return traces.trace(PolynomialRequest(**request), x)


def _surface(request: dict[str, Any]) -> Any:
    x, axes = request.pop("x"), request.pop("axes")
    return traces.surface(PolynomialRequest(**request), x, axes)


Job = Callable[[dict[str, Any]], Any]


def _worded(job: Job) -> Job:
    """Let a job refuse in the words of a page."""

    def run(request: dict[str, Any]) -> Any:
        try:
            return job(dict(request))
        except ExactformerError as error:
            raise worded(error, request) from error

    return run


_JOBS: dict[str, Job] = {
    "polynomial": lambda request: polynomial.describe(PolynomialRequest(**request)),
    "file": lambda request: polynomial.model_file(PolynomialRequest(**request)),
    "law": lambda request: polynomial.law_file(PolynomialRequest(**request)),
    "trace": _trace,
    "surface": _surface,
    "sequence": lambda request: sequences.describe(SequenceRequest(**request)),
    "journey": lambda request: sequences.journey(SequenceRequest(**request)),
    "program": lambda request: programs.describe(ProgramRequest(**request)),
    "run": lambda request: programs.follow(ProgramRequest(**request)),
    "coupling": lambda request: couplings.decompose(CouplingRequest(**request)),
}

JOBS = {name: _worded(job) for name, job in _JOBS.items()}
