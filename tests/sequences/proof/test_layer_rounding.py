"""How far float64 takes the layers of a hard sequence blueprint, against rationals that are rounded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import Any

import pytest
import torch

import exactformer as ef
from exactformer.core.layers import Attention, BiasedHead, FeedForward
from exactformer.core.matrix import Matrix
from exactformer.core.run_exact import apply_layer, to_column, to_token
from exactformer.errors import CertificationError, InputError
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.constructions import SEQUENCE_FORMS
from exactformer.sequences.grid import Grid, GridTable
from exactformer.sequences.proof.certify import certify_sequence
from exactformer.sequences.proof.layer_rounding import literal_rounding_of
from exactformer.sequences.proof.lookups import every_class
from exactformer.sequences.run.literal import LiteralSequence
from tests.cases.sequences import expected, random_table

U = Fraction(1, 2**53)
Rounding = Callable[[Fraction], Fraction]
Stream = list[list[Fraction]]


def case(
    where: Grid, form: str = "paper", largest: Fraction | None = None
) -> tuple[Any, GridTable]:
    table = random_table(where)
    if largest is not None:
        size = {ids: [[largest] * where.dim] * where.tokens for ids in table.values}
        table = GridTable.of(where, size)
    return SEQUENCE_FORMS[form](table), table


@pytest.mark.parametrize("delta", [Fraction(1, N) for N in (3, 5, 6, 7)])
@pytest.mark.parametrize("tokens", [1, 2])
@pytest.mark.parametrize("positional", [False, True])
@pytest.mark.parametrize("form", ["paper", "compact", "four-layer"])
def test_every_corner_and_half_point_is_within_the_bound(
    delta: Fraction, tokens: int, positional: bool, form: str
) -> None:
    """The centre of a cell is the half-point; a corner belongs to the cell that it begins."""
    where = Grid(tokens, 1, delta.denominator, positional, form == "four-layer")
    table = random_table(where)
    arguments = {"tokens": tokens, "dim": 1, "delta": delta, "form": form, "positional": positional}
    if form == "paper" and tokens == 1:
        return
    model = ef.compile_sequence(dict(table.values), executor="literal", **arguments)
    allowed = Fraction(model.certificate.rounding["literal"])
    # A corner that is not a float is met from above: the next float is in the same cell.
    edges = [float(q * delta) for q in range(where.cells)]
    corners = [x if Fraction(x) >= q * delta else x + 2.0**-52 for q, x in enumerate(edges)]
    for points in (corners, [float((q + Fraction(1, 2)) * delta) for q in range(where.cells)]):
        for ids in product(range(where.cells), repeat=tokens):
            found = model([[points[q]] for q in ids]).tolist()
            for x, v in zip(found, expected(table, ids), strict=True):
                assert abs(Fraction(x[0]) - v[0]) <= allowed


def rounded_run(blueprint: SequenceBlueprint, stream: Stream, fl: Rounding) -> Stream:
    """Run the layers after the quantiser as the module does, every operation rounded by ``fl``.

    Exact are integer weights, products with powers of two, and sums with 0.
    """

    def add(a: Fraction, b: Fraction) -> Fraction:
        return fl(a + b) if a and b else a + b

    def weight(v: Fraction) -> Fraction:
        return v if v.denominator == 1 else fl(v)

    def times(matrix: Matrix, column: list[Fraction]) -> list[Fraction]:
        result = []
        for row in range(matrix.rows):
            terms = [
                v * column[r]
                if v.denominator == 1 and abs(v.numerator).bit_count() == 1
                else fl(weight(v) * column[r])
                for r, v in matrix.by_row.get(row, ())
            ]
            result.append(reduce(add, terms, Fraction(0)))
        return result

    def attend(layer: Attention, stream: Stream) -> Stream:
        result = list(stream)
        for head in layer.heads:
            keys = [times(head.key, z)[0] for z in stream]
            values = [times(head.value, z) for z in stream]
            for i, z in enumerate(stream):
                bias = head.bias[0, 0] if isinstance(head, BiasedHead) else Fraction(0)
                query = add(times(head.query, z)[0], fl(bias))
                scores = [fl(query * key) for key in keys]
                (chosen,) = (j for j, score in enumerate(scores) if score == max(scores))
                result[i] = [add(a, b) for a, b in zip(result[i], values[chosen], strict=True)]
        return result

    def feed(layer: FeedForward, z: list[Fraction]) -> list[Fraction]:
        hidden = []
        for m, t in enumerate(times(layer.w1, z)):
            t = add(t, fl(layer.b1[m, 0]))
            piece = sum(fl(b) <= t for b in layer.activation.breaks)
            slope, rest = layer.activation.pieces[piece]
            hidden.append(slope * t + rest)
        return [add(a, b) for a, b in zip(z, times(layer.w2, hidden), strict=True)]

    for stage in blueprint.stages[1:]:
        for layer in stage.layers():
            if isinstance(layer, Attention):
                stream = attend(layer, stream)
            else:
                stream = [feed(layer, z) for z in stream]
    return [times(blueprint.readout, z) for z in stream]


def quantised_stream(blueprint: SequenceBlueprint, where: Grid, ids: tuple[int, ...]) -> Stream:
    """Return what the quantiser leaves, in exact arithmetic."""
    columns = []
    for i, k in enumerate(ids):
        point = where.centre(k)
        embedding = blueprint.embedding
        column = [
            sum((v * point[r] for r, v in embedding.features.by_row.get(row, ())), Fraction(0))
            + embedding.constant[row, 0]
            + embedding.positions[row, i]
            for row in range(blueprint.width)
        ]
        token = [to_token(column)]
        for layer in blueprint.stages[0].layers():
            token = apply_layer(layer, token)
        columns.append(to_column(token[0], blueprint.width))
    return columns


def upwards(x: Fraction) -> Fraction:
    """Round every number away from 0, by as much as the standard model allows."""
    return x * (1 + U)


def any_way(x: Fraction) -> Fraction:
    """Round by any part of that, the same for x and −x."""
    return x * (1 + U * (hash(abs(x)) % 2001 - 1000) / 1000)


def worst(where: Grid, fl: Rounding) -> tuple[Fraction, Fraction]:
    """Return the largest error of any class, and what is allowed."""
    blueprint, table = case(where)
    off = Fraction(0)
    for ids, columns in table.values.items():
        stream = [[fl(z) for z in column] for column in quantised_stream(blueprint, where, ids)]
        found = rounded_run(blueprint, stream, fl)
        for output, column in zip(found, columns, strict=True):
            off = max(off, *(abs(x - v) for x, v in zip(output, column, strict=True)))
    return off, Fraction(literal_rounding_of(blueprint, table))


SMALL = [Grid(2, 1, 3), Grid(2, 1, 6), Grid(3, 1, 3), Grid(2, 2, 3), Grid(2, 1, 3, positional=True)]


@pytest.mark.parametrize("where", SMALL, ids=str)
def test_the_bound_holds_for_every_rounding_and_is_near_the_worst(where: Grid) -> None:
    """Numbers that are all rounded away from 0 add up to a sixth of the bound or more."""
    off, allowed = worst(where, any_way)
    assert 0 < off <= allowed
    off, allowed = worst(where, upwards)
    assert off <= allowed <= 6 * off


@pytest.mark.parametrize("cells", [3, 5, 6, 7])
def test_errors_of_two_tokens_follow_their_codes(cells: int) -> None:
    """The derivation, written out for two tokens of one coordinate; K is the number of cells."""
    K, where = cells, Grid(2, 1, cells)
    blueprint, table = case(where)
    (last,) = blueprint.stages[1].parts[-1].heads
    G = int(last.value[0, 0])
    most = Fraction(0)
    for ids, values in table.values.items():
        z, e = list(ids), list(ids)
        for k in range(K):
            high, low = z.index(max(z)), z.index(min(z))
            grown, errors = list(z), list(e)
            for i in range(2):
                if z[i] == k:
                    grown[i] = z[i] + K * (z[high] - z[low])
                    answers = K * (e[high] + z[high]) + K * (e[low] + z[low])
                    errors[i] = e[i] + answers + (z[i] + K * z[high]) + grown[i]
                else:
                    a = K * (z[high] if z[i] > k else z[low])
                    errors[i] = e[i] + (z[i] + a) + z[i]
            z, e = grown, errors
        high = z.index(max(z))
        rounded = int(G & (G - 1) != 0)
        keys = [v + G * z[high] for v in z]
        for i in range(2):
            error = e[i] + G * (e[high] + rounded * z[high]) + keys[i]
            value = values[i][0] * cells
            most = max(most, error + abs(value - keys[i]) + abs(value))
    allowed = Fraction(literal_rounding_of(blueprint, table))
    assert most * U / cells <= allowed <= most * U / cells * (1 + Fraction(1, 2**19))


@pytest.mark.parametrize("where", [Grid(2, 1, 4), Grid(2, 1, 2, positional=True), Grid(2, 1, 8)])
def test_on_binary_cells_only_values_are_rounded(where: Grid) -> None:
    """In the paper's form v − z, as a weight, and its sum with the column z, which is the key."""
    blueprint, table = case(where)
    units = blueprint.stages[-1].parts[0]
    pairs = [(units.w2[0, m], -units.b1[m, 0]) for m in range(units.w1.rows)]
    most = U * max(abs(w) + abs(w + z) for w, z in pairs)
    assert (
        most <= Fraction(literal_rounding_of(blueprint, table)) <= most * (1 + Fraction(1, 2**19))
    )


