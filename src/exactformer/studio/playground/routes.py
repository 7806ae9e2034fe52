"""The playground: each page beside what its scripts ask for, one construction after the other."""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import asdict, replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from exactformer.studio import web
from exactformer.studio.errors import InvalidError, StudioError
from exactformer.studio.evidence import demonstrations
from exactformer.studio.playground import couplings, polynomial, programs, sequences
from exactformer.studio.playground.asking import asked_by, reader
from exactformer.studio.playground.couplings import CouplingRequest
from exactformer.studio.playground.polynomial import (
    LONGEST_NUMBER,
    LONGEST_TEXT,
    MOST_VARIABLES,
    PolynomialRequest,
)
from exactformer.studio.playground.programs import EXAMPLES, ProgramRequest
from exactformer.studio.playground.sequences import SequenceRequest
from exactformer.studio.playground.workers import Pool
from exactformer.studio.security.rates import asker, limit
from exactformer.studio.settings import Rate

pages = APIRouter()
api = APIRouter(prefix="/api/v1/playground")

Text = Annotated[web.Clean, Query(max_length=LONGEST_TEXT)]
Point = Annotated[web.Clean, Query(max_length=MOST_VARIABLES * LONGEST_NUMBER)]
PolynomialAsked = Annotated[PolynomialRequest, Depends(reader(PolynomialRequest))]
SequenceAsked = Annotated[SequenceRequest, Depends(reader(SequenceRequest))]
CouplingAsked = Annotated[CouplingRequest, Depends(reader(CouplingRequest))]
ProgramAsked = Annotated[ProgramRequest, Depends(reader(ProgramRequest))]


def compute(request: Request, job: str, asked: dict[str, Any], after: str | None = None) -> bytes:
    """Return an answer as JSON: remembered, or computed within the asker's rate.

    What looks at a model, ``after`` it was compiled, has a rate of its own; if the model is not known,
    it counts as compiling, too. What comes after nothing but itself compiles nothing.
    """
    pool: Pool = request.app.state.playground
    if (known := pool.kept(job, asked)) is not None:
        return known
    settings = web.settings_of(request)
    if after is not None:
        limit(request, "explore", settings.explore_rate)
    if after is None or (after != job and pool.kept(after, _model_of(asked)) is None):
        limit(request, "compile", settings.compile_rate)
    return pool.answer(job, asked, asker(request))


