"""Bounds on d_p by their parts: every term against its formula, from both sides."""

from __future__ import annotations

import random
from fractions import Fraction
from math import comb, factorial, inf, nan
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from exactformer.core.certificate import Kind
from exactformer.core.upper import Upper, float_above
from exactformer.errors import FileFormatError, InputError
from exactformer.sequences.grid import Grid, GridTable
from exactformer.sequences.proof.error import (
    SequenceErrorBound,
    Stated,
    bound_sequence_error,
    cell_side,
    kept_mass,
    largest_norm,
    modulus_at,
    norm,
    power,
    reach,
    soft_parts,
    span,
    state,
    stated_error,
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
        ids: [[rng.randint(-3, 4) for _ in range(dim)] for _ in range(tokens)]
        for ids in Grid(tokens, dim, cells, positional=True).classes()
        if ids in set(grid.classes()) and len(set(ids)) == tokens
    }
    values[next(iter(values))] = [[-7] * dim] * tokens
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
        taken = bound_sequence_error(target, modulus, p, 11.0, sample)
        assert taken.smooth == near(kept * smooth)
        assert taken.equal_columns == near(lost * 11)
        assert taken.ramps == taken.leakage == 0
        known = bound_sequence_error(target, modulus, p, None, sample, equal_norm=11.0)
        assert known.equal_columns == near(11 + lost * smooth)
        unknown = bound_sequence_error(target, modulus, p, None, sample)
        assert unknown.equal_columns == near(lost * float(largest_norm(target, modulus, p, sample)))
        both = (taken.smooth**p + taken.equal_columns**p) ** (1 / p)
        assert taken.total == near(both)
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
    assert float(largest_norm(target, 2, 1, "centre")) == near(42 + 2 * 6 * 0.5 * 1.5)


@pytest.mark.parametrize(("tokens", "points"), [(1, 4), (2, 4), (3, 4), (4, 4), (2, 9)])
def test_different_columns_have_a_mass(tokens: int, points: int) -> None:
    grid = Grid(tokens, 2, {4: 2, 9: 3}[points])
    share = Fraction(comb(points, tokens) * factorial(tokens), points**tokens)
    assert kept_mass(grid) == share


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
        assert float(largest_norm(target, 2.5, p, sample)) == near(wanted)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_what_softness_costs(p: int) -> None:
    whole = (3 * (3**p + 5**p)) ** (1 / p)
    assert float(span(softness(), 3, p)) == near(whole)
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
    assert float(norm((0.1, -0.1), 400)) == near(0.1 * 2 ** (1 / 400))
    assert float(norm((1e-200, 2e-200), 2)) == near(5**0.5 * 1e-200)
    assert float(norm((1e200, 2e200), 2)) == near(5**0.5 * 1e200)
    assert float(norm((0, 0), 3)) == 0
    found = SequenceErrorBound(400.0, 0.1, 0.05, 0.0, 0.0, False)
    assert found.total == near(0.1)
    assert bound_sequence_error(table(), 0.01, 400).total >= 7
    assert float(span(softness(spans=(0.1, 0.1)), 3, 400)) == near(0.1 * 6 ** (1 / 400))


@pytest.mark.parametrize("p", [0, 0.5, 1 - 2**-53, -1, inf, nan])
def test_exponents_below_one_and_infinite_ones_are_refused(p: float) -> None:
    bound_sequence_error(table(), 1, 1)
    with pytest.raises(InputError, match="at least 1, and finite"):
        bound_sequence_error(table(), 1, p)


def test_a_cell_has_a_side_and_a_modulus_a_value() -> None:
    assert cell_side(Grid(2, 1, 4, support=SUPPORT)) == 0.75
    assert cell_side(Grid(2, 1, 4, support=(Fraction(1), Fraction(2)))) == 0.25
    assert float(modulus_at(3, 0.5)) == near(1.5)
    assert float(modulus_at(lambda h: h + 1, 0.5)) == 1.5
    assert float(modulus_at(0, 0.5)) == 0
    for wrong in (-1, inf, nan, lambda h: -h):
        with pytest.raises(InputError, match="0 or more"):
            modulus_at(wrong, 0.5)


def test_parts_that_are_nothing_are_left_out() -> None:
    found = SequenceErrorBound(2.0, 0.3, 0.0, 0.25, 0.0, False).bound(6)
    assert found.parts == {"smooth": 0.3, "ramps": 0.25}
    assert found.kind is Kind.PROVEN
    assert "d_2" in found.norm
    assert found == near(0.55)
    rounded = SequenceErrorBound(2.0, 0.3, 0.0, 0.0, 0.0, True).bound(4, 0.01)
    assert rounded.parts["rounding"] == near(0.02)
    assert rounded == near(0.32)
    assert rounded.kind is Kind.ESTIMATED


