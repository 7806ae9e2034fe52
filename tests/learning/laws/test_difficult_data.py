"""Data as they come: a clear error or a right answer, never a wrong one."""

import warnings

import numpy as np
import pandas as pd
import pytest

from exactformer.errors import InputError
from exactformer.learning.laws.diagnosis import LawWarning
from exactformer.learning.laws.inputs import check_inputs
from exactformer.learning.laws.regressor import PolynomialAttentionRegressor
from exactformer.learning.laws.sample import DependentColumnsWarning, equal_rows


def table(rows=400, columns=3, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, columns))
    return X, 2 * X[:, 0] ** 2 - X[:, 1] + 0.05 * generator.normal(size=rows)


@pytest.mark.parametrize("solver", ["sparse", "least-squares", "sgd"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_missing_and_infinite_values_are_refused(solver, bad):
    regressor = PolynomialAttentionRegressor(2, solver=solver)
    X, y = table()
    X[7, 1] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        regressor.fit(X, y)
    X, y = table()
    y[7] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        regressor.fit(X, y)


def test_text_is_refused():
    X, y = table()
    mixed = X.astype(object)
    mixed[3, 0] = "north"
    with pytest.raises(ValueError, match="north"):
        PolynomialAttentionRegressor(2).fit(mixed, y)


@pytest.mark.parametrize("solver", ["sparse", "least-squares"])
def test_a_constant_column_is_left_out_and_said_so(solver):
    X, y = table()
    X[:, 2] = 7.0
    fitted = PolynomialAttentionRegressor(2, solver=solver).fit(X, y)
    assert fitted.unused_ == {"x3": "constant"}
    assert fitted.r2_ > 0.99


@pytest.mark.parametrize("solver", ["sparse", "least-squares"])
def test_an_identical_column_is_left_out_and_named(solver):
    X, y = table()
    X[:, 2] = X[:, 0]
    with pytest.warns(DependentColumnsWarning, match=r"x3 \(identical to x1\)"):
        fitted = PolynomialAttentionRegressor(2, solver=solver).fit(X, y)
    assert fitted.unused_ == {"x3": "identical to x1"}
    assert fitted.r2_ > 0.99
    assert not any("x3" in term for term in fitted.coef_table_.term)


def test_a_column_that_is_a_sum_of_others_is_left_out_with_the_relation():
    X, y = table()
    X[:, 2] = X[:, 0] - 2 * X[:, 1] + 5
    with pytest.warns(DependentColumnsWarning, match=r"x3 \(equal to x1 - 2 x2 \+ 5\)"):
        fitted = PolynomialAttentionRegressor(2).fit(X, y)
    assert set(fitted.unused_) == {"x3"}


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_the_offset_of_a_relation_is_not_rounding(scale):
    X, y = table()
    X = np.column_stack([scale * X[:, :2], -scale * X[:, 0] / 3, scale * (X[:, 1] + 1)])
    with pytest.warns(DependentColumnsWarning):
        fitted = PolynomialAttentionRegressor(2).fit(X, y)
    assert fitted.unused_["x3"] == "equal to -0.333333 x1"
    assert fitted.unused_["x4"] == f"equal to x2 + {scale:g}"


def test_a_column_that_is_almost_a_copy_is_used():
    X, _ = table()
    y = X[:, 0] + X[:, 1]
    X[:, 2] = X[:, 0] + 1e-4 * X[:, 2]
    assert PolynomialAttentionRegressor(1).fit(X, y).unused_ == {}


def test_a_column_that_is_a_power_of_another_makes_the_formula_one_of_several():
    X, _ = table()
    X[:, 1] = X[:, 0] ** 2
    with pytest.warns(DependentColumnsWarning, match="other formulas fit exactly as well"):
        fitted = PolynomialAttentionRegressor(2).fit(X, 3 * X[:, 0] ** 2)
    assert fitted.noise_ < 1e-12
    assert {"x2", "x1^2"} & set(fitted.aliases_[0])


def test_fewer_rows_than_columns():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(40, 60))
    y = 5 * X[:, 3] + 0.01 * generator.normal(size=40)
    fitted = PolynomialAttentionRegressor(1).fit(X, y)
    assert fitted.unused_ == {}
    assert set(fitted.coef_table_.term) == {"x4"}


@pytest.mark.parametrize("solver", ["sparse", "least-squares"])
def test_a_constant_target_is_a_constant_law(solver):
    X, _ = table()
    fitted = PolynomialAttentionRegressor(2, solver=solver).fit(X, np.full(len(X), 4.5))
    np.testing.assert_allclose(fitted.predict(X), 4.5, rtol=1e-12)
    assert fitted.intercept_ == pytest.approx(4.5)


@pytest.mark.parametrize("solver", ["least-squares", "sgd"])
def test_every_column_constant(solver):
    X, y = np.ones((50, 2)), np.linspace(10, 11, 50)
    fitted = PolynomialAttentionRegressor("auto", solver=solver, epochs=20).fit(X, y)
    np.testing.assert_allclose(fitted.predict(X), 10.5, rtol=1e-6)


def test_no_law_is_discovered_in_constant_columns_and_it_is_said():
    with pytest.warns(LawWarning, match="every column is constant and the target is not"):
        fitted = PolynomialAttentionRegressor("auto").fit(np.ones((50, 2)), np.linspace(10, 11, 50))
    np.testing.assert_allclose(fitted.predict(np.ones((50, 2))), 10.5, rtol=1e-6)


def test_a_target_of_zeros_is_the_zero_law():
    X, _ = table()
    fitted = PolynomialAttentionRegressor(2).fit(X, np.zeros(len(X)))
    assert fitted.formula_ == "0"
    assert (fitted.predict(X) == 0).all()
    assert float(fitted.model_(X[:3]).abs().max()) == 0


def test_one_row_is_refused():
    with pytest.raises(ValueError, match="minimum of 2"):
        PolynomialAttentionRegressor(1).fit([[1.0]], [2.0])


def test_two_rows_make_no_law_up():
    with pytest.warns(LawWarning, match="2 rows are too few"):
        fitted = PolynomialAttentionRegressor().fit([[1.0], [2.0]], [2.0, 4.1])
    assert fitted.coef_table_.empty or fitted.coef_table_.term.tolist() == ["1"]


def test_huge_and_tiny_scales_are_no_obstacle():
    X, y = table()
    scaled = PolynomialAttentionRegressor(2).fit(X * [1e-9, 1e9, 1.0], 1e12 * y)
    plain = PolynomialAttentionRegressor(2).fit(X, y)
    assert scaled.coef_table_.term.tolist() == plain.coef_table_.term.tolist()
    np.testing.assert_allclose(
        scaled.predict(X * [1e-9, 1e9, 1.0]) / 1e12, plain.predict(X), rtol=1e-9, atol=1e-9
    )


def test_negative_and_vanishing_weights_are_refused():
    X, y = table(10)
    with pytest.raises(InputError, match=r"the smallest is -1"):
        PolynomialAttentionRegressor(1).fit(X, y, sample_weight=-np.ones(10))
    with pytest.raises(ValueError, match=r"zero"):
        PolynomialAttentionRegressor(1).fit(X, y, sample_weight=np.zeros(10))


def test_rows_of_weight_zero_have_no_say():
    X, y = table()
    X[0], y[0] = 1e6, -1e6
    weight = np.ones(len(X))
    weight[0] = 0
    fitted = PolynomialAttentionRegressor(2).fit(X, y, sample_weight=weight)
    assert np.abs(fitted.box_).max() < 100
    assert set(fitted.coef_table_.term) == {"x1^2", "x2"}


def test_heavy_tails_and_outliers_are_named_and_nothing_else_happens():
    generator = np.random.default_rng(0)
    X = generator.standard_cauchy(size=(500, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("always", category=LawWarning)
        with pytest.warns(LawWarning, match="heavy tails"):
            fitted = PolynomialAttentionRegressor(3).fit(X, generator.standard_cauchy(500))
    assert np.isfinite(fitted.predict(X)).all()


@pytest.mark.parametrize("times", [2, 50])
def test_copies_of_rows_are_noticed(times):
    X, y = table(20, 2)
    y = y + np.random.default_rng(1).normal(size=20)
    with pytest.warns(LawWarning, match=f"only 20 of {20 * times:,} rows are different"):
        fitted = PolynomialAttentionRegressor(2).fit(np.tile(X, (times, 1)), np.tile(y, times))
    assert sum("rows are different" in note for note in fitted.notes_) == 1


def test_repeated_measurements_and_exact_laws_on_a_grid_are_not_copies():
    generator = np.random.default_rng(0)
    X = generator.integers(0, 3, size=(300, 2)).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        noisy = PolynomialAttentionRegressor(2).fit(X, X[:, 0] + generator.normal(size=300))
        exact = PolynomialAttentionRegressor(2).fit(X, X[:, 0] * X[:, 1])
    assert not any("rows are different" in note for note in [*noisy.notes_, *exact.notes_])


def test_dates_categories_and_masks_are_refused_by_name():
    X, y = table(50, 2)
    days = pd.date_range("2020", periods=50)
    frame = pd.DataFrame(X, columns=["a", "b"])
    refused = [
        (frame.assign(a=days), y, "column 'a' of X has the type datetime64"),
        (days.to_numpy()[:, None], y, "X has the type datetime64"),
        (frame, pd.Series(days), "y has the type datetime64"),
        (frame.assign(b=days - days[0]), y, "column 'b' of X has the type timedelta64"),
        (frame.assign(b=pd.Categorical([1, 2] * 25)), y, "column 'b' of X is categorical"),
        (np.ma.masked_greater(X, 1.5), y, r"X has \d+ masked value"),
        (X, np.ma.masked_greater(y, 1.5), r"y has \d+ masked value"),
    ]
    for columns, target, message in refused:
        with pytest.raises(InputError, match=message):
            PolynomialAttentionRegressor(1).fit(columns, target)


def test_a_type_that_is_not_of_numpy_is_no_date():
    class Column(np.ndarray):
        dtype = object()  # as other libraries have them, without NumPy's kind

    X, y = table(50, 2)
    check_inputs(X.view(Column), y=y)


class Lazy(np.ndarray):
    """Looks like a Dask array."""

    def __dask_graph__(self):
        """Present on every Dask collection."""


@pytest.mark.parametrize("place", ["X", "y"])
def test_dask_collections_are_refused_with_the_line_that_samples_their_rows(place):
    X, y = table()
    given = {"X": X, "y": y}
    given[place] = given[place].view(Lazy)
    with pytest.raises(InputError, match=rf"^{place} is a Dask.*Sample.*table\.sample\(frac=0\.01"):
        PolynomialAttentionRegressor(2).fit(**given)


def test_rows_in_another_order_than_their_labels_are_noticed():
    X, y = table(50, 2)
    frame, target = pd.DataFrame(X, columns=["a", "b"]), pd.Series(y)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        PolynomialAttentionRegressor(2).fit(frame, target[::-1])
    assert "same row labels in a different order" in str(told[0].message)
    assert "y.loc[X.index]" in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PolynomialAttentionRegressor(2).fit(frame[::-1], target[::-1])
        PolynomialAttentionRegressor(2).fit(frame, target.set_axis(range(50, 100)))


@pytest.mark.parametrize(("x_scale", "y_scale"), [(1e200, 1), (1e-200, 1), (1, 1e200), (1, 1e-200)])
def test_sizes_that_floats_cannot_square_are_refused(x_scale, y_scale):
    X, y = table(50, 2)
    with pytest.raises(InputError, match="Change the unit"):
        PolynomialAttentionRegressor(2).fit(X * [x_scale, 1], y * y_scale)


def test_names_that_python_reads_as_one_get_different_names():
    X, y = table(50, 2)
    law = PolynomialAttentionRegressor(2).fit(pd.DataFrame(X, columns=["\u00b5", "\u03bc"]), y)
    assert law.variables_ == ["\u03bc_2", "\u03bc"]


def test_equal_rows_have_equal_numbers_and_others_do_not():
    generator = np.random.default_rng(0)
    rows = generator.integers(-2, 3, size=(2000, 3)).astype(float)
    rows[::2] *= -1  # zeros of both signs
    groups = pd.DataFrame(rows).groupby([0, 1, 2]).ngroup().to_numpy()
    assert len(set(zip(groups, equal_rows(rows), strict=True))) == len(set(groups))
    assert len(np.unique(equal_rows(generator.normal(size=(10**5, 3))))) == 10**5


LARGE = np.arange(50)[:, None] + 2**60
MOMENTS = np.array([[float(i), np.datetime64(i, "s")] for i in range(50)], dtype=object)


@pytest.mark.parametrize("kind", [np.int64, np.uint64, object])
def test_integers_that_floats_cannot_hold_are_refused(kind):
    y = np.arange(50.0)
    with pytest.raises(InputError, match=r"integers up to 1152921504606847025.*2\^53"):
        PolynomialAttentionRegressor(1).fit(LARGE.astype(kind), y)
    with pytest.raises(InputError, match=r"column 'a' of X has integers"):
        PolynomialAttentionRegressor(1).fit(pd.DataFrame(LARGE.astype(kind), columns=["a"]), y)
    with pytest.raises(InputError, match=r"y has integers"):
        PolynomialAttentionRegressor(1).fit(y[:, None], LARGE[:, 0].astype(kind))
    with pytest.raises(InputError, match="X has integers"):
        PolynomialAttentionRegressor(1).fit(LARGE.tolist(), y)
    PolynomialAttentionRegressor(1).fit((LARGE - 2**60).astype(kind), y)
    PolynomialAttentionRegressor(1).fit((LARGE - 2**60 << 40).astype(kind), y)  # floats hold these
    with pytest.warns(LawWarning, match="every column is constant"):  # as floats they are
        PolynomialAttentionRegressor(1).fit(LARGE.astype(float), y + LARGE[:, 0] % 7)


def test_dates_among_objects_are_refused():
    y = np.arange(50.0)
    with pytest.raises(InputError, match="X has dates among its objects"):
        PolynomialAttentionRegressor(1).fit(MOMENTS, y)
    with pytest.raises(InputError, match="X has dates among its objects"):
        PolynomialAttentionRegressor(1).fit(MOMENTS - [0, np.datetime64(0, "s")], y)


def test_rows_with_a_mask_of_their_own_are_refused():
    X, y = table(50, 2)
    with pytest.raises(InputError, match=r"X has \d+ masked value"):
        PolynomialAttentionRegressor(1).fit([np.ma.masked_greater(row, 0) for row in X], y)


def test_predictions_are_of_data_that_a_fit_would_take():
    X, y = table(50, 2)
    frame = pd.DataFrame(X, columns=["a", "b"])
    law = PolynomialAttentionRegressor(2).fit(frame, y)
    with pytest.raises(InputError, match="X has 50 masked value"):
        law.predict(np.ma.masked_array(X, mask=[[True, False]] * 50))
    with pytest.raises(InputError, match="column 'b' of X is categorical"):
        law.predict(frame.assign(b=pd.Categorical([1, 2] * 25)))
    with pytest.raises(InputError, match="column 'b' of X has the type datetime64"):
        law.predict(frame.assign(b=pd.date_range("2020", periods=50)))


def test_columns_with_numbers_for_names_keep_their_order():
    X, y = table(50, 2)
    frame = pd.DataFrame(X, columns=[7, 3])
    law = PolynomialAttentionRegressor(2).fit(frame, y)
    with pytest.raises(InputError, match=r"columns 3, 7.*those of the fit are 7, 3"):
        law.predict(frame[[3, 7]])
    np.testing.assert_array_equal(law.predict(frame), law.predict(X))
    np.testing.assert_array_equal(law.fit(X, y).predict(frame[[3, 7]]), law.predict(X[:, ::-1]))


def test_weights_have_no_mask_and_their_labels_are_looked_at():
    X, y = table(50, 2)
    with pytest.raises(InputError, match="sample_weight has 50 masked value"):
        PolynomialAttentionRegressor(2).fit(X, y, np.ma.masked_less(np.ones(50), 2))
    frame, weight = pd.DataFrame(X, columns=["a", "b"]), pd.Series(np.arange(50.0) + 1)
    with pytest.warns(LawWarning, match=r"X and sample_weight have the same row labels"):
        PolynomialAttentionRegressor(2).fit(frame, y, weight[::-1])


def test_a_large_coefficient_without_any_error_gives_no_warning():
    X = np.tile([[-1.0], [1.0]], (50, 1))
    law = PolynomialAttentionRegressor(1).fit(X, 2.0**93 * X[:, 0])
    assert law.coef_table_.coefficient.tolist() == [2.0**93]
