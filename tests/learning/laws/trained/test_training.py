from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.errors import FileFormatError
from exactformer.experiments.fang.networks import nn_depth, relu_network
from exactformer.learning.laws.dense.directions import multiply_out, paper_width, unit_directions
from exactformer.learning.laws.regressor import PolynomialAttentionRegressor
from exactformer.learning.laws.trained.network import (
    PolynomialAttention,
    RidgePowers,
    count_parameters,
)
from exactformer.learning.laws.trained.training import (
    DivergenceError,
    History,
    Points,
    TrainingProtocol,
    train,
)
from tests.examples import examples
from tests.learning.laws.targets import f1_sample

SHORT = TrainingProtocol(epochs=12, batch_size=40, initial_rate=1e-3, max_rate=1e-2, clip=1.0)


def network(width=7, dimension=3, degree=4, seed=0, dtype=torch.float64):
    generator = np.random.default_rng(seed)
    directions = torch.as_tensor(unit_directions(width, dimension, generator), dtype=dtype)
    made = PolynomialAttention(directions, degree)
    with torch.no_grad():
        made.beta.copy_(torch.as_tensor(generator.normal(size=(width, degree))))
        made.b.fill_(generator.normal())
    return made


def points(rows=100, dimension=3, seed=1):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, dimension))
    return Points(torch.as_tensor(x), torch.as_tensor((x**2).sum(axis=1)))


@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 5), st.integers(0, 100))
@settings(max_examples=examples(20))
def test_the_fused_gradient_is_the_gradient(width, dimension, degree, seed):
    made = network(width, dimension, degree, seed)
    x = points(6, dimension, seed).x.requires_grad_()
    arguments = (x, made.F, made.beta)
    assert torch.autograd.gradcheck(lambda *a: RidgePowers.apply(*a, False), arguments)


@pytest.mark.parametrize("construction", ["paper", "scaled"])
def test_the_fused_gradient_is_that_of_the_literal_module(construction):
    from fractions import Fraction

    from exactformer.algebra.ridge import RidgeForm
    from exactformer.polynomials.constructions import CONSTRUCTIONS
    from exactformer.polynomials.run.literal import LiteralTransformer

    d, n, q, radius = 3, 5, 4, Fraction(4)
    made = network(n, d, q)
    with torch.no_grad():
        made.F /= 2  # directions inside the unit ball
    form = RidgeForm(
        variables=("x", "y", "z"),
        constant=Fraction(made.b.item()),
        directions=tuple(tuple(map(Fraction, row)) for row in made.F.tolist()),
        beta=tuple(tuple(map(Fraction, row)) for row in made.beta.tolist()),
        degree=q,
        family="test",
    )
    literal = LiteralTransformer(CONSTRUCTIONS[construction](form, radius))
    literal.requires_grad_(True)
    x, weight = points(20).x, torch.linspace(-1, 1, 20, dtype=torch.float64)
    np.testing.assert_allclose(literal(x).detach(), made(x).detach(), atol=1e-10)
    (literal(x) @ weight).backward()
    (made(x) @ weight).backward()
    # The literal module's features are ξ·x/B in the scaled form, and β carries B^s (paper: (−1)^s).
    unit = float(radius) if construction == "scaled" else 1.0
    torch.testing.assert_close(literal.features.grad / unit, made.F.grad, atol=1e-8, rtol=1e-8)
    torch.testing.assert_close(literal.readouts[0].bias.grad.reshape(()), made.b.grad)
    width = literal.readouts[0].beta.shape[-1]
    powers = [0, *range(n + 1, width - 1)] if construction == "scaled" else range(n + 1, width - 1)
    for s, place in enumerate(powers, start=1):
        sign = (-1) ** s if construction == "paper" else unit**s
        torch.testing.assert_close(
            sign * literal.readouts[0].beta.grad[:, place],
            made.beta.grad[:, s - 1],
            atol=1e-8,
            rtol=1e-8,
        )


def test_blocks_of_rows_do_not_change_the_sum(monkeypatch):
    made, x = network(), points().x
    whole = made(x).detach()
    monkeypatch.setattr(
        "exactformer.learning.laws.trained.network._BLOCK", {"cpu": 21, "other": 21}
    )
    torch.testing.assert_close(made(x).detach(), whole)


def test_multiplying_out_gives_the_same_polynomial():
    made, x = network(), points().x
    F, beta, b = (p.detach().numpy() for p in made.parameters())
    terms = multiply_out(F, beta, float(b))
    values = sum(c * np.prod(x.numpy() ** np.array(a), axis=1) for a, c in terms.items())
    np.testing.assert_allclose(values, made(x).detach(), atol=1e-9)


def test_free_parameters_are_those_the_paper_counts():
    ours = [PolynomialAttention(torch.zeros(paper_width(d, q), d), q) for d, q in [(2, 2), (10, 5)]]
    assert [network.free_parameters for network in ours] == [41, 65_521]
    wide = [relu_network([d, paper_width(d, q)]) for d, q in [(2, 2), (10, 5)]]
    assert [count_parameters(network) for network in wide] == [41, 52_417]
    assert [count_parameters(nn_depth(d, q)) for d, q in [(2, 2), (10, 5)]] == [57, 74_041]


