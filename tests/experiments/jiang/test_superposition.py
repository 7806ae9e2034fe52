"""Appendix A.2: superpositions as couplings, exactly; and what its proof leaves out."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import exactformer as ef
from exactformer.errors import InputError
from exactformer.experiments.jiang.superposition import (
    Superposition,
    density_coupling,
    ridge_superposition,
)
from tests.examples import examples

ROUND = np.finfo(float).eps


@given(st.lists(st.integers(-3, 3), min_size=6, max_size=6), st.integers(0, 1000))
@settings(max_examples=examples(25))
def test_any_polynomial_map_of_two_tokens_is_a_coupling(coefficients, seed):
    a, b, c, d, e, g = coefficients
    texts = [f"{a} x1 x2 + {b} x1^3 + {c} x2", f"{d} x1 x2^2 + {e} x1^2 + {g}"]
    target = density_coupling(ridge_superposition(texts))
    x = target.sample(50, seed)
    u, v = x[:, 0], x[:, 1]
    wanted = np.stack([a * u * v + b * u**3 + c * v, d * u * v**2 + e * u**2 + g], axis=-1)
    assert np.abs(target(x) - wanted).max() <= 2000 * ROUND


def test_products_of_three_tokens():
    target = density_coupling(ridge_superposition(["x1 x2 x3", "x3^2", "x1 - x2"]), (-1.0, 0.5))
    x = target.sample(200)
    wanted = np.stack([x.prod(axis=1), x[:, 2] ** 2, x[:, 0] - x[:, 1]], axis=-1)
    assert np.abs(target(x) - wanted).max() < 1e-13


def test_superpositions_that_are_no_polynomials():
    """sin(x₁ + 2x₂) and exp(−x₁ − 2x₂) + |√x₁ − x₂²|."""
    superposition = Superposition(
        inner=((lambda x: x, lambda x: 2 * x), (np.sqrt, lambda x: -(x**2))),
        outer=((np.sin, lambda z: 0 * z), (lambda z: np.exp(-z), np.abs)),
    )
    target = density_coupling(superposition)
    x = target.sample(200)
    u, v = x.T
    wanted = np.stack([np.sin(u + 2 * v), np.exp(-u - 2 * v) + np.abs(np.sqrt(u) - v**2)], axis=-1)
    assert np.abs(superposition(x) - wanted).max() < 1e-15
    # Adding 2 to x₁ and taking it off again costs a rounding of 2, which the square root steepens.
    assert np.abs(target(x) - wanted).max() <= 20 * ROUND / np.sqrt(u.min())


def test_the_parts_are_those_of_the_proof():
    superposition = ridge_superposition(["x1 x2", "x1"])
    target = density_coupling(superposition)
    tau, terms = 2, len(superposition.inner)
    weights = target.attention(target.sample(3))
    assert np.abs(weights - (np.ones((2, 2)) + np.eye(2)) / (tau + 1)).max() < ROUND
    values = target.f(target.encoded(target.sample(1)))
    assert values.shape == (1, tau, tau * terms + 1)
    slots = values[0, :, :-1].reshape(tau, terms, tau)
    assert (slots[0, :, 1] == 0).all()
    assert (slots[1, :, 0] == 0).all()
    assert values[0, :, -1].tolist() == [1.0, 2.0]


def test_the_coupling_of_a_superposition_compiles_into_a_transformer():
    """x ↦ (sin(x₁ + 2x₂), cos(x₁ + 2x₂)) by a head of dimension 2 and F on a grid in R³."""
    superposition = Superposition(((lambda x: x, lambda x: 2 * x),), ((np.sin,), (np.cos,)))
    target = density_coupling(superposition)
    errors = []
    for side in (8, 16, 32):
        model = ef.compile_coupling(target, head_dim=2, ff_width=side**3)
        errors.append(model.measure(samples=200).value)
        assert errors[-1] <= model.certificate.bound()
        assert model.certificate.rounded().parts["truncation"] < 1e-12
    assert errors[2] < 0.3 * errors[1] < 0.1 * errors[0]
    assert errors[2] < 0.01


def test_tensors_are_taken_as_arrays_are():
    target = density_coupling(ridge_superposition(["x1 x2", "x1^2"]))
    x = target.sample(20)
    assert np.abs(target(torch.tensor(x)).numpy() - target(x)).max() < 1e-14


def test_with_one_slot_for_each_q_as_printed_no_outer_function_exists():
    """(26) with ψ_{q,s}(x) = x, H = x₁ + x₂: at t = 1 F is shown 2x₁ + x₂, which does not tell."""
    first, second = np.array([0.5, 0.0]), np.array([0.0, 1.0])

    def shown_at_first_token(x):
        return x[0] + x.sum()  # (27): f(x(t)) + Σ_s f(x(s))

    assert shown_at_first_token(first) == shown_at_first_token(second)
    assert first.sum() != second.sum()
    target = density_coupling(ridge_superposition(["x1 + x2", "x1 + x2"]))
    assert target(first) == pytest.approx([0.5, 0.5])
    assert target(second) == pytest.approx([1.0, 1.0])


def test_what_is_no_superposition_is_refused():
    with pytest.raises(InputError, match="inner function for all 2 tokens"):
        Superposition(((np.sin,),), ((np.sin,), (np.sin,)))
    with pytest.raises(InputError, match="2 outer functions"):
        Superposition(((np.sin,), (np.sin,)), ((np.sin,),))
