"""Three ways of running a sequence blueprint: in rationals, layer by layer in floats, in sweeps."""

import random
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.core.layers import FeedForward, PiecewiseLinear, Rule, Selection
from exactformer.core.matrix import Matrix
from exactformer.core.run_literal import LiteralFeedForward, Piecewise, mixed
from exactformer.core.upper import float_above
from exactformer.core.weights import dense
from exactformer.errors import ExecutionError, InputError
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.constructions import SEQUENCE_FORMS
from exactformer.sequences.run.exact import run_sequence
from exactformer.sequences.run.fused import Quantiser, SequenceSweeps, read_sweeps
from exactformer.sequences.run.literal import LiteralSequence
from tests.cases.sequences import FORMS, SIZES, every_class, grid, random_table, symbols
from tests.examples import examples

rng = random.Random(1)


def blueprint(size: tuple[int, int, int], form: str, positional: bool = False) -> SequenceBlueprint:
    return SEQUENCE_FORMS[form](random_table(grid(size, form, positional)))


def centres(size: tuple[int, int, int], form: str, positional: bool = False) -> torch.Tensor:
    where = grid(size, form, positional)
    points = [[where.centre(k) for k in ids] for ids in every_class(where)]
    return torch.tensor([[[float(v) for v in c] for c in x] for x in points], dtype=torch.float64)