@pytest.mark.parametrize("where", [Grid(2, 1, 3), Grid(1, 2, 5), Grid(2, 1, 3, positional=True)])
@pytest.mark.parametrize("form", ["compact", "four-layer"])
def test_integers_and_values_in_rows_of_their_own_are_not_rounded_again(
    where: Grid, form: str
) -> None:
    blueprint, table = case(replace(where, repeats=form == "four-layer"), form)
    assert literal_rounding_of(blueprint, table) == 0


def test_numbers_beyond_float64_are_rounded_on_binary_cells_too() -> None:
    """As long as they can be told apart; here they cannot, for keys have more than 53 bits."""
    blueprint, table = case(Grid(2, 1, 4), largest=Fraction(10**16))
    assert blueprint.key_bits > 53
    with pytest.raises(CertificationError, match="keys of 58 bits"):
        literal_rounding_of(blueprint, table)


def test_layers_whose_cells_could_be_mistaken_are_refused_with_the_reason() -> None:
    """Large values need large keys, which leave less than half a cell for the roundings of thirds."""
    where = Grid(2, 1, 3)
    blueprint, table = case(where, largest=Fraction(10**14))
    with pytest.raises(CertificationError) as caught:
        literal_rounding_of(blueprint, table)
    for words in ("delta = 1/3", "half a cell", "executor='fused'", "1/2^m"):
        assert words in str(caught.value)
    certificate = certify_sequence(blueprint, table)
    assert set(certificate.rounding) == {"fused", "exact"}
    arguments: dict[str, Any] = {"tokens": 2, "dim": 1, "form": "paper"}
    with pytest.raises(CertificationError, match="delta = 1/3"):
        ef.compile_sequence(dict(table.values), delta="1/3", executor="literal", **arguments)
    fused = ef.compile_sequence(dict(table.values), delta="1/3", **arguments).bounded(1)
    with pytest.raises(InputError, match="choose one of fused, exact"):
        fused.certificate.bound(executor="literal")
    binary, quarters = case(Grid(2, 1, 4), largest=Fraction(10**14))
    assert 0 < literal_rounding_of(binary, quarters) < 0.1