def root_at_most(value: float, base: Fraction, p: int) -> bool:
    """Whether base^(1/p) ≤ value, in rationals."""
    return base <= Fraction(value) ** p


@given(st.fractions(0, 10**6), st.integers(1, 7), st.fractions(0, 1))
def test_roots_sums_and_norms_are_never_below_the_true_ones(
    base: Fraction, p: int, other: Fraction
) -> None:
    assert root_at_most(float(power(Upper(float_above(base)), Fraction(1, p))), base, p)
    assert Fraction(float(power(Upper(float_above(base)), Fraction(p)))) >= base**p
    a, b = float(base), float(other)
    assert root_at_most(float(norm((a, b), p)), Fraction(a) ** p + Fraction(b) ** p, p)
    total = SequenceErrorBound(float(p), a, 0.0, b, 0.0, False).total
    assert Fraction(total) >= Fraction(a) + Fraction(b)


UNIT = mpf(2) ** -52
BIG = 2.0**1000


def true_power(base: float, exponent: Fraction) -> Any:
    """Return base^exponent, to 300 bits."""
    with mp.workprec(300):
        return mpf(base) ** (mpf(exponent.numerator) / exponent.denominator)


@pytest.mark.parametrize(
    ("base", "exponent"),
    [
        (BIG, 1 + Fraction(1, 2**53)),
        (BIG, 1 - Fraction(1, 2**54)),
        (1 / BIG, 1 - Fraction(1, 2**54)),
        (1 / BIG, 1 + Fraction(1, 2**53)),
        (1 + 2.0**-10, 500_000 + Fraction(1, 2**35)),
        (1 - 2.0**-10, 500_000 - Fraction(1, 2**35)),
        (1 - 2.0**-10, 500_000 + Fraction(1, 2**35)),
        (3.0, Fraction(1, 3)),
        (1.0, Fraction(1, 7)),
    ],
)
def test_the_rounding_of_an_exponent_is_in_the_power(base: float, exponent: Fraction) -> None:
    """Float64 has b^e for an e that is up to 2⁻⁵³ of it smaller or larger."""
    found, exact = float(power(Upper(base), exponent)), true_power(base, exponent)
    share = abs(float(exponent) * mp.log(base))
    assert exact <= found <= exact * (1 + (33 + 1.6 * share) * UNIT)


def test_a_power_may_be_fifteen_units_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(0)
    for _ in range(40):
        base, exponent = rng.uniform(1.1, 2), Fraction(1, rng.randint(2, 9))
        exact = true_power(base, exponent)
        low = float(exact * (1 - 15 * UNIT))
        low = low if low <= exact * (1 - 15 * UNIT) else float(np.nextafter(low, 0))
        monkeypatch.setattr(np, "power", lambda *_, low=low: np.float64(low))
        assert exact <= float(power(Upper(base), exponent))


@given(st.floats(0, 1e300))
def test_the_first_power_is_the_number_and_its_norm_nearly(value: float) -> None:
    assert float(power(Upper(value), Fraction(1))) == value
    assert value <= float(norm((value,), 1)) <= max(value * (1 + 2.0**-49), 2.0**-1021)
    assert float(norm((0.0, 0.0), 1)) == 0


@pytest.mark.parametrize("low", [Fraction(1, 3), Fraction(100), Fraction(-7, 3)])
@pytest.mark.parametrize("sample", ["centre", "corner"])
def test_a_cell_reaches_farther_where_floats_are_coarser(low: Fraction, sample: str) -> None:
    grid = Grid(2, 1, 3, support=(low, low + 1))
    place = grid.centre if sample == "centre" else grid.corner
    ways = [
        abs(Fraction(float(place(q)[0])) - low - Fraction(q + end, 3))
        for q in range(3)
        for end in (0, 1)
    ]
    assert reach(grid, sample) == max(ways)


@pytest.mark.parametrize("cells", [3, 4, 7, 10])
@pytest.mark.parametrize("sample", ["centre", "corner"])
def test_a_cell_reaches_from_the_float_where_it_is_sampled_to_its_ends(
    cells: int, sample: str
) -> None:
    grid = Grid(2, 1, cells)
    found, half = reach(grid, sample), Fraction(1, 2 if sample == "centre" else 1)
    assert half / cells <= found <= half / cells + Fraction(1, 2**53)
    assert (found == half / cells) == (cells == 4)
    place = grid.centre if sample == "centre" else grid.corner
    for q in range(cells):
        at = Fraction(float(place(q)[0]))
        assert abs(at - Fraction(q, cells)) <= found
        assert abs(at - Fraction(q + 1, cells)) <= found


