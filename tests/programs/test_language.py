"""RASP on lists: tracr's names and meaning, exact numbers, refusals where an expression is written."""

from fractions import Fraction

import pytest

from exactformer import rasp
from exactformer.errors import InputError
from exactformer.programs.values import Whole, applied, canonical, in_order, read, spelled

tokens, indices, length = rasp.tokens, rasp.indices, rasp.length
EQ, LT, TRUE = rasp.Comparison.EQ, rasp.Comparison.LT, rasp.Comparison.TRUE


def test_primitives_are_the_tokens_their_positions_and_their_number() -> None:
    assert tokens("abc") == ["a", "b", "c"]
    assert indices("abc") == [0, 1, 2]
    assert length("abc") == [3, 3, 3]


def test_operators_act_position_by_position_and_numbers_are_exact() -> None:
    assert (indices / 3 + 1)("ab") == [1, Fraction(4, 3)]
    assert (1 - indices)("abc") == [1, 0, -1]
    assert ((indices + length) * 2)("ab") == [4, 6]
    assert (tokens == "a")("ab") == [True, False]
    assert ((tokens == "a") | (indices >= 1))("bb") == [False, True]
    assert (~(tokens == "a"))("ab") == rasp.sop_not(tokens == "a")("ab") == [0, 1]
    assert (tokens == indices)([0, 5]) == [1, 0]
    assert rasp.Map(lambda x: (x + 1) / 3, indices)("ab") == [Fraction(1, 3), Fraction(2, 3)]


def test_none_goes_through_maps_and_compares_with_itself_only() -> None:
    shifted = rasp.Aggregate(rasp.Select(indices, indices - 1, EQ), tokens)
    assert shifted("ab") == [None, "a"]
    assert rasp.Map(lambda x: x + "!", shifted)("ab") == [None, "a!"]
    assert rasp.SequenceMap(lambda x, y: x + y, shifted, tokens)("ab") == [None, "ab"]
    assert rasp.SelectorWidth(rasp.Select(shifted, shifted, EQ))("aab") == [1, 2, 2]
    with pytest.raises(InputError, match="no value at"):
        rasp.SelectorWidth(rasp.Select(shifted, shifted, LT))("ab")


def test_aggregates_move_a_shared_value_or_take_an_exact_mean() -> None:
    everything = rasp.Select(tokens, tokens, TRUE)
    assert rasp.Aggregate(everything, indices)("ab") == [Fraction(1, 2)] * 2
    assert rasp.Aggregate(everything, rasp.Full("x"))("ab") == ["x", "x"]
    nothing = rasp.Select(tokens, tokens, rasp.Comparison.FALSE)
    assert rasp.Aggregate(nothing, tokens, default="z")("ab") == ["z", "z"]
    with pytest.raises(InputError, match="different values"):
        rasp.Aggregate(everything, tokens)("ab")


def test_selectors_combine_as_sets() -> None:
    same, before = rasp.Select(tokens, tokens, EQ), rasp.Select(indices, indices, LT)
    assert rasp.SelectorWidth(same & before)("aba") == [0, 0, 1]
    assert rasp.SelectorWidth(same | before)("aba") == [2, 2, 3]
    assert rasp.SelectorWidth(~(same & before))("aba") == [3, 3, 2]


def test_a_causal_run_selects_up_to_the_position() -> None:
    count = rasp.SelectorWidth(rasp.Select(tokens, tokens, TRUE))
    assert rasp.evaluate(count, "abc", causal=True) == [1, 2, 3]
    assert rasp.evaluate(rasp.Select(tokens, tokens, TRUE), "ab", causal=True) == [
        [True, False],
        [True, True],
    ]
    with pytest.raises(InputError, match="causal"):
        rasp.evaluate(length, "ab", causal=True)


def test_constants_have_their_own_length() -> None:
    fixed = rasp.ConstantSOp([5, 6])
    assert fixed("ab") == [5, 6]
    with pytest.raises(InputError, match="2 values"):
        fixed("abc")
    rows = rasp.ConstantSelector([[True, False], [True, True]], check_length=False)
    assert rasp.SelectorWidth(rows)("a") == [1]


def test_names_and_annotations_make_copies() -> None:
    named = (tokens == "a").named("is a")
    assert named.name == "is a"
    assert (tokens == "a").name == "map"
    assert rasp.is_numerical(rasp.numerical(named))
    assert rasp.is_categorical(named)
    assert rasp.numerical(named).name == "is a"
    assert named.label != named.copy().label


@pytest.mark.parametrize(
    "write",
    [
        lambda: rasp.Map(lambda x: x, "a"),
        lambda: rasp.Map("f", tokens),
        lambda: rasp.Select(tokens, "a", EQ),
        lambda: rasp.Aggregate(tokens, tokens),
        lambda: rasp.SelectorWidth(tokens),
        lambda: rasp.LinearSequenceMap(tokens, tokens, "a", 1),
        lambda: rasp.Full([1, 2]),
        lambda: rasp.Aggregate(rasp.Select(tokens, tokens, EQ), tokens, default=[]),
        lambda: (tokens == "a") and (tokens == "b"),
        lambda: 0 < indices < 2,
        lambda: list(tokens),
        lambda: tokens & rasp.Select(tokens, tokens, EQ),
    ],
)
def test_what_cannot_be_meant_is_refused_where_it_is_written(write) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError):
        write()


def test_a_function_that_fails_is_named_with_its_value() -> None:
    with pytest.raises(InputError, match=r"inverse has no value at 0: ZeroDivisionError"):
        rasp.Map(lambda x: 1 / x, indices).named("inverse")("ab")


def test_equal_values_are_the_same_value() -> None:
    assert canonical(True) == 1
    assert type(canonical(True)) is int
    assert canonical(2.0) == 2
    assert canonical((1.5, "a")) == (Fraction(3, 2), "a")
    assert applied(lambda x, y: x / y, 1, 3) == Fraction(1, 3)
    assert 1 / Whole(3) == Fraction(1, 3)
    assert in_order(["b", None, 2, (1,), Fraction(1, 2), "a", 2]) == [
        *(None, Fraction(1, 2), 2, "a", "b"),
        (1,),
    ]
    with pytest.raises(InputError, match="not a value"):
        canonical(float("nan"))


@pytest.mark.parametrize("value", [None, 0, -7, Fraction(2, 3), "", "a\nb", (1, ("x", None))])
def test_values_are_spelled_without_loss(value: object) -> None:
    assert read(spelled(value)) == value
