"""The playground's pages: what is asked for stands in the address, what it gives on the page.

A page is complete without scripts: form, certificate, counts, values. Scripts draw on top of it, from
the JSON that programs get too.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse

from exactformer.studio.api.playground import (
    CouplingAsked,
    Point,
    PolynomialAsked,
    SequenceAsked,
    compute,
)
from exactformer.studio.errors import StudioError
from exactformer.studio.playground import couplings, polynomial, sequences
from exactformer.studio.playground.kernels import FAMILIES
from exactformer.studio.web import Clean, render

router = APIRouter(include_in_schema=False)
Word = Annotated[Clean, Query(max_length=40)]


@router.get("/playground")
def hub(request: Request) -> HTMLResponse:
    """Offer the three constructions."""
    return render(request, "playground/hub.html")


@router.get("/playground/polynomial")
def polynomial_page(
    request: Request,
    asked: PolynomialAsked,
    x: Point = "",
    axes: Point = "",
    part: Word = "",
    head: Word = "",
    show: Word = "model",
) -> HTMLResponse:
    """A polynomial as a transformer: tokens, blocks, matrices, proof, and what x does in it."""
    said = polynomial.parse(asked.polynomial)
    found, problem, status = _attempt(request, "polynomial", asdict(asked))
    at: dict[str, Any] | None = None
    outside = None
    if found is not None:
        at, outside, _ = _attempt(request, "trace", asdict(asked) | {"x": x}, "polynomial")
    return render(
        request,
        "playground/polynomial.html",
        status=status,
        asked=asked,
        view={"x": x, "axes": axes, "part": part, "head": head, "show": show},
        said=said,
        found=found,
        problem=problem,
        at=at,
        outside=outside,
        choices=polynomial.CHOICES,
        examples=polynomial.EXAMPLES,
        limits=polynomial,
    )


@router.get("/playground/sequences")
def sequences_page(
    request: Request, asked: SequenceAsked, step: Annotated[int, Query(ge=0, le=9999)] = 0
) -> HTMLResponse:
    """A sequence map as a transformer, and the journey of one input."""
    from exactformer.targets import SEQUENCE_MAPS

    found, problem, status = _attempt(request, "sequence", asdict(replace(asked, input="")))
    way = None
    if found is not None:
        way, problem, status = _attempt(request, "journey", asdict(asked), "sequence")
    return render(
        request,
        "playground/sequences.html",
        status=status,
        asked=asked,
        view={"step": step},
        found=found,
        way=way,
        problem=problem,
        maps=SEQUENCE_MAPS.values(),
        limits=sequences,
    )


@router.get("/playground/couplings")
def couplings_page(request: Request, asked: CouplingAsked) -> HTMLResponse:
    """A coupling's kernel, its singular values, and what a smaller head loses."""
    found, problem, status = _attempt(request, "coupling", asdict(asked), "coupling")
    return render(
        request,
        "playground/couplings.html",
        status=status,
        asked=asked,
        found=found,
        problem=problem,
        families=FAMILIES,
        limits=couplings,
    )


def _attempt(
    request: Request, job: str, asked: dict[str, Any], after: str | None = None
) -> tuple[Any, str | None, int]:
    """Return what was found, or what stands against it, and the status that says so."""
    try:
        return json.loads(compute(request, job, asked, after)), None, 200
    except StudioError as error:
        return None, str(error), error.status