@pytest.mark.parametrize("size", range(10, 16))
def test_layers_are_certified_only_if_they_are_right(size: int) -> None:
    """Wherever no refusal is raised, every class comes out within the bound."""
    where = Grid(2, 1, 3)
    blueprint, table = case(where, largest=Fraction(10**size, 7))
    try:
        allowed = literal_rounding_of(blueprint, table)
    except CertificationError:
        assert size > 13
        return
    assert size < 15
    classes = every_class(where)
    centres = [[[float(v) for v in where.centre(k)] for k in ids] for ids in classes.tolist()]
    found = LiteralSequence(blueprint)(torch.tensor(centres, dtype=torch.float64)).tolist()
    for ids, output in zip(classes.tolist(), found, strict=True):
        for token, column in zip(output, expected(table, ids), strict=True):
            once = abs(column[0] - Fraction(float(column[0])))
            assert abs(Fraction(token[0]) - column[0]) <= Fraction(allowed) + once


def forged(blueprint: SequenceBlueprint, stage: int, **changes: Any) -> SequenceBlueprint:
    """Change the first part of a stage."""
    stages = list(blueprint.stages)
    first, *rest = stages[stage].parts
    stages[stage] = replace(stages[stage], parts=(replace(first, **changes), *rest))
    return replace(blueprint, stages=tuple(stages))


def test_a_query_that_rounding_may_turn_is_refused() -> None:
    blueprint, table = case(Grid(2, 1, 6))
    first = blueprint.stages[1].parts[0]
    for k, refused in ((Fraction(1, 2), False), (Fraction(1), False), (Fraction(-1), True)):
        bias = Matrix.of(1, 1, {(0, 0): k * blueprint.delta})
        heads = (replace(first.heads[0], bias=bias), first.heads[1])
        changed = forged(blueprint, 1, heads=heads)
        if refused:  # the column of id 1 reads 0, up to roundings
            with pytest.raises(CertificationError, match="the sign of a query"):
                literal_rounding_of(changed, table)
        else:
            literal_rounding_of(changed, table)


def test_rejecting_layers_that_may_touch_a_column_are_refused() -> None:
    blueprint, table = case(Grid(2, 1, 3))
    band = blueprint.stages[2].parts[0]
    low, high = band.activation.breaks
    literal_rounding_of(blueprint, table)
    smallest = low + blueprint.delta / 2
    for end, refused in ((smallest - blueprint.delta / 2**20, False), (smallest, True)):
        activation = replace(band.activation, breaks=(end, high))
        changed = forged(blueprint, 2, activation=activation)
        if refused:
            with pytest.raises(CertificationError, match="a unit of the stage 'reject'"):
                literal_rounding_of(changed, table)
        else:
            literal_rounding_of(changed, table)
    for changes in (
        {"b1": Matrix.of(1, 1, {(0, 0): 1})},
        {"b2": Matrix.of(1, 1, {(0, 0): 1})},
        {"w1": Matrix.of(1, 1, {(0, 0): Fraction(1, 2)})},
        {"activation": replace(band.activation, breaks=(high, high + 1))},
    ):
        with pytest.raises(CertificationError, match="nothing is known"):
            literal_rounding_of(forged(blueprint, 2, **changes), table)


def test_outputs_that_are_sums_of_rows_are_refused() -> None:
    blueprint, table = case(Grid(2, 1, 3))
    with pytest.raises(CertificationError, match="sums of rows"):
        literal_rounding_of(replace(blueprint, readout=Matrix.of(1, 1, {(0, 0): 2})), table)
