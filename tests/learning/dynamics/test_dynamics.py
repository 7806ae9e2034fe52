import numpy as np
import pandas as pd
import pytest

import exactformer as ef
from exactformer.errors import InputError, OutsideDomainError
from exactformer.learning.dynamics.identification import MisfitWarning
from exactformer.learning.dynamics.operators import smoothing, weak_form
from exactformer.learning.dynamics.regression import gradients, unbiased_powers
from exactformer.learning.dynamics.trajectories import Trajectory, noise_deviations
from tests.learning.dynamics.systems import STARTS, found, trajectory


@pytest.mark.parametrize(
    ("name", "noise"), [("lotka-volterra", 0.05), ("van der pol", 0.1), ("lorenz", 0.1)]
)
def test_known_systems_come_back_from_noisy_trajectories(name, noise):
    t, X, law = trajectory(name, noise)
    equations = ef.fit_dynamics(t, X)
    for own, true in zip(found(equations), law, strict=True):
        assert own.keys() == true.keys()
    table = equations.table(0.999)
    truth = [
        true[a] for true, (terms, _) in zip(law, equations._each(), strict=True) for a in terms
    ]
    assert (table.lower < truth).all()
    assert (table.upper > truth).all()


@pytest.mark.parametrize("name", ["lotka-volterra", "van der pol"])
def test_smoothing_finds_the_same_terms(name):
    t, X, law = trajectory(name, 0.01)
    own = found(ef.fit_dynamics(t, X, method="smoothing"))
    assert [one.keys() for one in own] == [true.keys() for true in law]


@pytest.mark.parametrize(
    "name", [pytest.param("lorenz", marks=pytest.mark.slow), *list(STARTS)[1:]]
)
def test_clean_data_collect_no_tiny_terms(name):
    t, X, law = trajectory(name)
    for own, true in zip(found(ef.fit_dynamics(t, X)), law, strict=True):
        assert own == pytest.approx(true, rel=1e-4)


@pytest.mark.slow
def test_intervals_cover_as_often_as_they_say():
    inside = []
    for seed in range(40):
        t, X, _ = trajectory("lotka-volterra", 0.03, seed, samples=300)
        table = ef.fit_dynamics(t, X, degree=2).table(0.9)
        truth = [1.1, -0.4, 0.1, -0.4]
        order = [1, 0, 2, 3]
        if len(table) == 4:
            values = np.array(truth)[order]
            inside += ((table.lower < values) & (table.upper > values)).tolist()
    assert len(inside) >= 152  # of 160: the terms are almost always found
    assert 0.84 < np.mean(inside) < 0.97


def test_noise_is_estimated_from_differences_that_no_quintic_survives():
    t = np.sort(np.random.default_rng(0).uniform(0, 3, size=400))
    quintic = np.polynomial.Polynomial([1, -2, 0, 3, 1, -1])(t)[:, None]
    assert noise_deviations([Trajectory(t, quintic)])[0] < 1e-12 * np.abs(quintic).max()
    noisy = quintic + 0.1 * np.random.default_rng(1).normal(size=quintic.shape)
    assert noise_deviations([Trajectory(t, noisy)])[0] == pytest.approx(0.1, rel=0.2)


def test_features_are_unbiased_under_normal_noise():
    nodes, weights = np.polynomial.hermite_e.hermegauss(12)
    z, deviation = np.array([0.7, -1.3]), np.array([0.4, 0.9])
    grid = np.array([z + deviation * [a, b] for a in nodes for b in nodes])
    share = np.outer(weights, weights).ravel() / weights.sum() ** 2
    exponents = [(0, 0), (1, 0), (2, 0), (3, 1), (2, 4)]
    mean = share @ unbiased_powers(exponents, grid, np.broadcast_to(deviation**2, grid.shape))
    np.testing.assert_allclose(mean, [np.prod(z ** np.array(a)) for a in exponents], rtol=1e-12)


def test_gradients_are_those_of_the_polynomial():
    X = np.array([[2.0, 3.0]])
    slopes = gradients([(2, 1), (0, 3), (0, 0)], np.array([5.0, 1.0, 7.0]), X)
    np.testing.assert_array_equal(slopes, [[60.0, 20.0 + 27.0]])


@pytest.mark.parametrize("operator", [weak_form, smoothing])
def test_operators_are_exact_on_cubics(operator):
    t = np.linspace(0, 2, 400)
    x = (t**3 - t)[:, None]
    slope = (3 * t**2 - 1)[:, None]
    own = operator(Trajectory(t, x), 30)
    tolerance = 1e-9 if operator is smoothing else 2e-6  # the weak form's integrals are sums
    np.testing.assert_allclose(own.D @ x, own.S @ slope, atol=tolerance)
    assert operator(Trajectory(t, x), 300) is None


