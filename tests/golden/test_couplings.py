"""Models of couplings answer as they did when their answers were stored."""

import pytest

from tests.golden.checking import check, check_none_is_left, parameters

FAMILY = "couplings"


@pytest.mark.parametrize("name", parameters(FAMILY))
def test_a_model_answers_as_before(name: str) -> None:
    check(FAMILY, name)


def test_no_answer_is_left_of_a_model_that_is_gone() -> None:
    check_none_is_left(FAMILY)
