"""Answers of the playground, as its API describes them; workers write them as JSON."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, JsonValue

Matrix = list[list[float]]
Holes = list[list[float | None]]
"""Values on a grid; nothing outside the domain."""

Asked = dict[str, str | int | float | None]
"""What was asked for, with everything that was left out filled in."""


_BINARY = {"schema": {"type": "string", "format": "binary"}}
FILE: dict[int | str, dict[str, Any]] = {200: {"content": {"application/octet-stream": _BINARY}}}


def answer(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """Return the description of a route that answers with ``model``."""
    return {200: {"model": model}}


class Answer(BaseModel):
    """Parent of answers and their parts: all fields are named."""

    model_config = ConfigDict(extra="forbid")


class TargetOut(Answer):
    """A polynomial as it was read."""

    text: str
    latex: str
    variables: list[str]
    degree: int
    terms: int


class ParsedOut(TargetOut):
    """A text that is a polynomial."""

    ok: Literal[True]


class NotParsedOut(Answer):
    """A text that is not a polynomial: why, where, and perhaps what would be one."""

    ok: Literal[False]
    problem: str
    column: int | None
    remedy: dict[str, JsonValue] | None


class PanelOut(Answer):
    """A matrix with names; ``entries`` are row, column, value, and the exact value if there is one.

    What is large is in ``blocks`` of so many rows and columns.
    """

    rows: list[str]
    columns: list[str]
    shape: list[int]
    blocks: list[int] | None
    entries: list[list[int | float | str]]


class MatrixOut(PanelOut):
    """A weight matrix."""

    path: str
    title: str
    nonzeros: int


class StreamOut(PanelOut):
    """The residual stream after a layer."""

    name: str


class BlockOut(Answer):
    """An attention block."""

    name: str
    heads: int
    rule: str
    units: int
    activation: str
    nonzeros: int
    writes: list[str]


class CountOut(Answer):
    """A count of the model, beside the theorem's formula and bound."""

    name: str
    model: str
    formula: str | None
    bound: str | None


class ProofOut(Answer):
    """One thing that is proven."""

    name: str
    claim: str


class FormatOut(Answer):
    """What is guaranteed in a number format."""

    name: str
    guarantee: str


class CertificateOut(Answer):
    """A certificate in words; ``numbers`` are those of its file."""

    text: str
    zero_error: bool
    proofs: list[ProofOut]
    formats: list[FormatOut]
    bound: float
    numbers: dict[str, JsonValue]


class PolynomialOut(Answer):
    """A compiled polynomial: everything that does not depend on a point."""

    request: Asked
    target: TargetOut
    domain: str
    radius: str
    construction: str
    directions: str
    variables: list[str]
    dimensions: list[str]
    executor: str
    blocks: list[BlockOut]
    matrices: list[MatrixOut]
    matrices_left_out: int
    tokens: int
    start: str
    counts: list[CountOut]
    cost_note: str
    certificate: CertificateOut
    digest: str
    script: str


class WalkOut(Answer):
    """A step of the way through the model, in words."""

    title: str
    words: str
    part: str
    token: int | None
    features: list[float] | None
    scores: list[float] | None
    selection: list[float] | None
    hub: str | None


class AttentionOut(Answer):
    """The scores of a head, and what it selects."""

    name: str
    scores: PanelOut
    selection: PanelOut


class TraceOut(Answer):
    """One point's way through a compiled polynomial."""

    x: list[float]
    walk: list[WalkOut]
    streams: list[StreamOut]
    attention: list[AttentionOut]
    heads: int
    output: float
    literal: float
    target: float
    target_exact: str
    difference: float
    bound: float


class DiskOut(Answer):
    """Values on circles, up to the rim."""

    spokes: int
    places: Matrix
    model: list[float]
    target: list[float]
    difference: list[float]


class SurfaceOut(Answer):
    """Model, polynomial and their difference on a slice."""

    axes: list[str]
    line: list[float]
    model: Holes
    target: Holes
    difference: Holes
    disk: DiskOut | None
    points: int
    largest_difference: float
    bound: float


class KeysOut(Answer):
    """The keys of a contextual mapping: their step, how many, and some of them."""

    step: int
    count: int
    contexts: int
    shown: list[list[int | float]]


class MeasuredOut(Answer):
    """A measured error, which is never a bound."""

    value: float
    standard_error: float
    samples: int
    seed: int
    norm: str
    parts: dict[str, MeasuredOut]
    text: str = ""


class SequenceOut(Answer):
    """A compiled sequence map."""

    request: Asked
    summary: str
    positional: bool
    strides: list[int]
    layers: dict[str, int]
    depth: int
    width: int
    weights: int
    key_bits: int
    keys: KeysOut
    measured: MeasuredOut
    certificate: str
    digest: str


class CodesOut(Answer):
    """The codes of all tokens after a layer, and which it moved."""

    layer: int
    codes: list[float]
    moved: list[int]


class KeyOut(Answer):
    """A token's key: its own part, and its context's."""

    key: int
    own: int
    context: int


class JourneyOut(Answer):
    """One input's way through a compiled sequence map."""

    request: Asked
    input: Matrix
    cells: list[list[int]]
    inside: list[bool]
    ids: list[int]
    codes: list[CodesOut]
    keys: list[KeyOut]
    output: Matrix
    map: Matrix
    difference: Matrix
    script: str


class ModesOut(Answer):
    """Singular functions."""

    left: Matrix
    right: Matrix


class CouplingBoundOut(Answer):
    """The parts of a bound on the error of a head."""

    tau: int
    tail: float
    diagonal: float
    scores: float
    largest_weight: float
    term: float


class CouplingOut(Answer):
    """A kernel decomposed, and what a head loses of it."""

    request: Asked
    points: list[float]
    kernel: Matrix
    truncated: Matrix
    difference: Matrix
    largest_difference: float
    singular_values: list[float]
    rank: int
    digits: int
    error: float
    decay: str
    modes: ModesOut
    head_dim: int
    norm: float
    tail: float
    energy: float
    tails: list[float]
    bound: CouplingBoundOut


class ReadOut(Answer):
    """What a part of a model reads of another: as query, key or value of a head, or into ReLUs."""

    source: str
    through: str
    carries: list[str]


class PartOut(Answer):
    """A part of a model: the embedding, a head, or the ReLUs that compute one expression."""

    name: str
    kind: Literal["embedding", "head", "units"]
    layer: int | None
    head: int | None
    units: int
    selector: str | None
    computes: list[str]
    reads: list[ReadOut]


class ProgramCertificateOut(Answer):
    """What is proven for every input up to the longest."""

    text: str
    zero_error: bool
    proofs: list[ProofOut]
    bound: float


class ProgramOut(Answer):
    """A compiled program: its circuit and certificate."""

    request: Asked
    name: str
    vocabulary: list[str]
    values: list[str]
    sizes: dict[str, int]
    circuit: list[PartOut]
    certificate: ProgramCertificateOut
    digest: str


class HeldOut(Answer):
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


class ProgramRunOut(Answer):
    """One input's way through a compiled program, next to what the interpreter gives."""

    request: Asked
    tokens: list[str]
    positions: list[str]
    output: list[str]
    program: list[str]
    steps: list[StepOut]
    script: str
