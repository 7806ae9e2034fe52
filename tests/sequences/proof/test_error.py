"""Bounds on d_p by their parts: every term against its formula, from both sides."""

from __future__ import annotations

import random
from fractions import Fraction
from math import comb, factorial, inf, nan
from typing import Any

import pytest

from exactformer.errors import InputError
from exactformer.sequences.grid import Grid, GridTable
from exactformer.sequences.proof.error import (
    SequenceErrorBound,
    bound_sequence_error,
    cell_side,
    kept_mass,
    largest_norm,
    modulus_at,
    norm,
    rounded_up,
    soft_parts,
    span,
)
from exactformer.sequences.proof.softness import Softness

SUPPORT = (Fraction(-1), Fraction(2))


def near(value: float) -> Any:
    """A few roundings on either side."""
    return pytest.approx(value, rel=1e-14)


def table(tokens: int = 3, cells: int = 2, dim: int = 2, **kind: bool) -> GridTable:
    """Values of −3 to 4, and of −7 in one class."""
    grid = Grid(tokens, dim, cells, support=SUPPORT, **kind)
    rng = random.Random(0)
    values = {
        ids: [[rng.randint(-3, 4) for _ in range(tokens)] for _ in range(dim)]
        for ids in Grid(tokens, dim, cells, positional=True).classes()
        if ids in set(grid.classes()) and len(set(ids)) == tokens
    }
    values[next(iter(values))] = [[-7] * tokens] * dim
    return GridTable.of(grid, values)


def softness(**changes: Any) -> Softness:
    parts: dict[str, Any] = {
        "sharpness": 100.0,
        "threshold": 50.0,
        "ramp_mass": 1 / 8,
        "code_error": 1 / 8,
        "clearance": 3 / 8,
        "stream_error": 1 / 64,
        "rejects": True,
        "spans": (3.0, 5.0),
    }
    return Softness(**{**parts, **changes})


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("sample", ["centre", "corner"])
def test_every_part_is_its_formula(p: int, sample: str) -> None:
    """Three tokens of two numbers on 2 × 2 cells of side 3/2: 24 of 64 sequences have a value."""
    target, reach = table(), {"centre": 0.75, "corner": 1.5}[sample]
    away = 6 ** (1 / p) * reach
    averaged = 2.5 * (6 / (p + 1)) ** (1 / p) * reach
    kept, lost = (3 / 8) ** (1 / p), (5 / 8) ** (1 / p)
    for modulus, smooth in ((2.5, averaged), (lambda h: h**2 + 1, away**2 + 1)):
        given = bound_sequence_error(target, modulus, p, 11.0, sample)
        assert given.smooth == near(kept * smooth)
        assert given.equal_columns == near(lost * 11)
        assert given.ramps == given.leakage == 0
        known = bound_sequence_error(target, modulus, p, None, sample, equal_norm=11.0)
        assert known.equal_columns == near(11 + lost * smooth)
        unknown = bound_sequence_error(target, modulus, p, None, sample)
        assert unknown.equal_columns == near(lost * largest_norm(target, modulus, p, sample))
        both = (given.smooth**p + given.equal_columns**p) ** (1 / p)
        assert given.total == near(both)
        whole = (3 * (3**p + 5**p)) ** (1 / p)
        for rejects in (True, False):
            soft = bound_sequence_error(
                target, modulus, p, 11.0, sample, softness(rejects=rejects), equal_norm=2.0
            )
            more = lost * (11 + (0 if rejects else whole))
            assert soft.equal_columns == near(more)
            assert soft.ramps == near((1 / 8) ** (1 / p) * whole)
            assert soft.leakage == near(3 ** (1 / p) / 64)
            exact = (soft.smooth**p + soft.equal_columns**p) ** (1 / p)
            assert soft.total == near(exact + soft.ramps + soft.leakage)


@pytest.mark.parametrize("kind", [{"positional": True}, {"repeats": True}])
def test_where_no_column_is_discarded_nothing_is_lost(kind: dict[str, bool]) -> None:
    target = table(**kind)
    assert kept_mass(target.grid) == 1
    assert bound_sequence_error(target, 1) == bound_sequence_error(target, 1, 2)
    found = bound_sequence_error(target, 1, 2, equal_norm=5.0, softness=softness(rejects=False))
    assert found.equal_columns == 0
    assert found.smooth == near((6 / 3) ** 0.5 * 0.75)
    # To the nearest class it is half a cell, which columns may be equal in.
    assert largest_norm(target, 2, 1, "centre") == near(42 + 2 * 6 * 0.5 * 1.5)


