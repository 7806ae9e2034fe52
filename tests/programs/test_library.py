"""The library's programs do what their statements say, as lists and as certified models.

Those that tracr has too are in :mod:`tests.programs.test_tracr_cases`.
"""

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

HALF = Fraction(1, 2)

# Program, vocabulary, longest input, causal, an input, its output.
CASES: dict[str, tuple[Any, Any, int, bool, Any, list[Any]]] = {
    "copy": (library.make_copy(), "ab", 4, True, "aba", list("aba")),
    "shuffle-Dyck 1": (library.make_shuffle_dyck(["()"]), "()", 6, False, "(())", [1] * 4),
    "sort of tokens that may be equal": (
        *(library.make_sort_unique(rasp.tokens, rasp.tokens), [1, 2, 3, 4], 5, False),
        *([2, 2, 4], [2, None, 4]),
    ),
    "sort by added index": (
        library.make_sort_unique(
            rasp.tokens, rasp.SequenceMap(lambda x, i: x + i / 5, rasp.tokens, rasp.indices)
        ),
        *([1, 2, 3, 4], 5, False, [2, 4, 1, 2], [1, 2, 2, 4]),
    ),
    "most frequent": (library.make_most_frequent(), "abc", 5, False, "abcb", ["b"] * 4),
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


@pytest.mark.spread(9)
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
