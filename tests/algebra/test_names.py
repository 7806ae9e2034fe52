"""Letters side by side: one name, or a refusal with both ways out; never silently the wrong one."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import exactformer as ef
from exactformer.algebra import Polynomial, Target
from exactformer.algebra.names import FUNCTIONS, GREEK, misreading, products
from exactformer.errors import ParseError, UnknownVariableError

LETTERS = "abcdfghjklmnpqrstuvwxyz"
WORDS = (
    "alpha",
    "temp",
    "mass",
    "age",
    "bmi",
    "oxygen",
    "x_max",
    "_w",
    "x1",
    "x10",
    "z12",
    "x_12",
    "temp_1",
    "hr_mean",
    "x_1",
)


@pytest.mark.parametrize(
    ("text", "column", "product"),
    [
        ("3xy", 2, "x y"),
        ("ax^2 + bx + c", 1, "a x"),
        ("mc^2", 1, "m c"),
        ("2x1x2", 2, "x1 x2"),
        ("x2y", 1, "x2 y"),
        ("ax1 + b", 1, "a x1"),
        ("3x_1x_2", 2, "x_1 x_2"),
        ("ax_1 + b", 1, "a x_1"),
        ("abcd", 1, "a b c d"),
        ("wxyz", 1, "w x y z"),
        ("αβ", 1, "α β"),
    ],
)
def test_what_may_be_a_product_is_refused_with_both_ways_out(
    text: str, column: int, product: str
) -> None:
    with pytest.raises(ParseError) as caught:
        Polynomial.parse(text)
    assert caught.value.column == column
    assert f"write {product} (or {product.replace(' ', '*')})" in str(caught.value)
    assert "variables=" in str(caught.value)


@pytest.mark.parametrize("name", [*WORDS, *sorted(GREEK), "x" * 40, "été", "температура"])
def test_what_looks_like_one_name_is_one(name: str) -> None:
    assert Polynomial.parse(f"2 {name}^2").terms() == {(2,): 2}
    assert Polynomial.parse(f"2 {name}^2").variables == (name,)


@given(st.permutations(WORDS[:-1]))
def test_words_stay_names_next_to_each_other(names: list[str]) -> None:
    assert set(Polynomial.parse(" + ".join(names)).variables) == set(names)


@given(st.lists(st.sampled_from(LETTERS), min_size=2, max_size=6))
def test_a_product_of_single_letters_is_never_read_as_one_name(letters: list[str]) -> None:
    """Whether or not the letters stand elsewhere in the text: e, i, o are not among these."""
    run = "".join(letters)
    alone = misreading(run, [run])
    consecutive = all(ord(b) - ord(a) == 1 for a, b in pairwise(run))
    if len(run) < 4 or not set(run) & set("aeiou") or consecutive:
        assert alone is not None
    spaced = Polynomial.parse(" ".join(letters))
    assert spaced.degree == len(letters)
    apart = sorted(set(letters))
    beside = Polynomial.parse(" + ".join([*apart, f"2{run}"]))
    assert beside == Polynomial.parse(" + ".join([*apart, "2 " + " ".join(letters)]))


@given(st.lists(st.sampled_from(WORDS), min_size=2, max_size=3))
def test_a_name_made_of_other_names_is_their_product_or_refused(names: list[str]) -> None:
    run = "".join(names)
    apart = [*dict.fromkeys(names)]
    try:
        found = Polynomial.parse(" + ".join([*apart, run]))
    except ParseError:
        return
    assert found == Polynomial.parse(" + ".join([*apart, " ".join(names)]))


@pytest.mark.parametrize(
    ("text", "spaced"),
    [
        ("x^2+3xy", "x^2 + 3 x y"),
        ("x^2 + 2xy + y^2", "x^2 + 2 x y + y^2"),
        ("x + 3xy^2", "x + 3 x y^2"),
        ("x1 + x2 + 2x1x2", "x1 + x2 + 2 x1 x2"),
        ("x - xx", "x - x^2"),
        ("alpha + beta + alphabeta", "alpha + beta + alpha beta"),
        ("(x + y)(1 + 2xy)", "(x + y)(1 + 2 x y)"),
    ],
)
def test_letters_next_to_one_of_their_factors_are_a_product(text: str, spaced: str) -> None:
    assert Polynomial.parse(text) == Polynomial.parse(spaced)


def test_two_ways_to_take_letters_apart_are_refused() -> None:
    assert products(["temp", "tempe", "rature", "erature", "temperature"]) == {}


def test_a_declared_name_is_never_taken_apart() -> None:
    assert Polynomial.parse("x + xy", ["x", "xy"]).degree == 1


def test_the_certificate_begins_with_how_text_was_read() -> None:
    first, *_ = str(ef.compile("x^2+3xy", radius=2).certificate).splitlines()
    assert first == "Certificate on ‖x‖ ≤ 2, xy read as x·y"
    assert "read as" not in str(ef.compile("x^2 + 3 x y", radius=2).certificate)


def test_a_declared_name_is_a_name() -> None:
    assert Polynomial.parse("x + xy", ["x", "xy"]).variables == ("x", "xy")
    assert Polynomial.parse("2 sin + pi", ["pi", "sin"]).coefficient((0, 1)) == 2


def test_an_unknown_name_says_which_product_it_may_be() -> None:
    with pytest.raises(UnknownVariableError, match="write x y for the product"):
        Polynomial.parse("2xy", ["x", "y"])


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@pytest.mark.parametrize("text", ["{}(x)", "x + {} x", r"\{} x"])
def test_functions_are_no_variables_unless_declared(name: str, text: str) -> None:
    with pytest.raises(ParseError, match="is a function"):
        Polynomial.parse(text.format(name).replace("log10", "log").replace("log2", "log"))


@pytest.mark.parametrize("text", ["2 pi r", "π r", r"2 \pi r"])
def test_the_number_pi_is_no_variable_unless_declared(text: str) -> None:
    with pytest.raises(ParseError, match="not a rational number"):
        Polynomial.parse(text)


@pytest.mark.parametrize("text", ["sinx", "2 expy + 1", "logt + t", "x1 cosx1"])
def test_functions_next_to_their_variables_are_no_names(text: str) -> None:
    with pytest.raises(ParseError, match="and text holds polynomials only"):
        Polynomial.parse(text)
    assert Polynomial.parse("sinx", ["sinx"]).variables == ("sinx",)


def test_words_that_begin_like_functions_stay_names() -> None:
    names = ("cost", "mode", "tank")
    assert Polynomial.parse(" + ".join(names)).variables == names


@pytest.mark.parametrize("text", ["1_000 x", "x^1_0", "2_x", "1.5_0"])
def test_an_underscore_behind_digits_begins_no_name(text: str) -> None:
    with pytest.raises(ParseError, match="write 1000 for 1_000"):
        Polynomial.parse(text)


@pytest.mark.parametrize(("one", "other"), [("x", "𝑥"), ("x", "ｘ"), ("µ", "μ")])
def test_letters_in_two_fonts_are_refused_together(one: str, other: str) -> None:
    with pytest.raises(ParseError, match="look like one variable"):
        Polynomial.parse(f"{one}^2 + {other}")
    assert Polynomial.parse(f"{one}^2 + {other}", [one, other]).dimension == 2


def test_spellings_that_print_alike_are_refused_together() -> None:
    with pytest.raises(ParseError, match="x1 and x_1 look like one variable"):
        Polynomial.parse("x_{1} + x1")
    assert Polynomial.parse("x_1 + x1", ["x1", "x_1"]).dimension == 2


@pytest.mark.parametrize("vector", ["alpha; beta; alphabeta", ["alpha", "beta alphabeta"]])
def test_components_of_a_vector_share_their_names(vector: object) -> None:
    with pytest.raises(ParseError, match="write alpha beta"):
        Target.coerce(vector)
    names = ["alpha", "alphabeta", "beta"]
    assert Target.coerce(vector, names).variables == tuple(names)
