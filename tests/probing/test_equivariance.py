"""f(XP) = f(X)P: what has it passes, what has not is refused with the pair that shows it."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import exactformer as ef
from exactformer.errors import InputError


def encoder(**options):
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **options)


class WithPositions(nn.Module):
    def __init__(self, strength=1.0):
        super().__init__()
        self.inner, self.places = encoder(dropout=0.0), nn.Parameter(strength * torch.eye(5, 8))

    def forward(self, x):
        return self.inner(x + self.places)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_transformer_without_positions_is_equivariant_up_to_rounding(dtype):
    found = ef.check_equivariance(encoder().to(dtype), 5, 8)
    assert found
    assert 0 < found.deviation < 100 * torch.finfo(dtype).eps * found.size
    assert "no violation" in str(found)


@pytest.mark.parametrize("strength", [1.0, 1e-2])
def test_positions_break_it_and_the_pair_shows_how(strength):
    module = WithPositions(strength)
    found = ef.check_equivariance(module, 5, 8)
    assert not found
    x = torch.tensor(found.input, dtype=torch.float32)
    order = list(found.permutation)
    with torch.no_grad():
        difference = (module.eval()(x[None, order]) - module(x[None])[:, order]).abs().max()
    assert float(difference) == pytest.approx(found.deviation, rel=1e-3)
    assert "not equivariant" in str(found)
    assert found.to_dict()["permutation"] == order


def test_dropout_rests_while_the_question_is_asked_and_is_back_afterwards():
    module = encoder(dropout=0.5)
    module.norm1.eval()
    assert ef.check_equivariance(module, 5, 8)
    assert module.training
    assert module.dropout.training
    assert not module.norm1.training


def test_a_map_that_answers_at_random_is_no_subject():
    with pytest.raises(InputError, match="differently each time"):
        ef.check_equivariance(lambda x: x + torch.rand_like(x), 3, 2)


def test_token_ids_and_outputs_in_the_manner_of_hugging_face():
    torch.manual_seed(0)
    embedding = nn.Embedding(11, 8)

    def model(ids):
        return SimpleNamespace(last_hidden_state=embedding(ids).cumsum(dim=1))

    ids = np.random.default_rng(0).integers(0, 11, size=(20, 6))
    assert not ef.check_equivariance(model, inputs=ids)
    assert ef.check_equivariance(lambda ids: (embedding(ids), "more"), inputs=ids)


def test_plain_functions_of_arrays():
    assert ef.check_equivariance(lambda x: x - x.mean(1, keepdims=True), 4, 2)
    assert not ef.check_equivariance(lambda x: np.sort(np.asarray(x), axis=1), 4, 1)


class Exact:
    """x ↦ x − mean(x) in rationals, off by a hair at the last token."""

    def __init__(self, hair):
        self.hair = hair

    def exact(self, x):
        values = x - sum(x) / Fraction(len(x))
        values[-1] += self.hair
        return values


def test_in_exact_arithmetic_the_least_difference_is_a_violation():
    assert ef.check_equivariance(Exact(Fraction(0)), 4, 2, trials=10).deviation == 0
    found = ef.check_equivariance(Exact(Fraction(1, 10**40)), 4, 2, trials=10)
    assert not found
    assert found.exact
    assert found.deviation == pytest.approx(1e-40)
    assert found.to_dict()["permuted_output"][0][0].count("/") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give the shape"),
        ({"tokens": 3, "dim": 2, "trials": 0}, "at least one trial"),
        ({"inputs": np.zeros((3,))}, "shape"),
    ],
)
def test_unclear_questions_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        ef.check_equivariance(lambda x: x, **arguments)


def test_a_map_that_loses_tokens_is_refused():
    with pytest.raises(InputError, match=r"returned shape \(100, 2, 2\) for 100 inputs of 3"):
        ef.check_equivariance(lambda x: x[:, 1:], 3, 2)
    with pytest.raises(InputError, match="not numbers"):
        ef.check_equivariance(lambda x: x / 0 - x / 0, 3, 2)
