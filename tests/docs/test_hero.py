"""The first screen: every number of the picture is of a run, and every sentence of it a test."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

import exactformer as ef
from docs import hero
from exactformer.core.layers import Rule
from exactformer.programs import library

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def shown() -> hero.Run:
    return hero.run()


@pytest.mark.parametrize("name", hero.PALETTES)
def test_the_picture_is_that_of_a_run(shown: hero.Run, name: str) -> None:
    stored = (ROOT / "docs" / "assets" / "drawn" / name).read_text()
    assert stored == hero.svg(shown, hero.PALETTES[name]), "python docs/hero.py draws it anew"


def test_the_picture_says_what_the_heads_do(shown: hero.Run) -> None:
    letters = len(shown.word)
    assert shown.share == pytest.approx(1 / (letters + 1))
    assert shown.lengths == [letters] * letters
    assert shown.opposite == shown.looks_at == [*range(letters)][::-1]
    assert shown.weight > 1 - 1e-12
    assert shown.output == shown.word[::-1]


def test_a_picture_of_another_run_is_another_picture(shown: hero.Run) -> None:
    other = replace(shown, opposite=[0] * len(shown.word))
    assert hero.svg(other, hero.PALETTES["hero.svg"]) != hero.svg(shown, hero.PALETTES["hero.svg"])


def test_every_input_is_right() -> None:
    """Of a smaller size, one by one; the certificate is about all sizes."""
    model = ef.compile_program(
        library.make_reverse(), vocabulary="der", max_length=4, realisation="softmax"
    )
    for n in range(1, 5):
        for word in product("der", repeat=n):
            assert model.decode(list(word)) == list(word)[::-1]


def test_attention_is_a_hard_maximum_where_the_result_is_exact() -> None:
    """A polynomial is exact under the one-hot maximum; under softmax its error is bounded."""
    exact = ef.compile("x^2+3xy", radius=2)
    assert exact.certificate.zero_error
    assert {block.attention.selection.rule for block in exact.blueprint.blocks} <= {
        Rule.HARD_MAX,
        Rule.ONE_HOT_MAX,
    }
    soft = ef.compile("x^2+3xy", radius=2, construction="softmax")
    assert 0 < soft.certificate.bound() < 1e-6


def test_programs_open_in_transformer_lens() -> None:
    """What the table says of them; formulas have no such form."""
    model = ef.compile_program(
        library.make_reverse(), vocabulary="ab", max_length=3, realisation="softmax"
    )
    assert hasattr(model, "to_transformer_lens")
    if importlib.util.find_spec("transformer_lens") is None:
        pytest.skip("transformer-lens is not installed")
    assert model.to_transformer_lens() is not None
