import matplotlib
import numpy as np
import pytest

import exactformer as ef
from exactformer.core.domain import points_in_ball
from exactformer.errors import InputError
from exactformer.figures import (
    accuracy_figure,
    exactformer_style,
    save_figure,
)

CASES = {
    "quadratic": ("x^2 + y^2", {}),
    "paper": ("x^3 + x y", {"construction": "paper"}),
    "linear": ("x + 2 y", {}),
    "constant": ("7", {"variables": ["x"]}),
    "zero": ("0", {"variables": ["x"]}),
    "no variable": ("7", {}),
    "one variable": ("x^3", {}),
    "wide": ("(a + b + c)^5", {"directions": "lattice"}),
    "several heads": ("x^4 + y^3", {"construction": "doubling"}),
}


@pytest.fixture(params=CASES, scope="module")
def model(request):
    text, options = CASES[request.param]
    return ef.compile(text, radius=2, **options)


def drawn(model):
    return accuracy_figure(model, polynomial(model), {"fused": np.array([1e-17])}, "a title")


def polynomial(model):
    return ef.Polynomial.parse(model.target, model.blueprint.variables)


@pytest.mark.spread(4)
def test_every_kind_of_model_can_be_drawn(model, tmp_path):
    errors = {"literal": np.array([0.0, 1e-18, 2e-17]), "fused": np.zeros(3)}
    figure = accuracy_figure(model, polynomial(model), errors, "a title")
    save_figure(figure, tmp_path / "accuracy.svg")
    exact, computed = (line.get_ydata() for line in figure.axes[0].lines)
    bound = model.certificate.bound(model.dtype, model.executor)
    assert np.abs(computed - exact).max() <= bound + np.spacing(np.abs(exact).max())


def test_every_axis_of_the_accuracy_figure_is_labelled():
    model = ef.compile("x^3 + x y", radius=2)
    figure = accuracy_figure(
        model, polynomial(model), {"fused": np.array([1e-16, 2e-16])}, "a title"
    )
    path, residual, distribution, attention, bar = figure.axes
    assert path.get_ylabel()
    for axes in (residual, distribution, attention):
        assert axes.get_xlabel()
        assert axes.get_ylabel()
    assert bar.get_xlabel()


def test_errors_that_are_all_zero_are_drawn_too(tmp_path):
    model = ef.compile("x", radius=1)
    figure = accuracy_figure(model, polynomial(model), {"literal": np.zeros(10)}, "exact")
    save_figure(figure, tmp_path / "zero.png")
    assert (tmp_path / "zero.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.spread(1)
@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_equal_figures_are_equal_bytes_without_dates(tmp_path, kind):
    model = ef.compile("x^2 + y^2", radius=1)
    for name in ("a", "b"):
        save_figure(drawn(model), tmp_path / f"{name}.{kind}")
    content = (tmp_path / f"a.{kind}").read_bytes()
    assert content == (tmp_path / f"b.{kind}").read_bytes()
    assert b"dc:date" not in content
    assert b"CreationDate" not in content


def test_other_kinds_of_file_are_refused(tmp_path):
    model = ef.compile("x", radius=1)
    with pytest.raises(InputError, match=r"\.png, \.svg or \.pdf"):
        save_figure(drawn(model), tmp_path / "figure.bmp")


def test_the_users_settings_are_left_alone(tmp_path):
    before = dict(matplotlib.rcParams)
    with exactformer_style():
        assert matplotlib.rcParams["svg.hashsalt"] == "exactformer"
    model = ef.compile("x", radius=1)
    save_figure(drawn(model), tmp_path / "figure.svg")
    assert dict(matplotlib.rcParams) == before


def test_a_look_of_ones_own_does_not_change_ours(tmp_path):
    model = ef.compile("x^2", radius=1)
    save_figure(drawn(model), tmp_path / "a.svg")
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black"}):
        save_figure(drawn(model), tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize("dimension", [1, 2, 10])
def test_sampled_points_fill_the_ball_and_never_leave_it(dimension):
    points = points_in_ball(5000, dimension, 3.0)
    norms = np.linalg.norm(points, axis=1)
    assert norms.max() <= 3 * (1 + 1e-15)
    assert np.mean(norms <= 1.5) == pytest.approx(0.5**dimension, abs=0.03)
    assert np.array_equal(points, points_in_ball(5000, dimension, 3.0))
