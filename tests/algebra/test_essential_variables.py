"""Essential variables: exact identities, and no more directions than the smaller polynomial needs."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.algebra import Polynomial, Target
from exactformer.algebra.ridge import ridge_form, ridge_forms
from exactformer.algebra.ridge.essential import essential
from exactformer.algebra.ridge.essential import linear as linear_form
from exactformer.algebra.ridge.lattice import lattice_width
from exactformer.algebra.ring import ring
from exactformer.errors import SizeError
from tests.examples import examples

NAMES = ["a", "b", "c", "d", "e", "f"]
SMALL = st.integers(-5, 5)
SCALARS = st.integers(-9, 9).filter(bool)


def linear(vector: tuple[int, ...], names: list[str]) -> Polynomial:
    units = [tuple(int(i == j) for j in range(len(names))) for i in range(len(names))]
    return Polynomial.from_terms(dict(zip(units, vector, strict=True)), names)


def width(polynomial: Polynomial) -> int:
    form = ridge_form(polynomial)
    assert form.to_polynomial() == polynomial
    return form.width


@pytest.mark.parametrize(("d", "q"), [(2, 60), (6, 8), (10, 5), (3, 1)])
def test_a_power_of_a_linear_form_takes_one_direction(d: int, q: int) -> None:
    names = [f"x{i}" for i in range(d)]
    assert width(linear(tuple(range(1, d + 1)), names) ** q) == 1


@settings(max_examples=examples(25))
@given(st.data(), st.integers(1, 6))
def test_a_polynomial_in_one_linear_form_takes_one_direction(data: st.DataObject, d: int) -> None:
    v = data.draw(st.tuples(*[SMALL] * d).filter(any))
    row = data.draw(st.dictionaries(st.integers(1, 6), SCALARS, min_size=1))
    total = Polynomial.from_terms({}, NAMES[:d])
    for s, c in row.items():
        total += linear(v, NAMES[:d]) ** s * c
    assert width(total + 7) == 1


@settings(max_examples=examples(25))
@given(st.data(), st.integers(2, 5), st.integers(2, 4))
def test_two_linear_forms_take_no_more_than_the_lattice_of_two_variables(
    data: st.DataObject, d: int, q: int
) -> None:
    u, v = (linear(data.draw(st.tuples(*[SMALL] * d)), NAMES[:d]) for _ in range(2))
    total = Polynomial.from_terms({}, NAMES[:d])
    for s in range(q + 1):
        total += u**s * v ** (q - s) * Fraction(data.draw(SMALL), 3)
    assert width(total) <= lattice_width(2, q)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("(x + 2y - z)^6", 1), ("x + 2y - 3z + 4", 1), ("(x - y)^2 + 3(x - y) z", 3), ("3", 1)],
)
def test_widths_of_known_polynomials(text: str, tokens: int) -> None:
    assert width(Polynomial.parse(text)) == tokens


def test_components_share_their_essential_variables() -> None:
    target = Target.coerce(["(x + 2 y)^3 - (y + z - w)^2", "(x + 2 y) (y + z - w)"])
    forms = ridge_forms(target.polynomials)
    assert [form.to_polynomial() for form in forms] == list(target)
    assert len({form.directions for form in forms}) == 1
    assert forms[0].width <= lattice_width(2, 3)


def test_the_width_is_checked_before_coefficients_are_computed() -> None:
    seen = []

    def refuse(width: int) -> None:
        seen.append(width)
        if width > 3:
            raise SizeError("too wide")

    with pytest.raises(SizeError, match="too wide"):
        ridge_form(Polynomial.parse("x y z + w^2"), check_width=refuse)
    assert seen[-1] == 5


def test_polynomials_depend_on_their_essential_variables_alone() -> None:
    target = Target.coerce(["(x + 2 y)^3 - (y + z - w)^2", "(x + 2 y) (y + z - w)"])
    found = essential([p.flint for p in target], 4)
    assert found is not None
    forms, inner = found
    assert len(forms) == 2
    for polynomial, own in zip(target, inner, strict=True):
        assert own.compose(*map(linear_form, forms), ctx=ring(4)) == polynomial.flint
    assert essential([Polynomial.parse("x^2 + x y").flint], 2) is None
