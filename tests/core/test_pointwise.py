"""Values of single points next to values of many: a function of points treats each by itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exactformer.core.pointwise import check_pointwise
from exactformer.errors import InputError

points = st.lists(st.integers(-100, 100), min_size=2, unique=True).map(
    lambda numbers: np.array(numbers, dtype=np.float64)
)


@given(points)
def test_what_treats_every_point_by_itself_passes(x: np.ndarray) -> None:
    for function in (np.sin, np.abs, lambda x: np.stack([x, x**2], axis=-1)):
        check_pointwise(function(x), lambda k, f=function: f(x[k : k + 1]), "f")


@given(points)
def test_what_looks_at_all_points_is_refused(x: np.ndarray) -> None:
    centred = x - x.mean()
    with pytest.raises(InputError, match="f gives 0 at a point alone and"):
        check_pointwise(centred, lambda k: x[k : k + 1] - x[k : k + 1].mean(), "f")
    with pytest.raises(InputError, match="its own point only"):
        check_pointwise(np.full(len(x), x.max()), lambda k: x[k], "f")


def test_rounding_that_depends_on_the_number_of_points_is_no_difference() -> None:
    x = np.linspace(0, 1, 100)
    check_pointwise(x * (1 + 1e-12), lambda k: x[k], "f")
    with pytest.raises(InputError, match="at the same point among 100"):
        check_pointwise(x * (1 + 1e-4), lambda k: x[k], "f")


def test_a_function_that_fails_at_one_point_says_so() -> None:
    def alone(place: int) -> float:
        raise ZeroDivisionError("one row has no variance")

    with pytest.raises(InputError, match=r"fails at a point alone: .*no variance"):
        check_pointwise(np.ones(3), alone, "f")