@pytest.mark.parametrize("form", ["compact", "four-layer"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_sweeps_are_the_literal_layers_bit_for_bit(size: tuple[int, int, int], form: str) -> None:
    plan, x = blueprint(size, form), centres(size, form)
    streams: dict[str, torch.Tensor] = {}
    literal = LiteralSequence(plan)
    output = literal(x, streams.__setitem__)
    sweeps = SequenceSweeps(plan)
    assert torch.equal(sweeps(x), output)
    codes = streams[f"contextual mapping {len(plan.stage('contextual mapping'))}"] @ literal.code[0]
    assert torch.equal(sweeps.contextual_mapping(sweeps.quantiser(x)), codes)


@pytest.mark.parametrize("form", ["compact", "four-layer"])
def test_sweeps_are_the_literal_layers_with_positions(form: str) -> None:
    plan, x = blueprint((1, 3, 3), form, True), centres((1, 3, 3), form, True)
    assert torch.equal(SequenceSweeps(plan)(x), LiteralSequence(plan)(x))


@pytest.mark.parametrize("size", [(1, 2, 4), (1, 3, 4), (2, 2, 3)], ids=str)
@pytest.mark.parametrize("positional", [False, True])
def test_the_papers_layers_lose_what_their_keys_cancel(
    size: tuple[int, int, int], positional: bool
) -> None:
    """Values are written as value − column, which cancels a number as large as the key.

    A column starts with d + 1 roundings of numbers below K cells; each of n shifts takes the difference
    of two and multiplies by K, the last layer multiplies by G; a few roundings more in every step.
    """
    d, n, _ = size
    plan, x = blueprint(size, "paper", positional), centres(size, "paper", positional)
    sweeps = read_sweeps(plan)
    error = float((LiteralSequence(plan)(x) - SequenceSweeps(plan)(x)).abs().max())
    amplified = (2 * sweeps.factor) ** n * sweeps.global_shift * sweeps.factor * float(plan.delta)
    assert error <= 4 * (d + 1) * amplified * 2.0**-53


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("positional", [False, True])
def test_sweeps_round_what_rationals_give(form: str, positional: bool) -> None:
    plan, x = blueprint((1, 2, 3), form, positional), centres((1, 2, 3), form, positional)
    for sequence, output in zip(x.tolist(), SequenceSweeps(plan)(x).tolist(), strict=True):
        columns = [[Fraction(v) for v in column] for column in sequence]
        assert [[float(v) for v in c] for c in run_sequence(plan, columns)] == output


@pytest.mark.parametrize("form", FORMS)
def test_outside_is_zero_in_floats_as_well(form: str) -> None:
    plan = blueprint((2, 2, 3), form)
    columns = list(symbols(grid((2, 2, 3), form), rng))
    outside = [column for column, inside in columns if not inside]
    x = torch.tensor(
        [[[float(v) for v in a], [float(v) for v in b]] for a, _ in columns for b in outside],
        dtype=torch.float64,
    )
    assert not SequenceSweeps(plan)(x).any()
    assert not LiteralSequence(plan)(x).any() or form == "paper"
    assert float(LiteralSequence(plan)(x).abs().max()) < 1e-6


@pytest.mark.parametrize("form", ["compact", "four-layer"])
def test_codes_of_outsiders_are_those_of_the_layers(form: str) -> None:
    plan = blueprint((1, 3, 3), form)
    places = [0.25, 0.5, 0.75, -1.0]
    x = torch.tensor(list(product(places, repeat=3)), dtype=torch.float64).unsqueeze(-1)
    streams: dict[str, torch.Tensor] = {}
    literal, sweeps = LiteralSequence(plan), SequenceSweeps(plan)
    literal(x, streams.__setitem__)
    codes = streams[f"contextual mapping {len(plan.stage('contextual mapping'))}"] @ literal.code[0]
    assert torch.equal(sweeps.contextual_mapping(sweeps.quantiser(x)), codes)


def test_the_average_of_equal_integers_is_that_integer() -> None:
    """A seventh of each, added up, would not be: 1/7 is no float. Sums stay below 2^53."""
    values = (torch.arange(1, 2000, dtype=torch.float64) * 2.0**38 + 1).reshape(-1, 1, 1)
    values = values.expand(-1, 7, 1)
    assert torch.equal(
        mixed(torch.zeros(len(values), 7, 7).double(), values, Selection(Rule.HARD_MAX)), values
    )


def test_forty_seven_bits_are_exact() -> None:
    """(d, n, N) = (1, 6, 10): N is no power of two, values are whatever they are."""
    where = grid((1, 6, 10), "compact")
    table = random_table(where)
    plan = SEQUENCE_FORMS["compact"](table)
    assert plan.key_bits == 47
    classes = list(where.classes())
    points = [[[float(v) for v in where.centre(k)] for k in ids] for ids in classes]
    x = torch.tensor(points, dtype=torch.float64)
    wanted = [[[float(v) for v in c] for c in table.values[ids]] for ids in classes]
    for run in (SequenceSweeps(plan), LiteralSequence(plan)):
        assert torch.equal(run(x), torch.tensor(wanted, dtype=torch.float64))
    equal = x.clone()
    equal[:, 3] = equal[:, 2]
    assert not SequenceSweeps(plan)(equal).any()
    assert not LiteralSequence(plan)(equal).any()


@given(st.floats(-0.5, 1.5), st.integers(1, 60), st.sampled_from([(0, 1), (-1, 2), (0.1, 0.7)]))
@settings(max_examples=examples(200))
def test_every_float_falls_into_the_cell_of_exact_arithmetic(
    x: float, cells: int, support: tuple[float, float]
) -> None:
    low, high = map(Fraction, support)
    edges = [low + (high - low) * Fraction(k, cells) for k in range(cells + 1)]
    tried = [
        x,
        *(np.nextafter(float(e), s) for e in edges for s in (-9.0, 9.0)),
        *map(float, edges),
    ]
    sweeps = read_sweeps(blueprint((1, 2, 2), "compact"))
    quantiser = Quantiser(type(sweeps)(**{**vars(sweeps), "edges": tuple(edges), "outside": -1}))
    found = quantiser(torch.tensor(tried, dtype=torch.float64)).tolist()
    for value, cell in zip(tried, found, strict=True):
        exact = (Fraction(value) - low) / (high - low) * cells
        assert cell == (exact.__floor__() if 0 <= exact < cells else -1)


def test_floats_above_are_the_smallest() -> None:
    for value in (Fraction(1, 3), Fraction(1, 10), Fraction(-2, 3), Fraction(1, 2)):
        above = float_above(value)
        assert Fraction(np.nextafter(above, -np.inf)) < value <= Fraction(above)


@pytest.mark.parametrize("form", ["compact", "paper"])
def test_sweeps_of_the_table_survive_values_of_any_size(form: str) -> None:
    """Values far beyond the keys: the paper's global shift grows, the compact form does not care."""
    from exactformer.sequences.grid import GridTable

    where = grid((1, 2, 4), form)
    table = GridTable.of(where, {ids: [[1e6 * (k + 1)] for k in ids] for ids in where.classes()})
    plan = SEQUENCE_FORMS[form](table)
    x = torch.tensor([[[0.1], [0.9]]], dtype=torch.float64)
    assert SequenceSweeps(plan)(x).tolist() == [[[1e6], [4e6]]]
    assert (plan.key_bits > 12) == (form == "paper")


def test_activations_are_continuous_from_the_right() -> None:
    phi = PiecewiseLinear.of((0, 1), ((0, 0), (-1, 0), (0, 5)))
    t = [-1e-300, 0.0, 0.25, 1.0 - 2.0**-53, 1.0]
    wanted = [0.0, 0.0, -0.25, -1.0 + 2.0**-53, 5.0]
    assert [float(phi(Fraction(v))) for v in t] == wanted
    assert Piecewise(phi, torch.float64)(torch.tensor(t, dtype=torch.float64)).tolist() == wanted
    with pytest.raises(InputError, match="ascend"):
        PiecewiseLinear.of((1, 0), ((0, 0), (0, 0), (0, 0)))


def test_a_blueprint_with_a_broken_key_has_no_sweeps() -> None:
    from dataclasses import replace

    from exactformer.core.matrix import Matrix
    from exactformer.sequences.blueprint import Stage

    plan = blueprint((1, 2, 2), "compact")
    units = plan.stage("values").parts[0]  # type: ignore[union-attr]
    biases = Matrix.of(
        *units.b1.shape, {p: v + Fraction(1, 3) for p, v in units.b1.entries.items()}
    )
    *rest, _ = plan.stages
    broken = replace(
        plan, stages=(*rest, Stage("values", (replace(units, b1=biases, successive=1),)))
    )
    with pytest.raises(ExecutionError, match="integer"):
        read_sweeps(broken)


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
@pytest.mark.parametrize("count", [1, 7, 256])
def test_units_of_a_layer_in_turn_are_added_in_their_order(
    order: tuple[int, ...], count: int
) -> None:
    """relu(t + 2⁶⁰) − relu(t + 2⁶⁰) + relu(t): what is left depends on the order of the sum."""
    offsets, signs = ([(2**60, 2**60, 0)[k] for k in order], [(1, -1, 1)[k] for k in order])
    units = FeedForward(
        w1=Matrix(3, 2, {(k, 0): Fraction(1) for k in range(3)}),
        b1=Matrix(3, 1, {(k, 0): Fraction(b) for k, b in enumerate(offsets) if b}),
        w2=Matrix(2, 3, {(1, k): Fraction(s) for k, s in enumerate(signs)}),
        b2=Matrix(2, 1, {}),
        successive=3,
    )
    layer = LiteralFeedForward(units, lambda m, name: dense(m, torch.float64, lambda i, j: name))
    stream = torch.zeros(count, 2, dtype=torch.float64)
    stream[:, 0] = 1.5
    after = layer(stream)
    wanted = 0.0
    for b, s in zip(offsets, signs, strict=True):
        wanted += s * max(0.0, 1.5 + b)
    assert after[:, 1].tolist() == [wanted] * count
