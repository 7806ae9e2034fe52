"""Random programs against the interpreter: not one disagreement, and refusals that say why."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import exactformer as ef
from exactformer import rasp
from exactformer.errors import ExactformerError
from exactformer.programs.analysis import Analysis
from exactformer.programs.tabulation import tabulate
from tests.cases.programs import all_inputs, random_program
from tests.examples import examples

FORMATS = (torch.float64, torch.float64, torch.float32)


def agrees(seed: int) -> bool:
    """Compile a random program and compare; return whether there was something to compare."""
    expression, vocabulary, length, causal = random_program(seed)
    rng = random.Random(seed)
    try:
        model = ef.compile_program(
            expression,
            vocabulary=vocabulary,
            max_length=length,
            causal=causal,
            realisation=rng.choice(["hard", "softmax"]),
            dtype=rng.choice(FORMATS),
        )
    except ExactformerError:
        return False
    inputs = all_inputs(vocabulary, length, 120, seed)
    wanted = [rasp.evaluate(expression, xs, causal) for xs in inputs]
    assert model.decode(inputs) == wanted
    return True


@given(st.integers(0, 10**9))
@settings(max_examples=examples(40), deadline=None)
def test_a_random_program_and_its_model_agree(seed: int) -> None:
    agrees(seed)


def test_nearly_all_random_programs_are_compiled() -> None:
    assert sum(map(agrees, range(40))) >= 36


@pytest.mark.slow
def test_two_thousand_random_programs_and_their_models_agree() -> None:
    assert sum(map(agrees, range(2000))) >= 1800


@given(st.integers(0, 10**9))
@settings(max_examples=examples(40), deadline=None)
def test_sets_hold_every_value_that_occurs(seed: int) -> None:
    expression, vocabulary, length, causal = random_program(seed, depth=4)
    try:
        program = tabulate(expression, vocabulary, length, causal)
    except ExactformerError:
        return
    analysis = Analysis.of(program)
    for xs in all_inputs(vocabulary, length, 60, seed):
        assert program(xs) == rasp.evaluate(expression, xs, causal)
        for known, row in zip(analysis.known, program.run(xs), strict=True):
            for i, value in enumerate(row):
                cell = i if causal else len(xs) * (len(xs) - 1) // 2 + i
                assert known.sets[known.cells[cell], known.universe.index(value)]