@pytest.mark.parametrize(("tokens", "points"), [(1, 4), (2, 4), (3, 4), (4, 4), (2, 9)])
def test_different_columns_have_a_mass(tokens: int, points: int) -> None:
    grid = Grid(tokens, 2, {4: 2, 9: 3}[points])
    assert kept_mass(grid) == float(
        Fraction(comb(points, tokens) * factorial(tokens), points**tokens)
    )


@pytest.mark.parametrize(
    ("tokens", "cells", "more"), [(3, 2, 2), (3, 3, 2), (3, 4, 2), (2, 4, 1), (4, 2, 2)]
)
@pytest.mark.parametrize("p", [1, 2])
def test_the_largest_norm_is_that_of_the_table_and_of_the_way_to_it(
    tokens: int, cells: int, more: int, p: int
) -> None:
    """n − 1 cells make columns different where there are n of them, all cells else."""
    target = table(tokens, cells)
    entries, side = 2 * tokens, 3 / cells
    for sample, offset in (("centre", 0.5), ("corner", 1.0)):
        way = entries ** (1 / p) * (offset + more) * side
        wanted = 7 * entries ** (1 / p) + 2.5 * way
        assert largest_norm(target, 2.5, p, sample) == near(wanted)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_what_softness_costs(p: int) -> None:
    whole = (3 * (3**p + 5**p)) ** (1 / p)
    assert span(softness(), 3, p) == near(whole)
    assert soft_parts(None, 3, p) == (0, 0)
    for changes, leakage in (
        ({}, 3 ** (1 / p) / 64),
        ({"stream_error": 100.0}, whole),
        ({"code_error": 1 / 2}, whole),
        ({"code_error": None, "stream_error": None}, whole),
    ):
        assert soft_parts(softness(**changes), 3, p) == (
            near((1 / 8) ** (1 / p) * whole),
            near(leakage),
        )


def test_large_exponents_lose_no_part() -> None:
    """0.1^400 is 0 in float64, and the norm of (0.1, 0.1) is not."""
    assert norm((0.1, -0.1), 400) == near(0.1 * 2 ** (1 / 400))
    assert norm((1e-200, 2e-200), 2) == near(5**0.5 * 1e-200)
    assert norm((1e200, 2e200), 2) == near(5**0.5 * 1e200)
    assert norm((0, 0), 3) == 0
    found = SequenceErrorBound(400.0, 0.1, 0.05, 0.0, 0.0, False)
    assert found.total == near(0.1)
    assert bound_sequence_error(table(), 0.01, 400).total >= 7
    assert span(softness(spans=(0.1, 0.1)), 3, 400) == near(0.1 * 6 ** (1 / 400))


@pytest.mark.parametrize("p", [0, 0.5, 1 - 2**-53, -1, inf, nan])
def test_exponents_below_one_and_infinite_ones_are_refused(p: float) -> None:
    bound_sequence_error(table(), 1, 1)
    with pytest.raises(InputError, match="at least 1, and finite"):
        bound_sequence_error(table(), 1, p)


def test_a_cell_has_a_side_and_a_modulus_a_value() -> None:
    assert cell_side(Grid(2, 1, 4, support=SUPPORT)) == 0.75
    assert cell_side(Grid(2, 1, 4, support=(Fraction(1), Fraction(2)))) == 0.25
    assert modulus_at(3, 0.5) == 1.5
    assert modulus_at(lambda h: h + 1, 0.5) == 1.5
    assert modulus_at(0, 0.5) == 0
    for wrong in (-1, inf, nan, lambda h: -h):
        with pytest.raises(InputError, match="0 or more"):
            modulus_at(wrong, 0.5)


def test_four_digits_are_rounded_up_and_no_farther() -> None:
    assert rounded_up(0.0) == 0
    rng = random.Random(0)
    for _ in range(500):
        digits, power = rng.randint(1000, 9999), rng.randint(-12, 6)
        exact, above = (float(Fraction(digits + k) * Fraction(10) ** power) for k in (0, 1))
        assert rounded_up(exact) == exact
        between = exact + (above - exact) * rng.choice([1e-6, 0.3, 0.5, 0.8])
        assert rounded_up(between) == above


def test_parts_that_are_nothing_are_left_out() -> None:
    found = SequenceErrorBound(2.0, 0.3, 0.0, 0.00012344, 0.0, False)
    assert found.to_dict() == {"d_2": 0.3002, "smooth": 0.3, "ramps": 0.0001235, "modulus": "given"}
    assert "no bound" in SequenceErrorBound(2.0, 0, 0, 0, 0, True).to_dict()["modulus"]
