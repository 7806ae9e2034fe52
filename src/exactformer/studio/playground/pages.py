"""The playground's pages: what is asked for stands in the address, what it gives on the page.

A page is complete without scripts: form, certificate, counts, values. Scripts draw on top of it, from
the JSON that programs get too.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from exactformer.studio.errors import StudioError
from exactformer.studio.evidence import demonstrations
from exactformer.studio.playground import couplings, polynomial, programs, sequences
from exactformer.studio.playground.api import compute
from exactformer.studio.playground.asking import asked_by
from exactformer.studio.playground.couplings import CouplingRequest
from exactformer.studio.playground.kernels import FAMILIES
from exactformer.studio.playground.polynomial import PolynomialRequest
from exactformer.studio.playground.program_examples import EXAMPLES
from exactformer.studio.playground.programs import ProgramRequest
from exactformer.studio.playground.sequences import SequenceRequest
from exactformer.studio.web.request import ReadSession, render

router = APIRouter(include_in_schema=False)


@router.get("/playground")
def hub(request: Request) -> HTMLResponse:
    """Offer the four constructions."""
    return render(request, "playground/hub.html")


@router.get("/playground/polynomial")
def polynomial_page(request: Request, db: ReadSession) -> HTMLResponse:
    """A polynomial as a transformer: tokens, blocks, matrices, proof, and what x does in it."""
    asked, wrong = asked_by(request.query_params, PolynomialRequest)
    view = _view(request, "x", "axes", "part", "head", "show", "step")
    said = polynomial.parse(asked.polynomial)
    found, problem, status = None, None, 422  # what is no polynomial says so beside its text
    at, outside = None, None
    if said["ok"]:
        found, problem, status = _attempt(request, "polynomial", asdict(asked))
    if found is not None:
        view["x"] = view["x"] or found["start"]
        at, outside, _ = _attempt(request, "trace", asdict(asked) | {"x": view["x"]}, "polynomial")
    return render(
        request,
        "playground/polynomial.html",
        status=422 if wrong else status,
        asked=asked,
        view=view,
        said=said,
        found=found,
        problem=wrong or problem,
        at=at,
        outside=outside,
        choices=polynomial.CHOICES,
        explained=polynomial.EXPLAINED,
        shows=demonstrations.on_page(db, "polynomial"),
        request_query=dict(request.query_params),
        examples=polynomial.EXAMPLES,
        limits=polynomial,
    )


@router.get("/playground/sequences")
def sequences_page(request: Request, db: ReadSession) -> HTMLResponse:
    """A sequence map as a transformer, and the journey of one input."""
    from exactformer.targets import SEQUENCE_MAPS

    asked, wrong = asked_by(request.query_params, SequenceRequest)
    found, problem, status = _attempt(request, "sequence", asdict(replace(asked, input="")))
    way = None
    if found is not None:
        way, problem, status = _attempt(request, "journey", asdict(asked), "sequence")
    return render(
        request,
        "playground/sequences.html",
        status=422 if wrong else status,
        asked=asked,
        view=_view(request, "step"),
        found=found,
        way=way,
        problem=wrong or problem,
        maps=SEQUENCE_MAPS.values(),
        shows=demonstrations.on_page(db, "sequences"),
        request_query=dict(request.query_params),
        limits=sequences,
    )


@router.get("/playground/couplings")
def couplings_page(request: Request, db: ReadSession) -> HTMLResponse:
    """A coupling's kernel, its singular values, and what a smaller head loses."""
    asked, wrong = asked_by(request.query_params, CouplingRequest)
    found, problem, status = _attempt(request, "coupling", asdict(asked), "coupling")
    return render(
        request,
        "playground/couplings.html",
        status=422 if wrong else status,
        asked=asked,
        found=found,
        problem=wrong or problem,
        families=FAMILIES,
        shows=demonstrations.on_page(db, "couplings"),
        request_query=dict(request.query_params),
        limits=couplings,
    )


@router.get("/playground/programs")
def programs_page(request: Request) -> HTMLResponse:
    """A program as a transformer: circuit, proof, and one input's way, head by head."""
    asked, wrong = asked_by(request.query_params, ProgramRequest)
    chosen = EXAMPLES.get(request.query_params.get("library", ""))
    if chosen and "program" not in request.query_params:
        asked = chosen.request
    found, problem, status = _attempt(request, "program", asdict(replace(asked, input="")))
    way = None
    if found is not None:
        way, problem, status = _attempt(request, "run", asdict(asked), "program")
    example = next((e for e in EXAMPLES.values() if _same(e.request.program, asked.program)), None)
    return render(
        request,
        "playground/programs.html",
        status=422 if wrong else status,
        asked=asked,
        view=_view(request, "step"),
        found=found,
        way=way,
        problem=wrong or problem,
        example=example,
        examples=EXAMPLES,
        limits=programs,
    )


def _same(one: str, other: str) -> bool:
    """Whether two texts have the same words; a form's lines end in their own way."""
    return one.split() == other.split()


def _view(request: Request, *names: str) -> dict[str, str]:
    """What of the page is looked at; scripts know what to do with it."""
    return {name: request.query_params.get(name, "") for name in names}


def _attempt(
    request: Request, job: str, asked: dict[str, Any], after: str | None = None
) -> tuple[Any, StudioError | None, int]:
    """Return what was found, or what stands against it, and the status that says so."""
    try:
        return json.loads(compute(request, job, asked, after)), None, 200
    except StudioError as error:
        return None, error, error.status