def _model_of(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a request that says which model it is about."""
    if "input" in asked:
        return asked | {"input": ""}
    return {name: value for name, value in asked.items() if name not in ("x", "axes")}


@pages.get("/playground")
def hub(request: Request) -> HTMLResponse:
    """Offer the four constructions."""
    return web.render(request, "playground/hub.html")


@pages.get("/playground/polynomial")
def polynomial_page(request: Request, db: web.ReadSession) -> HTMLResponse:
    """A polynomial as a transformer: tokens, blocks, matrices, proof, and what x does in it."""
    asked, wrong = asked_by(request.query_params, PolynomialRequest)
    view = _view(request, "x", "axes", "part", "head", "show", "step")
    said = polynomial.parse(asked.polynomial)
    found, problem, status = None, None, 422  # what is no polynomial says so beside its text
    at, outside = None, None
    if said["ok"]:
        found, problem, status = _attempt(request, "polynomial", asdict(asked))
    if found is not None:
        if view["x"].count(",") + 1 != len(found["variables"]):
            view["x"] = ""  # a point of the polynomial that stood there before
        for x in (view["x"], ""):
            view["x"] = x or found["start"]
            given = asdict(asked) | {"x": view["x"]}
            at, outside, _ = _attempt(request, "trace", given, "polynomial")
            if not isinstance(outside, InvalidError) or outside.remedy:
                break
            wrong = wrong or str(outside)  # what is no point at all is not shown as one
    return _page(
        request,
        "playground/polynomial.html",
        wrong,
        status=status,
        asked=asked,
        view=view,
        said=said,
        found=found,
        problem=problem,
        at=at,
        outside=outside,
        shows=demonstrations.on_page(db, "polynomial"),
        limits=polynomial,
    )


@api.get("/polynomial/parse")
def parse(request: Request, p: Text = "") -> Any:
    """Say what a polynomial is, or where its text stops being one."""
    limit(request, "parse", Rate(1200, 60))
    return polynomial.parse(p)


@api.get("/polynomial")
def compile_polynomial(request: Request, asked: PolynomialAsked) -> Response:
    """Compile a polynomial: blocks, matrices with exact entries, counts, certificate, script."""
    return _json(compute(request, "polynomial", asdict(asked)))


@api.get("/polynomial/trace")
def trace(request: Request, asked: PolynomialAsked, x: Point = "") -> Response:
    """Show every residual stream, score and selection at one point."""
    return _json(compute(request, "trace", asdict(asked) | {"x": x}, "polynomial"))


@api.get("/polynomial/surface")
def surface(request: Request, asked: PolynomialAsked, x: Point = "", axes: Point = "") -> Response:
    """Evaluate the model on a slice through a point, and its distance to the polynomial, exactly."""
    return _json(compute(request, "surface", asdict(asked) | {"x": x, "axes": axes}, "polynomial"))


@api.get("/polynomial/model.safetensors")
def model_file(request: Request, asked: PolynomialAsked) -> Response:
    """Download the model: `exactformer.load` reads it, and proves it anew."""
    file = json.loads(compute(request, "file", asdict(asked)))["file"]
    return Response(b64decode(file), headers=_attachment("model.safetensors"))


@api.get("/polynomial/law.v")
def law_file(request: Request, asked: PolynomialAsked) -> Response:
    """Download the model's law as a theorem: Coq checks it."""
    return _text(compute(request, "law", asdict(asked)), "law", "law.v")


@api.get("/polynomial/script.py")
def polynomial_script(request: Request, asked: PolynomialAsked) -> Response:
    """Download a script that builds the same model."""
    return _text(compute(request, "polynomial", asdict(asked)), "script", "polynomial.py")


@pages.get("/playground/sequences")
def sequences_page(request: Request, db: web.ReadSession) -> HTMLResponse:
    """A sequence map as a transformer, and the journey of one input."""
    from exactformer.targets import SEQUENCE_MAPS

    asked, wrong = asked_by(request.query_params, SequenceRequest)
    return _page(
        request,
        "playground/sequences.html",
        wrong,
        **_followed(request, asked, "sequence", "journey"),
        maps=SEQUENCE_MAPS.values(),
        shows=demonstrations.on_page(db, "sequences"),
        limits=sequences,
    )


@api.get("/sequences")
def compile_sequence(request: Request, asked: SequenceAsked) -> Response:
    """Compile a sequence map: layers, keys, certificate, measured error."""
    return _json(compute(request, "sequence", _model_of(asdict(asked))))


@api.get("/sequences/journey")
def journey(request: Request, asked: SequenceAsked) -> Response:
    """Follow one input through quantiser, contextual mapping and values."""
    return _json(compute(request, "journey", asdict(asked), "sequence"))


@api.get("/sequences/script.py")
def sequence_script(request: Request, asked: SequenceAsked) -> Response:
    """Download a script that builds the same model."""
    return _text(compute(request, "journey", asdict(asked), "sequence"), "script", "sequence.py")


@pages.get("/playground/couplings")
def couplings_page(request: Request, db: web.ReadSession) -> HTMLResponse:
    """A coupling's kernel, its singular values, and what a smaller head loses."""
    asked, wrong = asked_by(request.query_params, CouplingRequest)
    found, problem, status = _attempt(request, "coupling", asdict(asked), "coupling")
    return _page(
        request,
        "playground/couplings.html",
        wrong,
        status=status,
        asked=asked,
        found=found,
        problem=problem,
        families=couplings.FAMILIES,
        shows=demonstrations.on_page(db, "couplings"),
        limits=couplings,
    )


@api.get("/couplings")
def decompose_coupling(request: Request, asked: CouplingAsked) -> Response:
    """Decompose a kernel, and say what a head of m dimensions loses of it."""
    return _json(compute(request, "coupling", asdict(asked), "coupling"))


@pages.get("/playground/programs")
def programs_page(request: Request) -> HTMLResponse:
    """A program as a transformer: circuit, proof, and one input's way, head by head."""
    asked, wrong = asked_by(request.query_params, ProgramRequest)
    chosen = EXAMPLES.get(request.query_params.get("library", ""))
    if chosen and "program" not in request.query_params:
        asked = chosen.request
    example = next((e for e in EXAMPLES.values() if _same(e.request.program, asked.program)), None)
    return _page(
        request,
        "playground/programs.html",
        wrong,
        **_followed(request, asked, "program", "run"),
        example=example,
        limits=programs,
    )


def _same(one: str, other: str) -> bool:
    """Whether two texts have the same words; a form's lines end in their own way."""
    return one.split() == other.split()


@api.get("/programs/script.py")
def program_script(request: Request, asked: ProgramAsked) -> Response:
    """Download a script that builds the same model."""
    return _text(compute(request, "run", asdict(asked), "program"), "script", "program.py")


def _view(request: Request, *names: str) -> dict[str, str]:
    """What of the page is looked at; scripts know what to do with it."""
    return {name: request.query_params.get(name, "") for name in names}


def _page(request: Request, template: str, wrong: str | None, **context: Any) -> HTMLResponse:
    """Show a construction; what is ``wrong`` with the address comes before other problems."""
    context["request_query"] = dict(request.query_params)
    if wrong:
        context |= {"status": 422, "problem": wrong}
    return web.render(request, template, **context)


def _followed(
    request: Request, asked: SequenceRequest | ProgramRequest, model: str, way: str
) -> dict[str, Any]:
    """Return what a page shows of a model and of one input's way through it."""
    shown = {"asked": asked, "view": _view(request, "step"), "way": None}
    found, problem, status = _attempt(request, model, asdict(replace(asked, input="")))
    if found is not None:
        shown["way"], problem, status = _attempt(request, way, asdict(asked), model)
    return shown | {"found": found, "problem": problem, "status": status}


def _attempt(
    request: Request, job: str, asked: dict[str, Any], after: str | None = None
) -> tuple[Any, StudioError | None, int]:
    """Return what was found, or what stands against it, and the status that says so."""
    try:
        return json.loads(compute(request, job, asked, after)), None, 200
    except StudioError as error:
        return None, error, error.status


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")


def _text(content: bytes, part: str, name: str) -> Response:
    """Answer with a part of an answer, a text, as a file."""
    return PlainTextResponse(json.loads(content)[part], headers=_attachment(name))


def _attachment(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}


routers = (pages, api)