def test_several_trajectories_tell_more_than_one():
    starts = [trajectory("lotka-volterra", 0.05, seed, samples=150)[:2] for seed in range(3)]
    t, X = zip(*starts, strict=True)
    alone = ef.fit_dynamics(t[0], X[0], degree=2).table()
    together = ef.fit_dynamics(list(t), list(X), degree=2).table()
    assert list(together.term) == ["x1 x2", "x1", "x1 x2", "x2"]
    assert together.standard_error.mean() < alone.standard_error.mean()


def test_names_come_from_the_table_and_the_model_is_certified_on_its_box():
    t, X, _ = trajectory("lotka-volterra", 0.01)
    frame = pd.DataFrame(X, columns=["hares", "lynx (thousands)"]).assign(year=t)
    law = ef.fit_dynamics("year", frame)
    assert law.variables == ["hares", "lynx_thousands"]
    assert str(law).endswith("where lynx_thousands is 'lynx (thousands)'")
    assert list(law.table().state) == ["hares"] * 2 + ["lynx (thousands)"] * 2
    assert law.latex().startswith("\\begin{aligned}\n\\dot{\\mathrm{hares}} &= -0.4")
    assert [str(e.free_symbols) for e in law.to_sympy()]
    model = law.model()
    states = frame.drop(columns="year")
    values = model(states[states.columns[::-1]]).numpy()
    bound = float(model.certificate.bound())
    np.testing.assert_allclose(values, law.slopes(states), atol=bound + 1e-11)
    np.testing.assert_array_equal(law.slopes(states[states.columns[::-1]]), law.slopes(X))
    assert model.outputs == ("hares'", "lynx (thousands)'")
    with pytest.raises(OutsideDomainError):
        model([1e3, 0.0])


def test_the_law_can_be_followed():
    t, X, _ = trajectory("lotka-volterra", 0.01)
    again = ef.fit_dynamics(t, X).simulate(X[0], t)
    assert np.abs(again - X).max() < 0.25 * X.max()
    assert again.shape == X.shape


def test_a_still_state_has_no_law():
    t = np.linspace(0, 1, 100)
    law = ef.fit_dynamics(t, np.column_stack([np.exp(-t), np.full(100, 3.0)]), degree=1)
    assert law.formulas[1] == "0"


@pytest.mark.parametrize(
    ("t", "X", "options", "message"),
    [
        (np.arange(30.0)[::-1], np.ones((30, 1)), {}, "times must increase"),
        (np.arange(30.0), np.ones((29, 1)), {}, "one time per row"),
        (np.arange(10.0), np.ones((10, 1)), {}, "too short"),
        (np.arange(30.0), np.full((30, 1), np.nan), {}, "must be finite"),
        (np.arange(30.0), np.ones((30, 2)), {"degree": 8}, "Lower degree="),
        (np.arange(30.0), np.ones((30, 9)), {"degree": 5}, "the limit is 500"),
        (np.arange(30.0), np.ones((30, 1)), {"degree": 0}, "degree must be a positive integer"),
        (np.arange(30.0), np.ones((30, 1)), {"method": "magic"}, "choose one of weak, smoothing"),
        (np.arange(30.0), np.ones((30, 1)), {"significance": 0}, "between 0 and 1"),
        ("t", np.ones((30, 1)), {}, "names a column"),
        ([np.arange(30.0)], [np.ones((30, 1)), np.ones((30, 1))], {}, "for 2 trajectories"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(t, X, options, message):
    with pytest.raises(InputError, match=message):
        ef.fit_dynamics(t, X, **options)


def test_no_test_function_bridges_a_gap():
    t, X, law = trajectory("lotka-volterra", 0.01)
    kept = (t < 10) | (t > 12)
    own = found(ef.fit_dynamics(t[kept], X[kept], degree=2))
    assert [one.keys() for one in own] == [true.keys() for true in law]
    with pytest.raises(InputError, match="too uneven"):
        ef.fit_dynamics(np.concatenate([np.arange(8) + 99.0 * k for k in range(6)]), X[:48])


def test_a_slope_that_is_neither_law_nor_noise_is_noticed():
    t = np.linspace(0, 20, 400)
    with pytest.warns(MisfitWarning, match="x1': terms up to degree 2 explain 0.0% of the slope"):
        ef.fit_dynamics(t, np.column_stack([np.sin(t), t]), degree=2)
    noise = np.random.default_rng(0).normal(size=(400, 1))
    with pytest.warns(MisfitWarning, match="noise of x1 is 10[0-9]% of its deviation"):
        assert ef.fit_dynamics(t, noise).formulas == ["0"]
