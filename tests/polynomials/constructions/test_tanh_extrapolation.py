"""Richardson's weights: which powers cancel exactly, and what is left of the product."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf, tanh

from exactformer.errors import InputError
from exactformer.polynomials.constructions.tanh_extrapolation import Extrapolation
from tests.examples import examples

SPANS = st.sampled_from(
    [Fraction(1, 16), Fraction(3, 4), Fraction(13, 8), Fraction(5), Fraction(16)]
)


@given(st.integers(1, 12), SPANS)
@settings(max_examples=examples(30))
def test_weights_keep_the_product_and_cancel_every_power_they_can(
    heads: int, span: Fraction
) -> None:
    chosen = Extrapolation(heads, span)
    pairs = list(zip(chosen.nodes, chosen.weights, strict=True))
    assert sum(c * e for e, c in pairs) == 2  # Σ c tanh(εz/2) = z + …
    for j in range(1, heads):
        assert sum(c * e ** (2 * j + 1) for e, c in pairs) == 0
    assert sum(c * e ** (2 * heads + 1) for e, c in pairs) != 0


@given(st.integers(1, 12), SPANS, st.integers(-1000, 1000))
@settings(max_examples=examples(60))
def test_what_is_left_obeys_the_closed_form_and_comes_near_it(
    heads: int, span: Fraction, thousandths: int
) -> None:
    """|Σ c tanh(εz/2) − z| ≤ |z|·Π (εz)²/(π² + (εz)²), and the first partial fraction is 8/π² of it."""
    chosen = Extrapolation(heads, span)
    with mp.workdps(300):  # 12 heads at z = 1/1000 leave 1e-130 and less
        z = mpf(thousandths) / 1000
        nodes = [mpf(e.numerator) / e.denominator for e in chosen.nodes]
        weights = [mpf(c.numerator) / c.denominator for c in chosen.weights]
        left = abs(sum(c * tanh(e * z / 2) for e, c in zip(nodes, weights, strict=True)) - z)
        bound = abs(z)
        for e in nodes:
            bound *= (e * z) ** 2 / (mp.pi**2 + (e * z) ** 2)
        assert left <= bound
        assert left >= bound * 8 / mp.pi**2
        if z == 1:
            assert chosen.truncation() == pytest.approx(float(bound))


@pytest.mark.parametrize(("heads", "span"), [(0, Fraction(1)), (3, Fraction(0)), (3, Fraction(-1))])
def test_no_heads_and_no_span_are_refused(heads: int, span: Fraction) -> None:
    with pytest.raises(InputError, match="at least one head and a positive span"):
        Extrapolation(heads, span)


def test_heads_that_would_coincide_are_refused() -> None:
    with pytest.raises(InputError, match="more room"):
        Extrapolation(12, Fraction(1, 2**15))


def test_metadata_restores_the_extrapolation() -> None:
    chosen = Extrapolation(7, Fraction(45, 64))
    assert Extrapolation.from_metadata(chosen.to_metadata()) == chosen
    for damaged in ({}, {"heads": "x", "span": "1"}, {"heads": "2", "span": "1/0"}):
        with pytest.raises(InputError, match="lacks the extrapolation settings"):
            Extrapolation.from_metadata(damaged)
