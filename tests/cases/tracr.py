"""The programs that tracr tests its compiler with, by its names for them, and programs it gets wrong.

A row is a program with vocabulary and largest length, whether it is causal, and inputs with outputs by
the name of tracr's case. Where tracr has no output, or one of another length than the input, ours
follows from the program.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from exactformer import rasp
from exactformer.programs import library as lib

THIRD, HALF = Fraction(1, 3), Fraction(1, 2)
TRUE, EQ, LT = rasp.Comparison.TRUE, rasp.Comparison.EQ, rasp.Comparison.LT
tokens, indices = rasp.tokens, rasp.indices


@dataclass(frozen=True)
class Row:
    """A program and what it gives."""

    program: rasp.SOp
    vocabulary: Any
    max_length: int
    cases: dict[str, tuple[Any, list[Any]]]
    causal: bool = False


def quotients(*pairs: tuple[int, int]) -> list[Any]:
    """Return fractions of counts, as the interpreter gives them."""
    return [rasp.evaluate(rasp.Full(Fraction(a, b)), "x")[0] for a, b in pairs]


def under_both() -> dict[str, Row]:
    """Return the programs that are meant the same whether later positions are seen or not."""
    brackets, text = "abc()", "a()b(c))"
    opened = [(0, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 6), (2, 7), (2, 8)]
    closed = [(0, 1), (0, 2), (1, 3), (1, 4), (1, 5), (1, 6), (2, 7), (3, 8)]
    ab = lib.detect_pattern(tokens, "ab")
    return {
        "frac_prevs of l": Row(
            *(lib.make_frac_prevs(tokens == "l"), "helo", 5),
            {"frac_prevs_1": ("hello", [0, 0, THIRD, HALF, Fraction(2, 5)])},
        ),
        "frac_prevs of (": Row(
            *(lib.make_frac_prevs(tokens == "("), brackets, 10),
            {"frac_prevs_2": (text, quotients(*opened))},
        ),
        "frac_prevs of )": Row(
            *(lib.make_frac_prevs(tokens == ")"), brackets, 10),
            {"frac_prevs_3": (text, quotients(*closed))},
        ),
        "shift by 1": Row(
            lib.shift_by(1), "abcd", 5, {"shift_by_one": ("abcd", [None, "a", "b", "c"])}
        ),
        "shift by 2": Row(
            lib.shift_by(2), "abcd", 5, {"shift_by_two": ("abcd", [None, None, "a", "b"])}
        ),
        "pattern a": Row(
            *(lib.detect_pattern(tokens, "a"), "abcd", 5),
            {"detect_pattern_a": ("bacd", [0, 1, 0, 0])},
        ),
        "pattern ab": Row(
            *(ab, "ab", 5),
            {
                "detect_pattern_ab": ("aaba", [None, 0, 1, 0]),
                "detect_pattern_ab_2": ("abaa", [None, 1, 0, 0]),
                "detect_pattern_ab_3": ("aaaa", [None, 0, 0, 0]),
            },
        ),
        "pattern abc": Row(
            *(lib.detect_pattern(tokens, "abc"), "abc", 6),
            {"detect_pattern_abc": ("abcabc", [None, None, 1, 0, 0, 1])},
        ),
    }


def everywhere() -> dict[str, Row]:
    """Return the programs for attention to all positions."""
    four, less = [1, 2, 3, 4], lib.make_count_less_freq(2)
    lengths = {"1": ("abc", [3] * 3), "2": ("ad", [2] * 2), "3": ("c", [1])}
    rare = {"1": ("aaabbc", [3] * 6), "2": ("aacbbc", [6] * 6)}
    dyck2, dyck3 = lib.make_shuffle_dyck(["()", "{}"]), lib.make_shuffle_dyck(["()", "{}", "[]"])
    return {
        "reverse": Row(
            *(lib.make_reverse(), "abcd", 5),
            {
                f"reverse_{k}": (text, list(text[::-1]))
                for k, text in enumerate(("abcd", "abc", "ad", "c"), start=1)
            },
        ),
        "length": Row(
            *(rasp.categorical(lib.make_length()), "abcd", 3),
            {f"length_categorical_{k}": case for k, case in lengths.items()},
        ),
        "length as a number": Row(
            *(rasp.numerical(lib.make_length()), "abcd", 3),
            {f"length_numerical_{k}": case for k, case in lengths.items()},
        ),
        "pair balance": Row(
            *(lib.make_pair_balance(tokens, "(", ")"), "abc()", 10),
            {
                "pair_balance_1": (
                    "a()b(c))",
                    [0, HALF, 0, 0, Fraction(1, 5), Fraction(1, 6), 0, Fraction(-1, 8)],
                )
            },
        ),
        "shuffle_dyck2": Row(
            *(dyck2, "(){}", 5),
            {
                "shuffle_dyck2_1": ("({)}", [1] * 4),
                "shuffle_dyck2_2": ("(){)}", [0] * 5),
                "shuffle_dyck2_3": ("{}(", [0] * 3),
            },
        ),
        "shuffle_dyck3": Row(
            *(dyck3, "(){}[]", 6),
            {
                "shuffle_dyck3_1": ("({)[}]", [1] * 6),
                "shuffle_dyck3_2": ("(){)}", [0] * 5),
                "shuffle_dyck3_3": ("{}[(]", [0] * 5),
            },
        ),
        "hist": Row(lib.make_hist(), "abcd", 5, {"hist": ("abac", [2, 1, 2, 1])}),
        "sort_unique of tokens": Row(
            *(lib.make_sort_unique(tokens, tokens), four, 5),
            {"sort_unique_1": ([2, 4, 3, 1], four)},
        ),
        "sort_unique by position": Row(
            *(lib.make_sort_unique(tokens, 1 - indices), "abcd", 5),
            {"sort_unique_2": ("abcd", list("dcba"))},
        ),
        "sort of tokens": Row(
            *(lib.make_sort(tokens, tokens, max_seq_len=5, min_key=1), four, 5),
            {"sort_1": ([2, 4, 3, 1], four), "sort_3": ([2, 4, 1, 2], [1, 2, 2, 4])},
        ),
        "sort by position": Row(
            *(lib.make_sort(tokens, 1 - indices, max_seq_len=5, min_key=1), "abcd", 5),
            {"sort_2": ("abcd", list("dcba"))},
        ),
        "sort_freq": Row(
            lib.make_sort_freq(max_seq_len=5), four, 5, {"sort_freq": ([2, 4, 2, 1], [2, 2, 4, 1])}
        ),
        "count_less_freq": Row(
            *(less, "abcd", 6),
            {f"make_count_less_freq_categorical_{k}": case for k, case in rare.items()},
        ),
        "count_less_freq as a number": Row(
            *(rasp.numerical(less), "abcd", 6),
            {f"make_count_less_freq_numerical_{k}": case for k, case in rare.items()},
        ),
        "count": Row(
            *(lib.make_count(tokens, "a"), "abc", 8),
            {
                "make_count_1": ("aaabbc", [3] * 6),
                "make_count_2": ("cabc", [1] * 4),
                "make_count_3": ("bbc", [0] * 3),
            },
        ),
        "three arguments": Row(
            lib.make_nary_sequencemap(lambda x, y, z: x + y - z, tokens, tokens, indices),
            *([1, 2, 3], 5, {"make_nary_sequencemap_1": ([1, 2, 3], [2, 3, 4])}),
        ),
        "a quotient": Row(
            lib.make_nary_sequencemap(lambda x, y, z: x * y / z, indices, indices, tokens),
            *([1, 2, 3], 3, {"make_nary_sequencemap_2": ([1, 2, 3], [0, HALF, Fraction(4, 3)])}),
        ),
    }


def causal() -> dict[str, Row]:
    """Return the causal programs."""
    width = rasp.SelectorWidth(rasp.Select(tokens, tokens, TRUE))
    own = {"width": Row(width, "abcd", 5, {"selector_width": ("abcd", [1, 2, 3, 4])})}
    return {
        f"{name}, causal": Row(row.program, row.vocabulary, row.max_length, row.cases, True)
        for name, row in {**under_both(), **own}.items()
    }


def contributed() -> dict[str, Row]:
    """Return two programs that were added to tracr's list later."""
    place = rasp.SequenceMap(lambda x, y: x or y, rasp.Map(lambda x: x - 2, indices), indices)
    never = rasp.Map(lambda x: x < False, rasp.Map(lambda x: x > 1, tokens))
    first = rasp.Aggregate(rasp.Select(never, never, rasp.Comparison.LEQ), place)
    own = rasp.Aggregate(rasp.Select(indices, indices, lambda x, y: x == y), indices)
    smaller = rasp.SelectorWidth(rasp.Select(tokens, tokens, lambda x, y: x < y))
    other = rasp.Select(smaller, own, lambda x, y: x != y)
    second = rasp.Aggregate(other, rasp.SequenceMap(lambda x, y: x - y, smaller, smaller))
    nine = list(range(9))
    return {
        "ov 1": Row(first, nine, 6, {"ov_test_case_1": ([0, 5, 8], [-THIRD] * 3)}),
        "ov 2": Row(second, nine, 6, {"ov_test_case_2": ([1, 3], [0, 0])}),
    }


