"""Widths by structure: exact identities, and no more directions than were planted."""

from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from exactformer.algebra import Polynomial, Target
from exactformer.algebra.ridge import ridge_form, ridge_forms
from exactformer.algebra.ridge.essential import essential
from exactformer.algebra.ridge.essential import linear as linear_form
from exactformer.algebra.ridge.lower_bound import least_width
from exactformer.algebra.ring import ring
from exactformer.errors import SizeError
from tests.cases.polynomials import polynomials

NAMES = ["a", "b", "c", "d", "e", "f"]
SMALL = st.integers(-5, 5)
SCALARS = st.integers(-9, 9).filter(bool)


def linear(vector, names):
    units = [tuple(int(i == j) for j in range(len(names))) for i in range(len(names))]
    return Polynomial.from_terms(dict(zip(units, vector, strict=True)), names)


def widths(polynomial):
    form = ridge_form(polynomial)
    assert form.to_polynomial() == polynomial
    return form.width


@st.composite
def vectors(draw, count, dimension):
    """Directions no two of which are parallel."""
    drawn = [draw(st.tuples(*[SMALL] * dimension)) for _ in range(count)]
    lines = set()
    for v in drawn:
        assume(any(v))
        lead = next(c for c in v if c)
        lines.add(tuple(Fraction(c, lead) for c in v))
    assume(len(lines) == count)
    return drawn


def power_sum(directions, coefficients, names):
    """Σ_k Σ_s c_ks (v_k·x)^s."""
    total = Polynomial.from_terms({}, names)
    for v, row in zip(directions, coefficients, strict=True):
        for s, c in row.items():
            total += linear(v, names) ** s * c
    return total


@pytest.mark.parametrize(("d", "q"), [(2, 60), (6, 8), (10, 5), (3, 1)])
def test_a_power_of_a_linear_form_takes_one_direction(d, q):
    names = [f"x{i}" for i in range(d)]
    assert widths(linear(range(1, d + 1), names) ** q) == 1


@settings(max_examples=25)
@given(st.data(), st.integers(1, 6))
def test_a_polynomial_in_one_linear_form_takes_one_direction(data, d):
    (v,) = data.draw(vectors(1, d))
    row = data.draw(st.dictionaries(st.integers(1, 6), SCALARS, min_size=1))
    assert widths(power_sum([v], [row], NAMES[:d]) + 7) == 1


@settings(max_examples=40)
@given(st.data(), st.integers(2, 5))
def test_powers_of_independent_linear_forms_are_found(data, d):
    """As many as there are variables at most, of degree 3 and more each, lower powers added."""
    count = data.draw(st.integers(2, d))
    planted = data.draw(vectors(count, d))
    rows = [
        {data.draw(st.integers(3, 5)): data.draw(SCALARS), 2: data.draw(SMALL), 1: data.draw(SMALL)}
        for _ in planted
    ]
    assume(independent(planted))
    assert widths(power_sum(planted, rows, NAMES[:d])) <= count


@settings(max_examples=25)
@given(st.data())
def test_more_powers_than_variables_are_found_in_higher_degree(data):
    """Up to six fifth powers in three variables: their squares span the quadratic forms."""
    count = data.draw(st.integers(4, 6))
    planted = data.draw(vectors(count, 3))
    squares = [[v[i] * v[j] for i in range(3) for j in range(i + 1)] for v in planted]
    assume(independent(squares))
    rows = [{5: data.draw(SCALARS)} for _ in planted]
    assert widths(power_sum(planted, rows, NAMES[:3])) <= count


@settings(max_examples=25)
@given(st.data(), st.integers(1, 4))
def test_sums_of_powers_in_two_variables_are_found(data, count):
    planted = data.draw(vectors(count, 2))
    rows = [{7: data.draw(SCALARS), 4: data.draw(SMALL), 2: data.draw(SMALL)} for _ in planted]
    assert widths(power_sum(planted, rows, NAMES[:2])) <= max(count, 1)


@settings(max_examples=40)
@given(st.data(), st.integers(1, 6))
def test_quadratics_take_their_rank_and_one_more_for_what_is_linear(data, d):
    rank = data.draw(st.integers(1, d))
    planted = data.draw(vectors(rank, d))
    rows = [{2: data.draw(SCALARS)} for _ in planted]
    quadratic = power_sum(planted, rows, NAMES[:d])
    assume(quadratic.degree == 2)
    assert widths(quadratic) <= rank
    extra = data.draw(st.tuples(*[SMALL] * d))
    assert widths(quadratic + linear(extra, NAMES[:d]) - 3) <= rank + 1


