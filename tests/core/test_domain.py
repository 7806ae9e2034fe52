"""Balls and boxes: how far a linear form reaches, exactly."""

from dataclasses import replace
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import exactformer as ef
from exactformer.core.domain import Ball, Box, as_domain, root_above
from exactformer.errors import FileFormatError, InputError, OutsideDomainError
from exactformer.polynomials.files import load_blueprint
from tests.cases.forged import File
from tests.examples import examples

numbers = st.fractions(-3, 3, max_denominator=8)


@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=4))
@settings(max_examples=examples(50))
def test_reach_is_the_largest_value_on_a_box_and_a_bound_on_a_ball(sides) -> None:
    box = Box(tuple(c for c, _, _ in sides), tuple(abs(h) + 1 for _, h, _ in sides))
    row = [(j, f) for j, (_, _, f) in enumerate(sides)]
    corner = [c + (h if f > 0 else -h) for (c, _, f), h in zip(sides, box.half_widths, strict=True)]
    value = sum(f * (x - box.offset(j)) for (j, f), x in zip(row, corner, strict=True))
    assert box.reach(row) == abs(value)
    ball = Ball(box.radius, box.centre)
    assert ball.reach(row) >= box.reach(row)
    assert ball.reach(row) ** 2 >= ball.radius**2 * sum(f * f for _, f in row)
    assert box.radius**2 >= sum(h * h for h in box.half_widths)


@given(st.fractions(min_value=0), st.integers(-200, 200))
def test_roots_are_rounded_up_to_sixty_four_bits(number: Fraction, exponent: int) -> None:
    for square in (number * Fraction(2) ** exponent, number * number):
        root = root_above(square)
        assert root * root >= square
        assert (root * (1 - Fraction(1, 2**62))) ** 2 <= square
    assert root_above(number * number) == number


def test_a_root_is_exact_only_where_both_parts_are_squares() -> None:
    assert root_above(Fraction(2)) == Fraction(isqrt(2 * 4**64) + 1, 2**64)
    for square in (Fraction(4, 3), Fraction(3, 4), Fraction(2, 3), Fraction(8)):
        assert root_above(square) ** 2 > square


def test_domains_are_blown_up_from_their_centres() -> None:
    half = (Fraction(1, 2), Fraction(3))
    assert Ball(Fraction(2), half).enlarged(Fraction(3)) == Ball(Fraction(6), half)
    sides = (Fraction(3, 2), Fraction(9))
    assert Box(half, half).enlarged(Fraction(3)) == Box(half, sides)


def test_domains_in_words() -> None:
    unit = (Fraction(0), Fraction(1))
    assert str(Box.of([unit] * 12 + [(Fraction(-1, 2), Fraction(3))])) == "[0, 1]¹² × [-1/2, 3]"
    assert str(as_domain(Fraction(3, 2))) == "‖x‖ ≤ 3/2"
    assert str(Ball(Fraction(2), (Fraction(1), Fraction(0)))) == "‖x − (1, 0)‖ ≤ 2"


def test_points_are_judged_by_the_domain() -> None:
    model = ef.compile("x y", domain=[(10, 11), (-1, 3)])
    assert float(model([10.0, 3.0])) == 30
    for outside in ([9.99, 0.0], [10.5, 3.001], [0.0, 0.0]):
        with pytest.raises(OutsideDomainError):
            model(outside)
    ball = ef.compile("x y", domain=Ball(Fraction(1, 2), (Fraction(5), Fraction(5))))
    assert float(ball([5.0, 5.5])) == pytest.approx(27.5)
    with pytest.raises(OutsideDomainError):
        ball([5.4, 5.4])
    marked = ef.compile("x; y", domain=[(0, 1), (0, 1)], outside="nan")
    assert np.isnan(marked([[2.0, 0.0], [1.0, 0.0]]).numpy()).tolist() == [[True] * 2, [False] * 2]


def test_a_box_survives_a_file(tmp_path) -> None:
    model = ef.compile("x^2; x y", domain=[("1/3", 2), (0, 1)])
    model.save(tmp_path / "box.safetensors")
    blueprint = load_blueprint(tmp_path / "box.safetensors")
    assert blueprint == model.blueprint
    assert blueprint.vector
    assert blueprint.domain == Box.of([(Fraction(1, 3), Fraction(2)), (Fraction(0), Fraction(1))])


@pytest.mark.parametrize(
    ("domain", "words"),
    [
        ([(0, 1)], "1 intervals for 2 variables"),
        ([(0, 1), (1, 0)], "interval of y is empty"),
        ([(0, 1), (2**40, 2**40 + 1)], "too far from 0"),
        ([(0, float("inf")), (0, 1)], "inf is not a finite number"),
        ([(0, "1e99999999"), (0, 1)], "reasonable size"),
        ("ab", "list of intervals"),
    ],
)
def test_bad_domains_are_refused(domain, words: str) -> None:
    with pytest.raises(InputError, match=words):
        ef.compile("x y", domain=domain)
    with pytest.raises(InputError, match="not both"):
        ef.compile("x y", 2, domain=[(0, 1), (0, 1)])


