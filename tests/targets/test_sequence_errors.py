from fractions import Fraction
from math import sqrt

import pytest

import exactformer as ef
from exactformer.errors import InputError
from exactformer.targets import measure_sequence, sequence_map


@pytest.fixture(scope="module")
def model():
    f = sequence_map("mean-subtract")
    return ef.compile_sequence(f, tokens=2, dim=1, delta=Fraction(1, 4), executor="fused")


def test_the_distance_of_a_zero_model_is_the_moment_of_the_map():
    """|x₁| + |x₂| has mean 1 and x₁² + x₂² mean 2/3 on the unit square."""
    zero = ef.compile_sequence({}, tokens=2, dim=1, delta=Fraction(1, 4))
    found = measure_sequence(zero, sequence_map("identity"), samples=40_000, orders=(1, 2))
    assert abs(found[1].value - 1) <= 3 * found[1].standard_error
    assert abs(found[2].value - sqrt(2 / 3)) <= 3 * found[2].standard_error
    assert found[1].standard_error == pytest.approx(sqrt(1 / 6 / 40_000), rel=0.02)
    # Var(x₁² + x₂²) = 8/45, through the root: over 2 d₂.
    expected = sqrt(8 / 45 / 40_000) / (2 * sqrt(2 / 3))
    assert found[2].standard_error == pytest.approx(expected, rel=0.02)


def test_the_support_is_where_inputs_are_drawn():
    zero = ef.compile_sequence({}, tokens=2, dim=1, delta=Fraction(1, 4), support=(2, 4))
    (found,) = measure_sequence(zero, sequence_map("identity"), 20_000, orders=(1,)).values()
    assert abs(found.value - 6) <= 3 * found.standard_error


def test_samples_are_counted_and_their_seed_decides(model):
    told = []
    f = sequence_map("mean-subtract")
    first = measure_sequence(model, f, 5_000, seed=1, advance=told.append)
    assert told[-1] == 5_000
    assert first == measure_sequence(model, f, 5_000, seed=1)
    assert first != measure_sequence(model, f, 5_000, seed=2)
    with pytest.raises(InputError, match="two samples"):
        measure_sequence(model, f, 1)
