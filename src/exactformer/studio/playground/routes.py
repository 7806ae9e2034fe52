"""The playground: for programs, then its pages."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from exactformer.errors import ExactformerError
from exactformer.studio.errors import InvalidError, StudioError
from exactformer.studio.evidence import demonstrations
from exactformer.studio.playground import couplings, models, polynomial, programs, sequences
from exactformer.studio.playground.asking import asked_by
from exactformer.studio.playground.couplings import (
    LONGEST_DRAWING,
    LONGEST_FORMULA,
    MOST_TERMS,
    CouplingRequest,
)
from exactformer.studio.playground.kernels import FAMILIES
from exactformer.studio.playground.polynomial import (
    LONGEST_NUMBER,
    LONGEST_TEXT,
    MOST_VARIABLES,
    PolynomialRequest,
)
from exactformer.studio.playground.program_examples import EXAMPLES
from exactformer.studio.playground.programs import (
    LONGEST_PROGRAM,
    LONGEST_TOKENS,
    MOST_LENGTH,
    ProgramRequest,
)
from exactformer.studio.playground.sequences import (
    LONGEST_INPUT,
    MOST_CELLS,
    MOST_DIM,
    MOST_TOKENS,
    SequenceRequest,
)
from exactformer.studio.playground.workers import Pool
from exactformer.studio.security.rates import asker, limit
from exactformer.studio.settings import Rate
from exactformer.studio.web.request import ReadSession, render, settings_of
from exactformer.studio.web.types import Clean

api = APIRouter(prefix="/api/v1/playground", tags=["playground"])

Text = Annotated[Clean, Query(max_length=LONGEST_TEXT)]
Number = Annotated[Clean, Query(max_length=LONGEST_NUMBER)]
Point = Annotated[Clean, Query(max_length=MOST_VARIABLES * LONGEST_NUMBER)]
Construction = Literal["scaled", "paper", "doubling", "chebyshev", "softmax"]
Directions = Literal["auto", "fewest", "lattice", "spread", "tailored"]
Dtype = Literal["float64", "float32", "bfloat16", "float16"]
Form = Literal["compact", "paper", "four-layer"]
Positions = Literal["as needed", "yes", "no"]
Attention = Literal["everywhere", "causal"]
Realisation = Literal["hard", "softmax"]


@contextmanager
def _input_errors() -> Iterator[None]:
    try:
        yield
    except StudioError:
        raise
    except ExactformerError as error:
        raise InvalidError(str(error)) from None


def polynomial_asked(
    p: Text = PolynomialRequest.polynomial,
    radius: Number = PolynomialRequest.radius,
    construction: Construction = "scaled",
    directions: Directions = "auto",
    dtype: Dtype = "float64",
) -> PolynomialRequest:
    """Read what to compile."""
    with _input_errors():
        return PolynomialRequest(p, radius, construction, directions, dtype)


def sequence_asked(
    map: Annotated[Clean, Query(max_length=40)] = SequenceRequest.map,
    tokens: Annotated[int, Query(ge=1, le=MOST_TOKENS)] = SequenceRequest.tokens,
    dim: Annotated[int, Query(ge=1, le=MOST_DIM)] = SequenceRequest.dim,
    cells: Annotated[int, Query(ge=1, le=MOST_CELLS)] = SequenceRequest.cells,
    form: Form = "compact",
    positional: Positions = "as needed",
    input: Annotated[Clean, Query(max_length=LONGEST_INPUT)] = "",
) -> SequenceRequest:
    """Read which sequence map to compile, and what to send in."""
    with _input_errors():
        return SequenceRequest(map, tokens, dim, cells, form, positional, input)


def coupling_asked(
    kernel: Annotated[Clean, Query(max_length=40)] = CouplingRequest.kernel,
    parameter: Annotated[float | None, Query(ge=0, le=1e6, allow_inf_nan=False)] = None,
    formula: Annotated[Clean, Query(max_length=LONGEST_FORMULA)] = CouplingRequest.formula,
    drawing: Annotated[Clean, Query(max_length=LONGEST_DRAWING)] = CouplingRequest.drawing,
    m: Annotated[int, Query(ge=0, le=MOST_TERMS)] = CouplingRequest.head_dim,
) -> CouplingRequest:
    """Read which kernel, and how large a head."""
    with _input_errors():
        return CouplingRequest(kernel, parameter, formula, drawing, m)


def program_asked(
    program: Annotated[Clean, Query(max_length=LONGEST_PROGRAM)] = ProgramRequest.program,
    vocabulary: Annotated[Clean, Query(max_length=LONGEST_TOKENS)] = ProgramRequest.vocabulary,
    max_length: Annotated[int, Query(ge=1, le=MOST_LENGTH)] = ProgramRequest.max_length,
    attention: Attention = "everywhere",
    realisation: Realisation = "hard",
    input: Annotated[Clean, Query(max_length=LONGEST_TOKENS)] = "",
) -> ProgramRequest:
    """Read which program to compile, and what to send in."""
    with _input_errors():
        return ProgramRequest(program, vocabulary, max_length, attention, realisation, input)


PolynomialAsked = Annotated[PolynomialRequest, Depends(polynomial_asked)]
SequenceAsked = Annotated[SequenceRequest, Depends(sequence_asked)]
CouplingAsked = Annotated[CouplingRequest, Depends(coupling_asked)]
ProgramAsked = Annotated[ProgramRequest, Depends(program_asked)]


def compute(request: Request, job: str, asked: dict[str, Any], after: str | None = None) -> bytes:
    """Return an answer as JSON: remembered, or computed within the asker's rate.

    What looks at a model, ``after`` it was compiled, has a rate of its own; if the model is not known,
    it counts as compiling, too.
    """
    pool: Pool = request.app.state.playground
    if (known := pool.kept(job, asked)) is not None:
        return known
    settings = settings_of(request)
    if after is not None:
        limit(request, "explore", settings.explore_rate)
    if after is None or pool.kept(after, _model_of(asked)) is None:
        limit(request, "compile", settings.compile_rate)
    return pool.answer(job, asked, asker(request))


def _model_of(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a request that says which model it is about."""
    if "input" in asked:
        return asked | {"input": ""}
    return {name: value for name, value in asked.items() if name not in ("x", "axes")}


