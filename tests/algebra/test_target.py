"""Vectors of polynomials: text, lists, and directions that all components share."""

import pytest
import sympy

from exactformer.algebra import Polynomial, Target
from exactformer.algebra.ridge import FAMILIES, ridge_forms
from exactformer.errors import InputError, ParseError


@pytest.mark.parametrize("text", ["x^2", "x^2 + y; x y", "x;", "a; b; c"])
def test_text_reads_back(text: str) -> None:
    target = Target.coerce(text)
    assert Target.coerce(str(target)) == target
    assert target.vector == (";" in text)


def test_components_share_their_variables_in_natural_order() -> None:
    target = Target.coerce(["x10", Polynomial.parse("x2^2"), sympy.Symbol("x1") + 1])
    assert target.variables == ("x1", "x2", "x10")
    assert target.degree == 2
    assert str(target) == "x10; x2^2; x1 + 1"
    assert Target.coerce(target, ["x1", "x2", "x3", "x10"]).dimension == 4


@pytest.mark.parametrize("bad", [[], (), ["x"] * 1001])
def test_sizes_of_vectors_are_limited(bad: object) -> None:
    with pytest.raises(InputError, match="1 to 1,000 components"):
        Target.coerce(bad)


def test_an_empty_component_is_no_polynomial() -> None:
    with pytest.raises(ParseError):
        Target.coerce("x;; y")


@pytest.mark.parametrize("family", FAMILIES)
def test_ridge_forms_share_directions_and_are_exact(family: str) -> None:
    polynomials = Target.coerce("x^4 - x y z; y + 2; 3; z^2 x").polynomials
    forms = ridge_forms(polynomials, family)
    assert len({form.directions for form in forms}) == 1
    assert [form.to_polynomial() for form in forms] == list(polynomials)


def test_tailored_directions_are_shared_not_added_up() -> None:
    polynomials = Target.coerce("x y z; 5 x y z; x y z - x y z^2").polynomials
    alone = ridge_forms([polynomials[0]], "tailored")[0].width
    assert ridge_forms(polynomials[:2], "tailored")[0].width == alone
