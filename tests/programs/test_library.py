"""The library's programs do what their statements say, as lists and as certified models."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import torch

import exactformer as ef
from exactformer import rasp
from exactformer.errors import InputError
from exactformer.programs import library
from tests.cases.programs import all_inputs

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)

# Program, vocabulary, longest input, causal, an input, its output.
CASES: dict[str, tuple[Any, Any, int, bool, Any, list[Any]]] = {
    "length": (library.make_length(), "abcd", 3, False, "abc", [3, 3, 3]),
    "length as a number": (rasp.numerical(rasp.length), "abcd", 3, False, "ad", [2, 2]),
    "tokens so far": (library.make_length(), "abcd", 5, True, "abcd", [1, 2, 3, 4]),
    "copy": (library.make_copy(), "ab", 4, True, "aba", list("aba")),
    "reverse": (library.make_reverse(), "abcd", 5, False, "abcd", list("dcba")),
    "reverse of one": (library.make_reverse(), "abcd", 5, False, "c", ["c"]),
    "hist": (library.make_hist(), "abcd", 5, False, "abac", [2, 1, 2, 1]),
    "frac_prevs": (
        *(library.make_frac_prevs(rasp.tokens == "l"), "helo", 5, False),
        *("hello", [0, 0, THIRD, HALF, Fraction(2, 5)]),
    ),
    "frac_prevs, causal": (
        *(library.make_frac_prevs(rasp.tokens == "("), "abc()", 8, True),
        *("a()b(", [0, HALF, THIRD, Fraction(1, 4), Fraction(2, 5)]),
    ),
    "shift": (library.shift_by(1), "abcd", 5, False, "abcd", [None, "a", "b", "c"]),
    "shift by two, causal": (library.shift_by(2), "abcd", 5, True, "abcd", [None, None, "a", "b"]),
    "pattern a": (library.detect_pattern(rasp.tokens, "a"), "abcd", 5, False, "bacd", [0, 1, 0, 0]),
    "pattern ab": (
        *(library.detect_pattern(rasp.tokens, "ab"), "ab", 5, False),
        *("aaba", [None, 0, 1, 0]),
    ),
    "pattern abc, causal": (
        *(library.detect_pattern(rasp.tokens, "abc"), "abc", 6, True),
        *("abcabc", [None, None, 1, 0, 0, 1]),
    ),
    "pair balance": (
        *(library.make_pair_balance(rasp.tokens, "(", ")"), "abc()", 8, False),
        *("a()b(c))", [0, HALF, 0, 0, Fraction(1, 5), Fraction(1, 6), 0, Fraction(-1, 8)]),
    ),
    "shuffle-Dyck 1": (library.make_shuffle_dyck(["()"]), "()", 6, False, "(())", [1] * 4),
    "shuffle-Dyck 2": (library.make_shuffle_dyck(["()", "{}"]), "(){}", 5, False, "({)}", [1] * 4),
    "shuffle-Dyck 2, no": (
        *(library.make_shuffle_dyck(["()", "{}"]), "(){}", 5, False),
        *("(){)}", [0] * 5),
    ),
    "shuffle-Dyck 3": (
        *(library.make_shuffle_dyck(["()", "{}", "[]"]), "(){}[]", 6, False),
        *("({)[}]", [1] * 6),
    ),
    "sort": (library.make_sort(), [1, 2, 3, 4], 5, False, [2, 4, 1, 2], [1, 2, 2, 4]),
    "sort of tokens that may be equal": (
        *(library.make_sort_unique(rasp.tokens, rasp.tokens), [1, 2, 3, 4], 5, False),
        *([2, 2, 4], [2, None, 4]),
    ),
    "sort by index": (
        *(library.make_sort_unique(rasp.tokens, 1 - rasp.indices), "abcd", 5, False),
        *("abcd", list("dcba")),
    ),
    "sort by added index": (
        library.make_sort_unique(
            rasp.tokens, rasp.SequenceMap(lambda x, i: x + i / 5, rasp.tokens, rasp.indices)
        ),
        *([1, 2, 3, 4], 5, False, [2, 4, 1, 2], [1, 2, 2, 4]),
    ),
    "sort by frequency": (
        library.make_sort_freq(),
        [1, 2, 4],
        5,
        False,
        [2, 4, 2, 1],
        [2, 2, 4, 1],
    ),
    "most frequent": (library.make_most_frequent(), "abc", 5, False, "abcb", ["b"] * 4),
    "count": (library.make_count(rasp.tokens, "a"), "abc", 6, False, "cabc", [1] * 4),
    "count less frequent": (
        *(library.make_count_less_freq(2), "abcd", 6, False),
        *("aaabbc", [3] * 6),
    ),
    "three arguments": (
        library.make_nary_sequencemap(
            lambda x, y, z: x + y - z, rasp.tokens, rasp.tokens, rasp.indices
        ),
        *([1, 2, 3], 5, False, [1, 2, 3], [2, 3, 4]),
    ),
    "quotient": (
        library.make_nary_sequencemap(
            lambda x, y, z: x * y / z, rasp.indices, rasp.indices, rasp.tokens
        ),
        *([1, 2, 3], 3, False, [1, 2, 3], [0, HALF, Fraction(4, 3)]),
    ),
    "induction": (
        library.make_induction(),
        "abc",
        6,
        True,
        "abacab",
        [None, None, "b", None, "c", "a"],
    ),
    "addition": (library.make_addition(2), range(10), 4, False, [5, 9, 7, 0], [2, 0, 1, None]),
    "mean of tokens": (
        rasp.Aggregate(rasp.Select(rasp.tokens, rasp.tokens, rasp.Comparison.TRUE), rasp.tokens),
        *([1, 2, 3], 4, False, [1, 3, 3], [Fraction(7, 3)] * 3),
    ),
    "a union of selectors": (
        rasp.Aggregate(
            rasp.Select(rasp.tokens, rasp.tokens, rasp.Comparison.EQ)
            | rasp.Select(rasp.indices, rasp.indices, rasp.Comparison.EQ),
            rasp.indices,
        ),
        *("ab", 4, False, "aab", [HALF, HALF, 2]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_program_is_as_stated(name: str) -> None:
    expression, _, _, causal, xs, wanted = CASES[name]
    assert rasp.evaluate(expression, xs, causal) == wanted


@pytest.mark.parametrize("realisation", ["hard", "softmax"])
@pytest.mark.parametrize("name", CASES)
def test_its_model_computes_it(name: str, realisation: str) -> None:
    expression, vocabulary, longest, causal, xs, wanted = CASES[name]
    model = ef.compile_program(
        expression,
        vocabulary=vocabulary,
        max_length=longest,
        causal=causal,
        realisation=realisation,
        dtype=torch.float32 if realisation == "softmax" else torch.float64,
    )
    assert model.decode(xs) == wanted
    inputs = all_inputs(list(model.vocabulary), longest, 60)
    assert model.decode(inputs) == [rasp.evaluate(expression, ys, causal) for ys in inputs]
    bound = model.certificate.bound()
    assert model.measure(samples=8).value <= bound
    if realisation == "hard":
        ids = model.encode(xs)
        found = model.exact(ids)
        assert (
            model.decode_output(torch.tensor([[float(v) for v in row] for row in found])) == wanted
        )
        assert model.certificate.zero_error


def test_an_ambiguous_program_is_refused_with_an_input_that_shows_it() -> None:
    everything = rasp.Select(rasp.tokens, rasp.tokens, rasp.Comparison.TRUE)
    with pytest.raises(InputError, match=r"On the input \['a', 'b'\]"):
        ef.compile_program(rasp.Aggregate(everything, rasp.tokens), vocabulary="ab", max_length=3)
    # Numbers have a mean, but what is None where nothing is selected and a mean elsewhere has no code.
    with pytest.raises(InputError, match="default=0"):
        ef.compile_program(
            library.make_sort_unique(rasp.indices, rasp.tokens), vocabulary="ab", max_length=3
        )


def test_a_statement_goes_with_every_program() -> None:
    for name, make in library.PROGRAMS.items():
        assert isinstance(library.program_named(name), rasp.SOp)
        assert make.__doc__ or make.__name__ == "<lambda>"
    with pytest.raises(InputError, match="there is no program"):
        library.program_named("sing")
    with pytest.raises(InputError):
        library.detect_pattern(rasp.tokens, "")
    with pytest.raises(InputError):
        library.make_shuffle_dyck([])
    with pytest.raises(InputError):
        library.make_addition(0)
