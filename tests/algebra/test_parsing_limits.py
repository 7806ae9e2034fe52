"""Reading is linear in the text, and what is too much is refused, not tried."""

from fractions import Fraction

import pytest

from exactformer.algebra import Polynomial
from exactformer.algebra.parsing import MAX_NESTING
from exactformer.errors import ParseError, SizeError
from tests.waiting import ended_if_it_hangs


@pytest.mark.slow
def test_a_hundred_thousand_terms_parse() -> None:
    text = " + ".join(f"{i + 1} x{i % 9}^{i % 97} y^{i // 97}" for i in range(100_000))
    assert len(Polynomial.parse(text)) == 100_000


def test_ten_times_the_terms_are_ten_times_the_tokens_and_the_terms() -> None:
    small, large = (" + ".join(f"x^{i}" for i in range(n)) for n in (1_000, 10_000))
    assert len(Polynomial.parse(large)) == 10 * len(Polynomial.parse(small))


def test_nesting_has_a_limit() -> None:
    inside = "(" * MAX_NESTING + "x" + ")" * MAX_NESTING
    assert Polynomial.parse(inside).terms() == {(1,): 1}
    with pytest.raises(ParseError, match="nest"):
        Polynomial.parse(f"({inside})")
    with pytest.raises(ParseError, match="nest"):
        Polynomial.parse("1/(" * 100_000)


def test_long_rows_of_signs_are_fine() -> None:
    assert Polynomial.parse("-" * 100_001 + "x").terms() == {(1,): -1}


HOSTILE = {
    "huge exponent": "x^" + "9" * 10_000,
    "huge decimal exponent": "1e" + "9" * 10_000,
    "huge number": "9" * 70_000,
    "power of a number": "9^1000000",
    "tower": "((((9^99)^99)^99)^99)",
    "power of a wide sum": "(" + "+".join(f"x{i}" for i in range(200)) + ")^4999",
    "power of a power": "((x+y+z+1)^99)^99",
    "product of sums": "(x+y+z+w+1)^9" * 40,
    "degree": "x^1000000" * 3,
    "many variables": "+".join(f"x{i}" for i in range(20_000)),
    "many variables in groups": "+".join(f"(x{i}+1)" for i in range(20_000)),
    "sum of many fractions": "+".join(f"1/{2 * i + 1}" for i in range(1, 50_000)),
    "large coefficients": "9^30000" + "*7^30000/7^30000" * 2_000,
    "sum of large coefficients": "+".join(f"1e-{9999 - i % 99}/7^{i}" for i in range(10_000)),
    "large powers of decimals": "(x + 1e-9999)^999",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_refused(name: str) -> None:
    with ended_if_it_hangs(), pytest.raises((ParseError, SizeError)):
        Polynomial.parse(HOSTILE[name])


def test_exponents_with_many_zeros_before_them_are_numbers() -> None:
    assert Polynomial.parse("1e" + "0" * 5_000 + "1").constant == 10
    assert Polynomial.parse("1e-" + "0" * 5_000 + "1").constant == Fraction(1, 10)


def test_a_text_of_more_than_ten_million_characters_is_refused() -> None:
    with pytest.raises(SizeError, match="characters"):
        Polynomial.parse("x+" * 5_000_001 + "x")


def test_too_many_variables_are_refused_with_the_figures() -> None:
    with pytest.raises(SizeError, match="20,000 variables"):
        Polynomial.from_terms({}, [f"x{i}" for i in range(20_000)])