def test_the_baselines_have_the_layers_of_tables_2_and_3():
    def shapes(net):
        return [(m.in_features, m.out_features) for m in net if hasattr(m, "in_features")]

    assert shapes(relu_network([2, paper_width(2, 2)])) == [(2, 10), (10, 1)]
    assert shapes(nn_depth(2, 2)) == [(2, 4), (4, 4), (4, 4), (4, 1)]
    assert shapes(relu_network([10, paper_width(10, 5)])) == [(10, 4368), (4368, 1)]
    assert shapes(nn_depth(10, 5)) == [(10, 120), *[(120, 120)] * 5, (120, 1)]
    assert nn_depth(10, 5)(torch.zeros(3, 10)).shape == (3,)


def test_elsewhere_the_deep_baseline_has_as_many_parameters_as_ours():
    ours = paper_width(4, 3) * 7 + 1
    assert ours <= count_parameters(nn_depth(4, 3)) <= 1.2 * ours


def test_training_is_the_same_bits_twice():
    first, second = network(), network()
    assert train(first, points(), SHORT, seed=5).train_mse == (
        train(second, points(), SHORT, seed=5).train_mse
    )
    assert all(
        torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True)
    )


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("stop", [1, 5, 11])
def test_a_stopped_run_ends_with_the_same_bits(tmp_path, stop):
    straight, resumed = network(), network()
    expected = train(straight, points(), SHORT, reports=12)
    path = tmp_path / "run.pt"

    def interrupt(progress):
        if progress.epoch == stop:
            raise StoppedError

    with pytest.raises(StoppedError):
        train(network(), points(), SHORT, checkpoint=path, report=interrupt, reports=12)
    history = train(resumed, points(), SHORT, checkpoint=path, reports=12)
    assert history.train_mse == expected.train_mse
    assert all(
        torch.equal(a, b) for a, b in zip(straight.parameters(), resumed.parameters(), strict=True)
    )


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "run.pt"
    train(network(), points(), SHORT, checkpoint=path)
    with pytest.raises(FileFormatError, match="differs in clip"):
        train(network(), points(), replace(SHORT, clip=2.0), checkpoint=path)
    with pytest.raises(FileFormatError, match="differs in data"):
        train(network(), points(seed=9), SHORT, checkpoint=path)
    with pytest.raises(FileFormatError, match="differs in start"):
        train(network(seed=9), points(), SHORT, checkpoint=path)
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(FileFormatError, match="is not a checkpoint"):
        train(network(), points(), SHORT, checkpoint=path)


def test_reports_come_at_even_distances():
    seen = []
    train(network(), points(), SHORT, report=seen.append, reports=4)
    assert [p.epoch for p in seen] == [3, 6, 9, 12]
    assert all(p.seconds > 0 for p in seen)


def test_without_clipping_the_paper_s_rate_diverges_and_the_history_says_so():
    X, y, *_ = f1_sample(0)
    made = network(10, 2, 2)
    history = train(
        made, Points(torch.as_tensor(X), torch.as_tensor(y)), replace(SHORT, clip=None, epochs=60)
    )
    assert history.diverged
    assert len(history.train_mse) < 60


def test_the_estimator_raises_when_training_diverges():
    X, y, *_ = f1_sample(0)
    regressor = PolynomialAttentionRegressor(
        2, solver="sgd", clip=None, rescale=False, epochs=60, random_state=0
    )
    with pytest.raises(DivergenceError, match="lower clip="):
        regressor.fit(X, y)


def test_training_stops_early_when_nothing_improves():
    exact = points()
    made = network(3, 3, 2)
    with torch.no_grad():
        made.F.copy_(torch.eye(3))
        made.beta.copy_(torch.tensor([[0.0, 1.0]] * 3))
        made.b.zero_()
    noisy = Points(exact.x, exact.y + torch.linspace(-1, 1, 100, dtype=torch.float64))
    history = train(made, noisy, replace(SHORT, epochs=100, tolerance=0.5))
    assert len(history.train_mse) < 100


def test_convergence_is_the_paper_s_rule():
    assert History([5.0, 3.0, 2.0, 1.995, 1.0], 0.0, False).converged() == 4
    assert History([5.0, 3.0], 0.0, False).converged() is None


def test_f1_by_the_paper_s_protocol():
    X, y, X_test, y_test = f1_sample(0)
    made = PolynomialAttention(
        torch.as_tensor(unit_directions(10, 2, np.random.default_rng(0)), dtype=torch.float32), 2
    )
    history = train(
        made,
        Points(torch.as_tensor(X), torch.as_tensor(y)),
        TrainingProtocol(epochs=600, batch_size=5000),
    )
    with torch.no_grad():
        test = made(torch.as_tensor(X_test, dtype=torch.float32)) - torch.as_tensor(y_test)
    assert (test**2).mean() <= 0.02
    assert 0.9 <= history.train_mse[-1] <= 1.1
