"""Functions that write into what they are given: their values count, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import exactformer as ef
from exactformer import rasp
from exactformer.sequences.measure import estimate_modulus
from exactformer.targets import Coupling, sine_family
from exactformer.theory import pod, rnn_complexity


def halved(x: Any) -> Any:
    """x/2, written into x."""
    x *= 0.5
    return x


def product(u: Any, v: Any) -> Any:
    """u v, with u lost."""
    both = u * v
    u *= 0
    return both


def test_a_function_of_points() -> None:
    model = ef.compile(halved, domain=[(0, 1)], tolerance=1e-12)
    assert float(model([0.5])) == 0.25
    assert model.measure(halved).value <= 1e-12


def test_a_map_of_sequences() -> None:
    def centred(x: Any) -> Any:
        x -= x.mean(axis=0)
        return x

    maps = centred, lambda x: x - x.mean(axis=0)
    models = [ef.compile_sequence(f, tokens=2, dim=1, delta="1/4") for f in maps]
    assert models[0].table.values == models[1].table.values
    measured = [model.measure(f) for model, f in zip(models, maps, strict=True)]
    assert measured[0] == measured[1]
    grid = models[0].table.grid
    moduli = [estimate_modulus(f, grid, 2, "centre", samples=50) for f in maps]
    assert moduli[0] == moduli[1]


@pytest.mark.parametrize("as_tensor", [False, True])
def test_the_parts_of_a_coupling(as_tensor: bool) -> None:
    writing = Coupling(halved, halved, product, tau=3)
    plain = Coupling(lambda h: h * 0.5, lambda u: u * 0.5, lambda u, v: u * v, tau=3)
    x = np.random.default_rng(0).uniform(size=(5, 3))
    given = torch.from_numpy(x.copy()) if as_tensor else x.copy()
    wanted = plain(torch.from_numpy(x) if as_tensor else x)
    assert np.array_equal(np.asarray(writing(given)), np.asarray(wanted))
    assert np.array_equal(np.asarray(given), x)
    models = [ef.compile_coupling(target, head_dim=1, ff_width=16) for target in (writing, plain)]
    bounds = [float(model.certificate.bound()) for model in models]
    assert bounds[0] == bounds[1]
    assert len({model.measure(samples=50).value for model in models}) == 1


def test_kernels() -> None:
    found, wanted = pod(product, max_nodes=64), pod(lambda u, v: u * v, max_nodes=64)
    assert np.array_equal(found.singular_values, wanted.singular_values)
    assert np.array_equal(found.left(0.3), wanted.left(0.3))

    def falling(lag: Any) -> Any:
        return np.exp(np.negative(lag, out=lag))

    assert rnn_complexity(falling) == rnn_complexity(lambda lag: np.exp(-lag))


def test_functions_of_columns_leave_the_data() -> None:
    X = np.random.default_rng(0).uniform(0.5, 2, (200, 1))
    before, y = X.copy(), np.sqrt(X[:, 0])

    def root(x: Any) -> Any:
        return np.sqrt(x, out=x)

    law = ef.PolynomialAttentionRegressor(1, features=[root]).fit(X, y)
    assert np.array_equal(X, before)
    assert np.abs(law.predict(X) - y).max() < 1e-9
    assert np.array_equal(X, before)


def test_a_target_with_another_part_is_still_its_own() -> None:
    """Copies are handed to functions; the functions themselves stay the user's."""
    target = replace(sine_family([1.0], tau=2), f=halved)
    assert target.f is halved


def test_functions_that_are_not_the_same_twice_have_no_table() -> None:
    random = np.random.default_rng(0)
    with pytest.raises(ef.ExactformerError, match="a map has one value at each point"):
        ef.compile_sequence(
            lambda x: x + random.normal(size=x.shape), tokens=2, dim=1, delta="1/4", positional=True
        )
    coin = rasp.Map(lambda token: random.integers(10**9), rasp.tokens)
    with pytest.raises(ef.ExactformerError, match="so it has no table"):
        ef.compile_program(coin, vocabulary="ab", max_length=2)
