"""What a softened sequence blueprint does, found by running it, against the softness claimed for it.

Claims about inputs off the ramps are tried by counting: of uniform inputs, no larger a part may violate
them than the ramps are said to take. Runs in float64 find what looks wrong, and runs with 300 bits
confirm it, so that no rounding is taken for a false claim.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import sqrt
from typing import Any

import torch
from mpmath import mp
from torch import Tensor

from exactformer.core.layers import IDENTITY, RELU, Attention, BiasedHead
from exactformer.core.matrix import Matrix
from exactformer.errors import ExactformerError
from exactformer.sequences.blueprint import Layer, SequenceBlueprint
from exactformer.sequences.grid import GridTable
from exactformer.sequences.proof.softness import Softness
from exactformer.sequences.run.literal import LiteralSequence
from tests.adversary.sequence_interpreter import Interpreter
from tests.adversary.sequence_truth import Token, shown, trials, wanted_columns

SAMPLES = 60
RARE = 0.01
"""Ramps that take less are not met by three inputs in a row."""
PRECISE = mp.clone()
PRECISE.prec = 300
mpf = PRECISE.mpf
Number = Any
Column = list[Number]


def false_softness(
    soft: SequenceBlueprint,
    limit: SequenceBlueprint,
    table: GridTable,
    softness: Softness | None,
    rng: random.Random,
) -> str | None:
    """Return a claim about a softened blueprint that does not hold."""
    if softness is None:
        return "softness: nothing is claimed"
    try:
        module = LiteralSequence(soft)
        codes = LiteralSequence(_codes(soft))
    except (ExactformerError, RuntimeError) as error:
        return f"layers cannot be run: {error}"
    uniform = [_uniform(table, rng) for _ in range(SAMPLES)]
    apart = _false_span(soft, module, [t.tokens for t in trials(table, rng)] + uniform, softness)
    if apart:
        return apart
    if softness.code_error is not None:
        wanted = _hard_codes(limit, uniform)
        allowed = mpf(softness.code_error)
        false = _too_many(_codes(soft), codes, uniform, wanted, allowed, softness, rng)
        if false:
            return f"code error: {false}"
    if not softness.selects or softness.stream_error is None:
        return None
    tried = [
        (tokens, _table_columns(table, tokens))
        for tokens in uniform
        if softness.rejects or _has_value(table, tokens)
    ]
    if not tried:
        return None
    inputs, columns = [t for t, _ in tried], [w for _, w in tried]
    allowed = mpf(softness.stream_error)
    false = _too_many(soft, module, inputs, columns, allowed, softness, rng)
    return f"table: {false}" if false else None


def _codes(soft: SequenceBlueprint) -> SequenceBlueprint:
    """Return the layers up to the codes, which are read out."""
    stages = []
    for stage in soft.stages:
        if stage.name in ("reject", "values", "clip"):
            break
        stages.append(stage)
    return replace(soft, stages=tuple(stages), readout=soft.code)


def _hard_codes(limit: SequenceBlueprint, inputs: list[tuple[Token, ...]]) -> list[list[Column]]:
    before = "reject" if any(s.name == "reject" for s in limit.stages) else "values"
    run = Interpreter(limit)
    return [[[_number(key)] for key in run.keys(tokens, before)] for tokens in inputs]


def _table_columns(table: GridTable, tokens: Sequence[Token]) -> list[Column]:
    return [[_number(v) for v in column] for column in wanted_columns(table, tokens)[0]]


def _has_value(table: GridTable, tokens: Sequence[Token]) -> bool:
    grid = table.grid
    low, high = grid.support
    side = (high - low) / grid.cells
    cells = [tuple((v - low) // side for v in token) for token in tokens]
    return grid.positional or grid.repeats or len(set(cells)) == len(cells)


def _uniform(table: GridTable, rng: random.Random) -> tuple[Token, ...]:
    grid = table.grid
    low, high = grid.support
    return tuple(
        tuple(low + (high - low) * Fraction(rng.getrandbits(24), 2**24) for _ in range(grid.dim))
        for _ in range(grid.tokens)
    )


def _tensor(inputs: Sequence[Sequence[Token]]) -> Tensor:
    return torch.tensor(
        [[[float(v) for v in token] for token in tokens] for tokens in inputs], dtype=torch.float64
    )


def _too_many(
    soft: SequenceBlueprint,
    module: LiteralSequence,
    inputs: list[tuple[Token, ...]],
    wanted: list[list[Column]],
    allowed: Number,
    softness: Softness,
    rng: random.Random,
) -> str | None:
    """Return an input that is off, where more are than the ramps may take."""
    count, mass = len(inputs), softness.ramp_mass
    most = count * mass + 5 * sqrt(count * mass * (1 - mass)) + 3
    with torch.no_grad():
        outputs = module(_tensor(inputs))
    goals = torch.tensor([[[float(v) for v in c] for c in columns] for columns in wanted])
    off = (outputs - goals).abs().flatten(1).amax(1).nan_to_num(1e300)
    coarse = float(allowed) * (1 + 1e-6) + 1e-6 * max(1.0, float(goals.abs().max()))
    suspicious = (off > coarse).nonzero()[:, 0].tolist()
    if len(suspicious) <= most:
        if mass > RARE:
            return None
        suspicious = list(range(count))
    found = ""
    for k in rng.sample(suspicious, min(3, len(suspicious))):
        output = run_precisely(soft, inputs[k])
        pairs = zip(output, wanted[k], strict=True)
        apart = max(abs(a - b) for x, y in pairs for a, b in zip(x, y, strict=True))
        if apart <= allowed * (1 + mpf(2) ** -40) + mpf(2) ** -100:
            return None
        found = f"{shown(inputs[k])} is off by {float(apart):.3g}, {float(allowed):.3g} is claimed"
    return found


def _false_span(
    soft: SequenceBlueprint,
    module: LiteralSequence,
    inputs: list[tuple[Token, ...]],
    softness: Softness,
) -> str | None:
    with torch.no_grad():
        outputs = module(_tensor(inputs)).nan_to_num(0.0)
    for r, span in enumerate(softness.spans):
        found = outputs[..., r]
        if float(found.max() - found.min()) <= span * (1 + 1e-9) + 1e-9:
            continue
        ends = [divmod(int(k), found.shape[1]) for k in (found.argmax(), found.argmin())]
        high, low = (run_precisely(soft, inputs[k])[i][r] for k, i in ends)
        if high - low > mpf(span) * (1 + mpf(2) ** -50):
            return f"span: outputs {float(low):.6g} and {float(high):.6g}, {span:.6g} is claimed"
    return None


def run_precisely(blueprint: SequenceBlueprint, tokens: Sequence[Token]) -> list[Column]:
    """Run a blueprint of softmax and ReLUs with 300 bits."""
    embedding = blueprint.embedding
    stream = [_times(embedding.features, [_number(v) for v in token]) for token in tokens]
    for i, column in enumerate(stream):
        for r, _, v in embedding.constant:
            column[r] += _number(v)
        for r, j, v in embedding.positions:
            if i == j:
                column[r] += _number(v)
    for _, layer in blueprint.layers():
        stream = _apply(layer, stream)
    return [_times(blueprint.readout, column) for column in stream]


def _apply(layer: Layer, stream: list[Column]) -> list[Column]:
    if isinstance(layer, Attention):
        return _attend(layer, stream)
    activation: Callable[[Number], Number]
    if layer.activation == RELU:
        activation = lambda t: max(t, mpf(0))  # noqa: E731
    elif layer.activation == IDENTITY:
        activation = lambda t: t  # noqa: E731
    else:
        pieces = layer.activation
        activation = lambda t: _number(pieces(_rational(t)))  # noqa: E731
    result = []
    for column in stream:
        hidden = _times(layer.w1, column)
        for m, _, v in layer.b1:
            hidden[m] += _number(v)
        written = _times(layer.w2, [activation(t) for t in hidden])
        after = [a + b for a, b in zip(column, written, strict=True)]
        for r, _, v in layer.b2:
            after[r] += _number(v)
        result.append(after)
    return result


def _attend(layer: Attention, stream: list[Column]) -> list[Column]:
    result = [list(column) for column in stream]
    sharpness = 1 / _number(layer.selection.temperature)
    for head in layer.heads:
        keys = [_times(head.key, column) for column in stream]
        values = [_times(head.value, column) for column in stream]
        for i, column in enumerate(stream):
            query = _times(head.query, column)
            if isinstance(head, BiasedHead):
                for r, _, v in head.bias:
                    query[r] += _number(v)
            scores = [
                sharpness * sum((a * b for a, b in zip(query, key, strict=True)), mpf(0))
                for key in keys
            ]
            top = max(scores)
            weights = [PRECISE.exp(score - top) for score in scores]
            total = sum(weights, mpf(0))
            for weight, value in zip(weights, values, strict=True):
                for r, v in enumerate(value):
                    result[i][r] += weight / total * v
    return result


def _times(matrix: Matrix, column: Sequence[Number]) -> Column:
    result = [mpf(0)] * matrix.rows
    for i, j, v in matrix:
        result[i] += _number(v) * column[j]
    return result


def _number(value: Fraction | int) -> Number:
    fraction = Fraction(value)
    return mpf(fraction.numerator) / fraction.denominator


def _rational(value: Number) -> Fraction:
    sign, mantissa, exponent, _ = value._mpf_
    return Fraction((-1) ** sign * int(mantissa)) * Fraction(2) ** exponent
