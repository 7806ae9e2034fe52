"""The stock module: ordinary parts, the blueprint's weights, the literal module's values."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from torch import nn

from exactformer.algebra import Polynomial, Target
from exactformer.algebra.ridge import ridge_form
from exactformer.errors import ExecutionError
from exactformer.polynomials.constructions import construct
from exactformer.polynomials.constructions.scaled import scaled
from exactformer.polynomials.constructions.softmax import softmax
from exactformer.polynomials.constructions.tanh_extrapolation import Extrapolation
from exactformer.polynomials.run.literal import LiteralReadout, LiteralTransformer
from exactformer.polynomials.run.softmax import SharedAttention, SoftmaxTransformer, softmax_weights

P = Polynomial.parse("x^3 - 2 x y + 1/3")
BLUEPRINT = softmax(ridge_form(P), Fraction(2), Extrapolation(4, Fraction(1)))


def test_the_module_is_made_of_linear_layers_and_stock_attention() -> None:
    kinds = {type(part) for part in SoftmaxTransformer(BLUEPRINT).modules()}
    assert kinds == {SoftmaxTransformer, SharedAttention, nn.Linear, nn.ModuleList, LiteralReadout}


def test_stock_attention_computes_what_the_matrices_say() -> None:
    x = torch.linspace(-1, 1, 14, dtype=torch.float64).reshape(7, 2)
    stock, literal = SoftmaxTransformer(BLUEPRINT)(x), LiteralTransformer(BLUEPRINT)(x)
    assert torch.allclose(stock, literal, rtol=0, atol=1e-12)


def test_weights_are_frozen_and_named_as_in_the_module() -> None:
    module = SoftmaxTransformer(BLUEPRINT, torch.float32)
    state, weights = module.state_dict(), softmax_weights(BLUEPRINT, torch.float32)
    assert state.keys() == weights.keys()
    assert all(torch.equal(state[name], tensor) for name, (tensor, _) in weights.items())
    assert not any(parameter.requires_grad for parameter in module.parameters())
    assert "query projection" in weights["blocks.0.query.weight"][1](0, 0)


def test_a_vector_has_an_output_each() -> None:
    target = Target.coerce(["x^2", "3 x^2"])
    forms = [ridge_form(polynomial, "lattice") for polynomial in target]
    blueprint = construct("softmax", forms, Fraction(1), target)
    values = SoftmaxTransformer(blueprint)(torch.tensor([[0.5]], dtype=torch.float64))
    assert values.shape == (1, 2)
    assert torch.allclose(values, torch.tensor([[0.25, 0.75]]).double(), rtol=0, atol=1e-12)


def test_gradients_flow_to_the_input() -> None:
    x = torch.tensor([[0.5, -0.25]], dtype=torch.float64, requires_grad=True)
    SoftmaxTransformer(BLUEPRINT)(x).backward()
    assert x.grad is not None
    assert torch.allclose(x.grad, torch.tensor([[0.75 + 0.5, -1.0]]).double(), rtol=0, atol=1e-6)


def test_blocks_of_another_rule_are_refused() -> None:
    with pytest.raises(ExecutionError, match="not plain softmax"):
        SoftmaxTransformer(scaled(ridge_form(P), Fraction(2)))
