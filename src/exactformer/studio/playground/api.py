"""The playground as programs see it: everything by GET, computed in worker processes with limits.

What has been computed is remembered and costs no one's allowance; only new work is counted.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel
from starlette.responses import PlainTextResponse, Response

from exactformer.errors import ExactformerError
from exactformer.studio.errors import InvalidError, StudioError
from exactformer.studio.playground import polynomial
from exactformer.studio.playground.couplings import (
    LONGEST_DRAWING,
    LONGEST_FORMULA,
    MOST_TERMS,
    CouplingRequest,
)
from exactformer.studio.playground.polynomial import (
    LONGEST_NUMBER,
    LONGEST_TEXT,
    MOST_VARIABLES,
    PolynomialRequest,
)
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
from exactformer.studio.web.request import Clean, settings_of

router = APIRouter(prefix="/api/v1/playground", tags=["playground"])

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


class ReadOut(BaseModel):
    """What a part of a model reads of another: as query, key or value of a head, or into ReLUs."""

    source: str
    through: str
    carries: list[str]


class PartOut(BaseModel):
    """A part of a model: the embedding, a head, or the ReLUs that compute one expression."""

    name: str
    kind: Literal["embedding", "head", "units"]
    layer: int | None
    head: int | None
    units: int
    selector: str | None
    computes: list[str]
    reads: list[ReadOut]


class ProofOut(BaseModel):
    """One thing that is proven."""

    name: str
    claim: str


class ProgramCertificateOut(BaseModel):
    """What is proven for every input up to the longest."""

    text: str
    zero_error: bool
    proofs: list[ProofOut]
    bound: float


class ProgramOut(BaseModel):
    """A compiled program: its circuit and certificate."""

    request: dict[str, str | int]
    name: str
    vocabulary: list[str]
    values: list[str]
    sizes: dict[str, int]
    circuit: list[PartOut]
    certificate: ProgramCertificateOut
    digest: str


class HeldOut(BaseModel):
    """The values of an expression in the stream, one per token."""

    name: str
    values: list[str]
    is_new: bool


class StepOut(PartOut):
    """What a part does on one input: where a head attends, and what the stream holds then."""

    title: str
    words: str
    pattern: list[list[float]] | None
    stream: list[HeldOut]


class ProgramRunOut(BaseModel):
    """One input's way through a compiled program, next to what the interpreter gives."""

    request: dict[str, str | int]
    tokens: list[str]
    positions: list[str]
    output: list[str]
    program: list[str]
    steps: list[StepOut]
    script: str


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


@router.get("/polynomial/parse")
def parse(request: Request, p: Text = "") -> dict[str, Any]:
    """Say what a polynomial is, or where its text stops being one."""
    limit(request, "parse", Rate(1200, 60))
    return polynomial.parse(p)


@router.get("/polynomial")
def compile_polynomial(request: Request, asked: PolynomialAsked) -> Response:
    """Compile a polynomial: blocks, matrices with exact entries, counts, certificate, script."""
    return _json(compute(request, "polynomial", asdict(asked)))


@router.get("/polynomial/trace")
def trace(request: Request, asked: PolynomialAsked, x: Point = "") -> Response:
    """Show every residual stream, score and selection at one point."""
    return _json(compute(request, "trace", asdict(asked) | {"x": x}, "polynomial"))


@router.get("/polynomial/surface")
def surface(request: Request, asked: PolynomialAsked, x: Point = "", axes: Point = "") -> Response:
    """Evaluate the model on a slice through a point, and its distance to the polynomial, exactly."""
    return _json(compute(request, "surface", asdict(asked) | {"x": x, "axes": axes}, "polynomial"))


@router.get("/polynomial/model.safetensors", response_class=Response)
def model_file(request: Request, asked: PolynomialAsked) -> Response:
    """Download the model: `exactformer.load` reads it, and proves it anew."""
    file = json.loads(compute(request, "file", asdict(asked)))["file"]
    return Response(b64decode(file), headers=_attachment("model.safetensors"))


@router.get("/polynomial/law.v", response_class=PlainTextResponse)
def law_file(request: Request, asked: PolynomialAsked) -> Response:
    """Download the model's law as a theorem: Coq checks it."""
    law = json.loads(compute(request, "law", asdict(asked)))["law"]
    return PlainTextResponse(law, headers=_attachment("law.v"))


@router.get("/polynomial/script.py", response_class=PlainTextResponse)
def polynomial_script(request: Request, asked: PolynomialAsked) -> Response:
    """Download a script that builds the same model."""
    script = json.loads(compute(request, "polynomial", asdict(asked)))["script"]
    return PlainTextResponse(script, headers=_attachment("polynomial.py"))


@router.get("/sequences")
def compile_sequence(request: Request, asked: SequenceAsked) -> Response:
    """Compile a sequence map: layers, keys, certificate, measured error."""
    return _json(compute(request, "sequence", _model_of(asdict(asked))))


@router.get("/sequences/journey")
def journey(request: Request, asked: SequenceAsked) -> Response:
    """Follow one input through quantiser, contextual mapping and values."""
    return _json(compute(request, "journey", asdict(asked), "sequence"))


@router.get("/sequences/script.py", response_class=PlainTextResponse)
def sequence_script(request: Request, asked: SequenceAsked) -> Response:
    """Download a script that builds the same model."""
    script = json.loads(compute(request, "journey", asdict(asked), "sequence"))["script"]
    return PlainTextResponse(script, headers=_attachment("sequence.py"))


@router.get("/programs", responses={200: {"model": ProgramOut}})
def compile_program(request: Request, asked: ProgramAsked) -> Response:
    """Compile a program, read by a grammar: its circuit and certificate."""
    return _json(compute(request, "program", _model_of(asdict(asked))))


@router.get("/programs/run", responses={200: {"model": ProgramRunOut}})
def run_program(request: Request, asked: ProgramAsked) -> Response:
    """Run a compiled program on one input, part by part."""
    return _json(compute(request, "run", asdict(asked), "program"))


@router.get("/programs/script.py", response_class=PlainTextResponse)
def program_script(request: Request, asked: ProgramAsked) -> Response:
    """Download a script that builds the same model."""
    script = json.loads(compute(request, "run", asdict(asked), "program"))["script"]
    return PlainTextResponse(script, headers=_attachment("program.py"))


@router.get("/couplings")
def decompose_coupling(request: Request, asked: CouplingAsked) -> Response:
    """Decompose a kernel, and say what a head of m dimensions loses of it."""
    limit(request, "explore", settings_of(request).explore_rate)
    pool: Pool = request.app.state.playground
    return _json(pool.answer("coupling", asdict(asked), asker(request)))


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")


def _attachment(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}