@pytest.mark.parametrize("modulus", [2.5, Fraction(1, 3), lambda h: h**0.5])
@pytest.mark.parametrize("largest", [None, 11.0])
def test_what_is_stated_comes_back_from_text_with_the_same_bound(
    modulus: Any, largest: float | None
) -> None:
    target = table()
    stated = state(target, modulus, 3, largest, equal_norm=None)
    again = Stated.of({"target": "sort", **stated.to_metadata()})
    assert again == stated
    blueprint = SimpleNamespace(metadata=stated.to_metadata())
    found = stated_error(blueprint, target)  # type: ignore[arg-type]
    direct = bound_sequence_error(target, modulus, 3, largest)
    assert found is not None
    assert direct.total <= found.total <= direct.total * (1 + 2.0**-30)
    assert Stated.of({}) is None


@pytest.mark.parametrize("estimated", [True, False])
def test_all_that_is_stated_comes_back_from_text(estimated: bool) -> None:
    stated = state(table(), 0, 1, 2.5, estimated=estimated, equal_norm=0.0)
    assert stated == Stated(
        Fraction(0), Fraction(1), Fraction(5, 2), Fraction(0), estimated=estimated
    )
    assert Stated.of(stated.to_metadata()) == stated


@pytest.mark.parametrize("p", [1, 2, 3, 3.5])
def test_a_modulus_is_stated_a_little_farther_in_few_digits(p: float) -> None:
    """By 2⁻³² to 2⁻³⁰, in 33 bits, so that h may be rounded otherwise where it is read."""
    for target in (table(), table(2, 4), table(2, 3)):
        needed: list[Fraction] = []
        bound_sequence_error(target, lambda h, to=needed: to.append(Fraction(h)) or h, p)
        stated = state(target, lambda h: h, p).modulus
        assert isinstance(stated, tuple)
        for h, (beyond, value) in zip(needed, stated, strict=True):
            assert h * (1 + Fraction(1, 2**32)) <= beyond <= h * (1 + Fraction(1, 2**30))
            assert beyond.numerator.bit_length() <= 33
            assert value == beyond


def test_a_modulus_is_taken_at_the_nearest_argument_above() -> None:
    stated = Stated(((Fraction(2), Fraction(5)), (Fraction(1, 2), Fraction(1, 3))), Fraction(2))
    third = float_above(Fraction(1, 3))
    assert [stated.at(h) for h in (0.25, 0.5, 0.75, 2.0)] == [third, third, 5, 5]
    with pytest.raises(FileFormatError, match="not stated at"):
        stated.at(2.5)


@pytest.mark.parametrize("wrong", [-1, -(2.0**-1074), inf, nan])
@pytest.mark.parametrize("name", ["largest", "equal_norm"])
def test_norms_are_finite_and_not_negative(name: str, wrong: float) -> None:
    assert bound_sequence_error(table(), 1, **{name: 0}).equal_columns >= 0
    with pytest.raises(InputError, match=f"{name}=.* must be 0 or more, and finite"):
        bound_sequence_error(table(), 1, **{name: wrong})


def test_an_exponent_is_two_unless_it_is_given_and_is_not_left_out() -> None:
    stated = state(table(), 1.0)
    assert stated.p == 2
    assert stated_error(SimpleNamespace(metadata={}), table()) is None  # type: ignore[arg-type]
    texts = stated.to_metadata()
    del texts["modulus exponent"]
    with pytest.raises(FileFormatError, match="damaged"):
        Stated.of(texts)


@pytest.mark.parametrize(
    "damage",
    [
        {"modulus": "one"},
        {"modulus": "-1/1"},
        {"modulus": "1/0"},
        {"modulus": "1/2:"},
        {"modulus": "1/2:1/2 1/2"},
        {"modulus exponent": "1/2"},
        {"modulus exponent": "x"},
        {"modulus largest": "-1/1"},
        {"modulus estimated": "no"},
        {"sample": "edge"},
        {"modulus": "1/1000:1/1"},
    ],
)
def test_damaged_statements_are_refused(damage: dict[str, str]) -> None:
    honest = state(table(), 1.0).to_metadata()
    blueprint = SimpleNamespace(metadata={**honest, **damage})
    with pytest.raises(FileFormatError):
        stated_error(blueprint, table())  # type: ignore[arg-type]
