"""The modules compute what their blueprint says, whatever surrounds them."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
import torch

from exactformer.algebra.ridge import ridge_form
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions import CONSTRUCTIONS
from exactformer.polynomials.constructions.scaled import scaled
from exactformer.polynomials.proof.symbolic import run_symbolic
from exactformer.polynomials.run.closed_form import fuse
from exactformer.polynomials.run.closed_form_module import FusedTransformer
from exactformer.polynomials.run.literal import LiteralTransformer, rounded_weights
from tests.cases.margins import ball_points
from tests.cases.polynomials import random_polynomial

EXECUTORS = ("literal", "fused")


def module_of(blueprint: Blueprint, executor: str, dtype: torch.dtype) -> torch.nn.Module:
    if executor == "literal":
        return LiteralTransformer(blueprint, dtype)
    return FusedTransformer(fuse(run_symbolic(blueprint, blueprint.radius)), dtype)


def example(construction: str = "scaled") -> tuple[Blueprint, np.ndarray]:
    p = random_polynomial(random.Random(3), 3, 4, "dense")
    blueprint = CONSTRUCTIONS[construction](ridge_form(p), Fraction(2))
    return blueprint, ball_points(np.random.default_rng(0), blueprint, 20)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("inner", [torch.bfloat16, torch.float16])
def test_autocast_does_not_lower_the_precision(executor: str, inner: torch.dtype) -> None:
    """Autocast would round products to bfloat16 behind the certificate's back."""
    blueprint, points = example()
    module = module_of(blueprint, executor, torch.float32)
    x = torch.from_numpy(points).float()
    expected = module(x)
    with torch.autocast("cpu", dtype=inner):
        assert torch.equal(module(x), expected)
        assert torch.get_autocast_dtype("cpu") is inner


def test_every_tensor_of_the_literal_module_is_a_matrix_of_the_blueprint() -> None:
    """So that comparing the blueprint's matrices compares all there is."""
    for construction in CONSTRUCTIONS:
        blueprint, _ = example(construction)
        module = LiteralTransformer(blueprint)
        paths = {
            path.removeprefix("embedding.").replace("heads.", "attention.heads.")
            for path in rounded_weights(blueprint, torch.float64)
        }
        assert set(module.state_dict()) == paths
        assert {name for name, _ in module.named_buffers()} <= paths


@pytest.mark.parametrize("construction", CONSTRUCTIONS)
def test_fused_and_literal_agree_with_each_other_and_with_gradients(construction: str) -> None:
    blueprint, points = example(construction)
    gradients = []
    for executor in EXECUTORS:
        x = torch.from_numpy(points).requires_grad_(True)
        values = module_of(blueprint, executor, torch.float64)(x)
        (gradient,) = torch.autograd.grad(values.sum(), x)
        gradients.append((values.detach(), gradient))
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # torch's own
@pytest.mark.parametrize("executor", EXECUTORS)
def test_functional_derivatives_work(executor: str) -> None:
    blueprint, points = example()
    module = module_of(blueprint, executor, torch.float64)
    x = torch.from_numpy(points[:3])

    def value(point: torch.Tensor) -> torch.Tensor:
        return module(point[None])[0]

    forward = torch.func.vmap(torch.func.jacfwd(value))(x)
    backward = torch.func.vmap(torch.func.jacrev(value))(x)
    assert torch.allclose(forward, backward)


def test_gradients_are_those_of_the_polynomial() -> None:
    p = random_polynomial(random.Random(5), 2, 3, "dense")
    blueprint = scaled(ridge_form(p), Fraction(2))
    points = ball_points(np.random.default_rng(1), blueprint, 10)
    step = 1e-6
    for executor in EXECUTORS:
        x = torch.from_numpy(points).requires_grad_(True)
        (gradient,) = torch.autograd.grad(module_of(blueprint, executor, torch.float64)(x).sum(), x)
        for i in range(2):
            shift = np.eye(2)[i] * step
            slope = (p.evaluate(points + shift) - p.evaluate(points - shift)) / (2 * step)
            np.testing.assert_allclose(gradient[:, i].numpy(), slope, rtol=1e-6, atol=1e-6)