@api.get("/polynomial/parse", response_model=models.ParsedOut | models.NotParsedOut)
def parse(request: Request, p: Text = "") -> Any:
    """Say what a polynomial is, or where its text stops being one."""
    limit(request, "parse", Rate(1200, 60))
    return polynomial.parse(p)


@api.get("/polynomial", responses=models.answer(models.PolynomialOut))
def compile_polynomial(request: Request, asked: PolynomialAsked) -> Response:
    """Compile a polynomial: blocks, matrices with exact entries, counts, certificate, script."""
    return _json(compute(request, "polynomial", asdict(asked)))


@api.get("/polynomial/trace", responses=models.answer(models.TraceOut))
def trace(request: Request, asked: PolynomialAsked, x: Point = "") -> Response:
    """Show every residual stream, score and selection at one point."""
    return _json(compute(request, "trace", asdict(asked) | {"x": x}, "polynomial"))


@api.get("/polynomial/surface", responses=models.answer(models.SurfaceOut))
def surface(request: Request, asked: PolynomialAsked, x: Point = "", axes: Point = "") -> Response:
    """Evaluate the model on a slice through a point, and its distance to the polynomial, exactly."""
    return _json(compute(request, "surface", asdict(asked) | {"x": x, "axes": axes}, "polynomial"))


@api.get("/polynomial/model.safetensors", response_class=Response, responses=models.FILE)
def model_file(request: Request, asked: PolynomialAsked) -> Response:
    """Download the model: `exactformer.load` reads it, and proves it anew."""
    file = json.loads(compute(request, "file", asdict(asked)))["file"]
    return Response(b64decode(file), headers=_attachment("model.safetensors"))


@api.get("/polynomial/law.v", response_class=PlainTextResponse)
def law_file(request: Request, asked: PolynomialAsked) -> Response:
    """Download the model's law as a theorem: Coq checks it."""
    law = json.loads(compute(request, "law", asdict(asked)))["law"]
    return PlainTextResponse(law, headers=_attachment("law.v"))


@api.get("/polynomial/script.py", response_class=PlainTextResponse)
def polynomial_script(request: Request, asked: PolynomialAsked) -> Response:
    """Download a script that builds the same model."""
    script = json.loads(compute(request, "polynomial", asdict(asked)))["script"]
    return PlainTextResponse(script, headers=_attachment("polynomial.py"))


@api.get("/sequences", responses=models.answer(models.SequenceOut))
def compile_sequence(request: Request, asked: SequenceAsked) -> Response:
    """Compile a sequence map: layers, keys, certificate, measured error."""
    return _json(compute(request, "sequence", _model_of(asdict(asked))))


@api.get("/sequences/journey", responses=models.answer(models.JourneyOut))
def journey(request: Request, asked: SequenceAsked) -> Response:
    """Follow one input through quantiser, contextual mapping and values."""
    return _json(compute(request, "journey", asdict(asked), "sequence"))


@api.get("/sequences/script.py", response_class=PlainTextResponse)
def sequence_script(request: Request, asked: SequenceAsked) -> Response:
    """Download a script that builds the same model."""
    script = json.loads(compute(request, "journey", asdict(asked), "sequence"))["script"]
    return PlainTextResponse(script, headers=_attachment("sequence.py"))


@api.get("/programs", responses=models.answer(models.ProgramOut))
def compile_program(request: Request, asked: ProgramAsked) -> Response:
    """Compile a program, read by a grammar: its circuit and certificate."""
    return _json(compute(request, "program", _model_of(asdict(asked))))


@api.get("/programs/run", responses=models.answer(models.ProgramRunOut))
def run_program(request: Request, asked: ProgramAsked) -> Response:
    """Run a compiled program on one input, part by part."""
    return _json(compute(request, "run", asdict(asked), "program"))


@api.get("/programs/script.py", response_class=PlainTextResponse)
def program_script(request: Request, asked: ProgramAsked) -> Response:
    """Download a script that builds the same model."""
    script = json.loads(compute(request, "run", asdict(asked), "program"))["script"]
    return PlainTextResponse(script, headers=_attachment("program.py"))


@api.get("/couplings", responses=models.answer(models.CouplingOut))
def decompose_coupling(request: Request, asked: CouplingAsked) -> Response:
    """Decompose a kernel, and say what a head of m dimensions loses of it."""
    limit(request, "explore", settings_of(request).explore_rate)
    pool: Pool = request.app.state.playground
    return _json(pool.answer("coupling", asdict(asked), asker(request)))


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")


def _attachment(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}


pages = APIRouter(include_in_schema=False)


@pages.get("/playground")
def hub(request: Request) -> HTMLResponse:
    """Offer the four constructions."""
    return render(request, "playground/hub.html")


@pages.get("/playground/polynomial")
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


@pages.get("/playground/sequences")
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


@pages.get("/playground/couplings")
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


@pages.get("/playground/programs")
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


routers = (api, pages)