def test_a_file_with_an_impossible_domain_is_refused(tmp_path) -> None:
    ef.compile("x^2", radius=1).save(tmp_path / "model")
    file = File.read(tmp_path / "model")
    for domain in (
        {"is": "Box", "centre": [], "half_widths": ["1/1"]},
        {"is": "Box", "centre": ["0/1"], "half_widths": ["-1/1"]},
        {"is": "Ball", "centre": ["0/1", "0/1"], "radius": "1/1"},
        {"is": "Box", "centre": ["0/1"], "half_widths": ["1/1", "1/1"]},
    ):
        content = {**file.content, "model": {**file.content["model"], "domain": domain}}
        replace(file, content=content).written(tmp_path / "model")
        with pytest.raises(FileFormatError):
            load_blueprint(tmp_path / "model")


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Box((0, 0), (1, -1)), "must be positive"),
        (lambda: Box((0,), (0,)), "must be positive"),
        (lambda: Ball(0), "must be positive"),
        (lambda: Ball(Fraction(-1, 2)), "must be positive"),
        (lambda: Box((), ()), "at least one"),
        (lambda: Box((0,), (1, 1)), "2 for 1"),
        (lambda: Ball(0.5), "is not a Fraction"),
        (lambda: Ball("1"), "is not a Fraction"),
        (lambda: Ball(True), "is not a Fraction"),
        (lambda: Ball(1, 3), "tuple of rational numbers"),
        (lambda: Ball(1, "12"), "tuple of rational numbers"),
        (lambda: Box((0.1,), (1,)), "is not a Fraction"),
    ],
)
def test_what_is_no_domain_cannot_be_made(make: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        make()


def test_integers_become_fractions_which_are_never_divided_as_floats() -> None:
    box, ball = Box([0, np.int64(3)], (1, 2)), Ball(np.int64(2), [1])
    assert box == Box((Fraction(0), Fraction(3)), (Fraction(1), Fraction(2)))
    for number in (*box.centre, *box.half_widths, ball.radius, *ball.centre):
        assert type(number) is Fraction
        assert type(number.numerator) is int
    assert hash(box) == hash(Box((0, 3), (1, 2)))


@pytest.mark.parametrize(
    ("domain", "problem"),
    [
        (Box((0,), (1,)), "1 sides for 2 variables"),
        (Ball(1, (0, 0, 0)), "3 coordinates for 2 variables"),
        (Ball(Fraction(2) ** 501), "beyond 2"),
        (Box((0, 0), (1, Fraction(1, 2**501))), "beyond 2"),
        (Ball(1, (0, 2**17)), "interval of y lies too far"),
        (Box((2**17, 0), (1, 1)), "interval of x lies too far"),
    ],
)
def test_domain_objects_keep_to_the_limits_of_lists(domain: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        ef.compile("x + y", domain=domain)


def test_numpy_integers_are_read_exactly() -> None:
    """Inside a Fraction they would overflow."""
    assert ef.compile("x^9", np.int64(10**6)).certificate == ef.compile("x^9", 10**6).certificate
    sides = [(np.int64(0), np.int32(1000003))]
    assert (
        ef.compile("x^9", domain=sides).certificate
        == ef.compile("x^9", domain=[(0, 1000003)]).certificate
    )


@pytest.mark.parametrize(
    "sides",
    [
        np.array([[0, 1], [-0.1, 2]]),
        np.array([[0, 1], [-0.1, 2]], dtype=np.float32),
        torch.tensor([[0, 1], [-0.1, 2]]),
        [(np.float32(0), torch.tensor(1)), (np.float32(-0.1), np.float16(2))],
    ],
    ids=["float64", "float32", "torch", "mixed"],
)
def test_the_range_of_an_array_or_tensor_is_a_domain(sides: Any) -> None:
    domain = [tuple(float(end) for end in side) for side in sides]
    expected = ef.compile("x y", domain=domain).certificate
    assert ef.compile("x y", domain=sides).certificate == expected


@pytest.mark.parametrize("radius", [np.float32(0.1), np.longdouble(0.5), torch.tensor(0.1)])
def test_a_radius_of_another_format_is_the_number_it_is(radius: Any) -> None:
    assert ef.compile("x", radius).certificate == ef.compile("x", float(radius)).certificate


@pytest.mark.parametrize("radius", [np.bool_(True), torch.tensor([1.0, 2.0]), np.float32("nan")])
def test_what_is_no_number_is_no_radius(radius: Any) -> None:
    with pytest.raises(InputError, match="positive finite number"):
        ef.compile("x", radius)