def refused() -> dict[str, Row]:
    """Return the programs that tracr refuses: it mixes no encodings."""
    everything = rasp.Select(tokens, tokens, TRUE)
    number = rasp.numerical(rasp.Map(lambda x: x, tokens))
    place = rasp.numerical(rasp.Map(lambda x: x, indices))
    same = rasp.Select(indices, indices, EQ)
    mean = ([1, 2, 2], [Fraction(5, 3)] * 3)
    found = {
        "numerical_categorical_aggregate": (rasp.Aggregate(everything, number), mean),
        "categorical_numerical_aggregate": (
            rasp.numerical(rasp.Aggregate(everything, tokens)),
            mean,
        ),
        "numerical_numerical_aggregate": (
            rasp.numerical(rasp.Aggregate(everything, number, default=0)),
            mean,
        ),
        "aggregate_with_not_None_default": (
            rasp.numerical(rasp.Aggregate(same, tokens, default=1)),
            ([3, 1, 2], [3, 1, 2]),
        ),
        "numerical_selector": (
            rasp.SelectorWidth(rasp.Select(number, number, LT)),
            ([3, 1, 2], [2, 0, 1]),
        ),
        "numerical_SequenceMap": (
            rasp.numerical(rasp.SequenceMap(lambda x, y: x + y, place, number)),
            ([3, 1, 2], [3, 2, 4]),
        ),
        "categorical_LinearSequenceMap": (
            rasp.categorical(
                rasp.LinearSequenceMap(rasp.categorical(indices), rasp.categorical(tokens), 1, 1)
            ),
            ([3, 1, 2], [3, 2, 4]),
        ),
        "numerical_tokens": (rasp.numerical(tokens), ([3, 1, 2], [3, 1, 2])),
        "numerical_indices": (rasp.numerical(indices), ([3, 1, 2], [0, 1, 2])),
    }
    return {
        name: Row(program, [1, 2, 3], 5, {name: case}) for name, (program, case) in found.items()
    }


ROWS = {**under_both(), **everywhere(), **causal(), **contributed(), **refused()}
