"""Exact rounding agrees bit for bit with NumPy's and torch's conversions."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.core.formats import FORMATS, FloatFormat, float_format
from exactformer.errors import InputError
from tests.examples import examples

TORCH = {name: getattr(torch, name) for name in FORMATS}
NUMPY = {"float64": np.float64, "float32": np.float32, "float16": np.float16}


def through_torch(value: float, name: str) -> Fraction | None:
    """Round a float64 by torch; None for an overflow."""
    rounded = torch.tensor([value], dtype=torch.float64).to(TORCH[name]).double().item()
    return None if np.isinf(rounded) else Fraction(rounded)


@st.composite
def doubles(draw: st.DrawFn, target: FloatFormat) -> float:
    """float64 numbers around every feature of the format: subnormals, ties, the largest."""
    kind = draw(st.sampled_from(["any", "tie", "subnormal", "largest"]))
    if kind == "any":
        return draw(st.floats(allow_nan=False, allow_infinity=False))
    if kind == "largest":
        ulps = draw(st.integers(-4, 4))
        edge = target.largest + Fraction(2) ** (target.high - target.precision) * ulps / 2
        return float(min(edge, FORMATS["float64"].largest))
    low = target.low - target.precision if kind == "subnormal" else target.low
    high = target.low + 3 if kind == "subnormal" else target.high
    significand = draw(st.integers(0, 2 ** (target.precision + 1)))  # one bit more: ties
    exponent = draw(st.integers(low, high)) - target.precision
    value = Fraction(significand) * Fraction(2) ** exponent
    nudge = draw(st.sampled_from([0, 1, -1]))
    nearest = float(min(value, FORMATS["float64"].largest))
    return float(np.nextafter(nearest, nudge * np.inf)) if nudge else nearest


@pytest.mark.spread(2)
@pytest.mark.parametrize("name", FORMATS)
def test_rounding_agrees_with_torch_bit_for_bit(name: str) -> None:
    target = FORMATS[name]

    @given(doubles(target))
    @settings(max_examples=examples(400))
    def check(value: float) -> None:
        assert target.round(Fraction(value)) == through_torch(value, name)
        assert target.round(Fraction(-value)) == through_torch(-value, name)

    # torch goes from float64 to the half formats by way of float32; keep to what float32 holds.
    if name in ("float64", "float32"):
        check()


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_half_formats_agree_with_torch_on_every_float32(name: str) -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, size=4000, dtype=np.uint32)
    halves = (
        np.arange(0, 2**16, 13, dtype=np.uint32) << 16
    )  # exact bfloat16, then ties and neighbours
    patterns = np.concatenate([bits, halves, halves + 0x8000, halves + 0x8001, halves + 0x7FFF])
    if name == "float16":
        every = np.arange(2**16, dtype=np.uint16)[::7].view(np.float16).astype(np.float32)
        ties = (every.view(np.uint32) + np.uint32(1 << 12)).astype(np.uint32)
        patterns = np.concatenate([patterns, every.view(np.uint32), ties, ties + 1, ties - 1])
    values = patterns.view(np.float32)
    values = values[np.isfinite(values)]
    rounded = torch.from_numpy(values).to(TORCH[name]).double().numpy()
    for value, expected in zip(values.tolist(), rounded.tolist(), strict=True):
        ours = FORMATS[name].round(Fraction(value))
        assert ours == (None if np.isinf(expected) else Fraction(expected)), value


@pytest.mark.parametrize("name", NUMPY)
def test_rounding_of_rationals_is_numpys_rounding_of_the_quotient(name: str) -> None:
    """p/q in float64 is correctly rounded by Python; NumPy rounds strings correctly as well."""
    rng = random.Random(3)
    for _ in range(400):
        value = Fraction(rng.randint(-(10**6), 10**6), rng.randint(1, 10**6))
        if name == "float64":
            assert FORMATS[name].round(value) == Fraction(value.numerator / value.denominator)
        else:  # the nearest is no farther than either neighbour
            nearest = FORMATS[name].round(value)
            assert nearest is not None
            own = NUMPY[name](float(nearest))
            assert Fraction(float(own)) == nearest
            for side in (-np.inf, np.inf):
                neighbour = Fraction(float(np.nextafter(own, NUMPY[name](side))))
                assert abs(nearest - value) <= abs(neighbour - value)


@pytest.mark.parametrize("name", FORMATS)
def test_formats_know_their_limits(name: str) -> None:
    target, info = FORMATS[name], torch.finfo(TORCH[name])
    assert float(target.largest) == info.max
    assert target.tiny == (2.0**-25 if name == "float16" else info.tiny)
    assert target.unit == info.eps / 2
    half = Fraction(2) ** (target.high - target.precision)
    assert target.round(target.largest + half - Fraction(1, 10**9)) == target.largest
    assert target.round(target.largest + half) is None  # the tie goes up, and out
    smallest = Fraction(2) ** (target.low - target.precision + 1)
    assert target.round(smallest / 2) == 0
    assert target.round(smallest * Fraction(501, 1000)) == smallest
    assert target.round(Fraction(0)) == 0


@given(st.fractions(), st.sampled_from(sorted(FORMATS)))
@settings(max_examples=examples(200))
def test_the_standard_model_holds(value: Fraction, name: str) -> None:
    target = FORMATS[name]
    rounded = target.round(value)
    if rounded is not None:
        assert abs(rounded - value) <= Fraction(target.unit) * abs(value) + Fraction(target.tiny)
        assert target.round(rounded) == rounded
        assert target.round(-value) == -rounded


def test_formats_are_found_by_any_name() -> None:
    assert float_format(torch.bfloat16) is FORMATS["bfloat16"]
    assert float_format(np.dtype(np.float32)) is FORMATS["float32"]
    assert float_format("float16") is FORMATS["float16"]
    for wrong in (torch.int64, np.longdouble, "half", None, 3):
        with pytest.raises(InputError):
            float_format(wrong)
