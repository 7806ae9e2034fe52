"""Small models are run on every input there is, and decode what the program gives."""

from __future__ import annotations

from itertools import product

import pytest

import exactformer as ef
from tests.programs.test_library import CASES

MOST_INPUTS = 2_500


@pytest.mark.parametrize("realisation", ["hard", "softmax"])
@pytest.mark.parametrize("name", CASES)
def test_a_model_is_its_program_on_every_input(name: str, realisation: str) -> None:
    expression, vocabulary, longest, causal, _, _ = CASES[name]
    tokens = list(vocabulary)
    while sum(len(tokens) ** m for m in range(1, longest + 1)) > MOST_INPUTS:
        longest -= 1
    model = ef.compile_program(
        expression,
        vocabulary=tokens,
        max_length=longest,
        causal=causal,
        realisation=realisation,
    )
    inputs = [list(xs) for m in range(1, longest + 1) for xs in product(tokens, repeat=m)]
    assert model.decode(inputs) == [model.program(xs) for xs in inputs]
