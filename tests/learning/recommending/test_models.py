"""The head in a basis and the gated network: what each can read, and what the score's spectrum is."""

from dataclasses import replace

import numpy as np
import pytest

from exactformer.learning.recommending import samples
from exactformer.learning.recommending.gru import fit_gated
from exactformer.learning.recommending.heads import fit_head
from exactformer.learning.recommending.samples import Parts, Samples
from exactformer.learning.recommending.token_basis import TokenBasis, place_basis
from exactformer.targets import sine_family

COUNT, TAU = 400, 6


@pytest.fixture(scope="module")
def parts():
    target = sine_family([1.5], tau=TAU)
    x = target.sample(COUNT, seed=0)
    data = samples(x, target(x))
    return Parts.of(data, data.folds(0), turn=0).pick(data)


@pytest.fixture(scope="module")
def basis(parts):
    return TokenBasis.of(parts[0].inputs, seed=0)


@pytest.fixture(scope="module")
def heads(parts, basis):
    return {kind: fit_head(kind, basis, *parts[:2]) for kind in ("any order", "causal")}


def unexplained(part, predicted):
    return np.square(predicted - part.outputs).sum() / np.square(part.outputs - part.offset).sum()


@pytest.mark.parametrize("d", [1, 3, 30])
def test_functions_of_a_token_are_orthonormal_over_the_tokens(d):
    x = np.random.default_rng(0).normal(size=(200, 5, d))
    basis = TokenBasis.of(x, seed=1)
    values = basis(x).reshape(-1, basis.size)
    assert np.abs(values.T @ values / len(values) - np.eye(basis.size)).max() < 1e-8
    assert values[:, 0] == pytest.approx(1)


def test_functions_of_the_place_are_orthonormal():
    places = place_basis(12)
    assert np.abs(places.T @ places / 12 - np.eye(places.shape[1])).max() < 1e-12


def test_tokens_far_outside_do_not_make_squares_run_away():
    x = np.random.default_rng(0).normal(size=(200, 5, 1))
    basis = TokenBasis.of(x, seed=1)
    assert (basis(np.array([[1e9]])) == basis(np.array([[1e3]]))).all()


def test_a_head_learns_a_coupling_and_finds_its_rank(parts, heads):
    test, head = parts[2], heads["any order"]
    assert unexplained(test, head.predict(test.inputs)) < 0.01
    values = head.singular_values()
    assert values[1] < 0.3 * values[0]
    assert np.allclose(
        head.predict(test.inputs, size=len(values)), head.predict(test.inputs), atol=1e-9
    )


def test_without_places_a_head_is_equivariant(parts, heads):
    test, head = parts[2], heads["any order"]
    head = replace(head, offset=np.zeros_like(head.offset))  # offsets are means by place
    order = np.random.default_rng(0).permutation(TAU)
    moved = head.predict(test.inputs[:, order])
    assert np.allclose(moved, head.predict(test.inputs)[:, order], atol=1e-9)


def test_a_causal_head_does_not_read_ahead(parts, heads):
    test, causal = parts[2], heads["causal"]
    later = test.inputs.copy()
    later[:, 3:] = 1 - later[:, 3:]
    before, after = causal.predict(test.inputs), causal.predict(later)
    assert np.allclose(before[:, :3], after[:, :3], rtol=0, atol=1e-12)
    assert not np.allclose(before[:, 3:], after[:, 3:])


def test_the_future_is_worth_something_to_a_coupling(parts, heads):
    left = {kind: unexplained(parts[2], h.predict(parts[2].inputs)) for kind, h in heads.items()}
    assert left["causal"] > 3 * left["any order"]


def test_a_gated_network_learns_a_state_and_does_not_read_ahead():
    x = np.random.default_rng(1).normal(size=(300, 6, 1))
    state, outputs = np.zeros(300), []
    for t in range(6):
        state = np.tanh(0.8 * state + x[:, t, 0])
        outputs.append(state)
    y = np.stack(outputs, axis=1)[..., None]
    train, check, test = (Samples(x[i::3], y[i::3]) for i in range(3))
    predict = fit_gated(train, check, seed=0)
    assert unexplained(test, predict(test.inputs)) < 0.05
    later = test.inputs.copy()
    later[:, 3:] += 1
    before, after = predict(test.inputs), predict(later)
    assert np.allclose(before[:, :3], after[:, :3], rtol=0, atol=1e-6)
    again = fit_gated(train, check, seed=0)
    assert (again(test.inputs) == before).all()