def test_a_dense_quadratic_in_forty_variables_takes_forty():
    names = [f"x{i}" for i in range(40)]
    terms = {}
    for i in range(40):
        for j in range(i, 40):
            exponents = [0] * 40
            exponents[i] += 1
            exponents[j] += 1
            terms[tuple(exponents)] = (7 * i + 11 * j + i * j) % 19 - 9
    form = ridge_form(Polynomial.from_terms(terms, names))
    assert form.to_polynomial() == Polynomial.from_terms(terms, names)
    assert form.width == 40


def test_quadratics_that_are_diagonal_together_share_their_directions():
    x, y, z = "(x + 2 y)^2", "(3 x - z)^2", "(y + z)^2"
    target = Target.coerce([f"{x} + {y} - {z}", f"2 {x} - 5 {y} + {z}", f"{x} + 7 {z}"])
    forms = ridge_forms(target.polynomials)
    assert [form.to_polynomial() for form in forms] == list(target)
    assert {form.width for form in forms} == {3}
    assert len({form.directions for form in forms}) == 1


def test_components_share_the_powers_of_all():
    first, second, third = "(x + y + z)^4", "(x - 2 y)^4", "(y + 3 z)^4"
    target = Target.coerce([f"{first} + {second}", f"{second} - {third}", f"{third}"])
    forms = ridge_forms(target.polynomials)
    assert [form.to_polynomial() for form in forms] == list(target)
    assert {form.width for form in forms} == {3}


@pytest.mark.parametrize(("n", "width"), [(4, 5), (5, 6), (6, 7), (8, 9)])
def test_the_third_elementary_symmetric_polynomial_takes_one_more_than_variables(n, width):
    names = [f"x{i}" for i in range(n)]
    terms = {
        tuple(int(i in (a, b, c)) for i in range(n)): 1
        for a in range(n)
        for b in range(a)
        for c in range(b)
    }
    assert widths(Polynomial.from_terms(terms, names)) == width


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("(x^2 + y^2)^3", 4),
        ("x y", 2),
        ("x y z", 4),
        ("x^3 y", 4),
        ("x^2 + 3 x y", 2),
        ("(x + y)^6 + (z - w)^5 + z w", 3),
        ("x^20 + y^20 + (x + y)^20", 3),
        ("3", 1),
    ],
)
def test_widths_of_known_polynomials(text, width):
    assert widths(Polynomial.parse(text)) == width


@pytest.mark.parametrize("q", [3, 6, 10])
def test_a_dense_polynomial_in_two_variables_keeps_its_digits(q):
    """Evenly spread directions: absolute terms are not much larger than the polynomial."""
    terms = {(i, j): 1 + (3 * i + 5 * j) % 7 for i in range(q + 1) for j in range(q + 1 - i)}
    polynomial = Polynomial.from_terms(terms, ["x", "y"])
    form = ridge_form(polynomial)
    assert form.to_polynomial() == polynomial
    assert form.width <= q + 1
    assert form.amplification() < 10


def test_the_width_is_checked_before_coefficients_are_computed():
    seen = []

    def refuse(width):
        seen.append(width)
        if width > 3:
            raise SizeError("too wide")

    with pytest.raises(SizeError, match="too wide"):
        ridge_form(Polynomial.parse("x y z + w^2"), check_width=refuse)
    assert seen[-1] == 5


@settings(max_examples=30)
@given(polynomials(max_width=40))
def test_no_width_is_below_the_lower_bound(p):
    assert least_width([p]) <= ridge_form(p).width


@pytest.mark.parametrize(
    ("text", "least"), [("x^2 y^2", 3), ("x^9", 1), ("x y z", 3), ("x + y", 1)]
)
def test_lower_bounds_of_known_polynomials(text, least):
    assert least_width([Polynomial.parse(text)]) == least


def test_polynomials_depend_on_their_essential_variables_alone():
    target = Target.coerce(["(x + 2 y)^3 - (y + z - w)^2", "(x + 2 y) (y + z - w)"])
    forms, inner = essential([p.flint for p in target], 4)
    assert len(forms) == 2
    for polynomial, own in zip(target, inner, strict=True):
        assert own.compose(*map(linear_form, forms), ctx=ring(4)) == polynomial.flint
    assert essential([Polynomial.parse("x^2 + x y").flint], 2) is None


def independent(rows):
    from flint import fmpz_mat

    return fmpz_mat([list(row) for row in rows]).rank() == len(rows)
