"""Matrices of a blueprint fit together, or it is refused before anything is proven."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from exactformer.core.layers import FeedForward, Rule, Selection
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError
from exactformer.programs import library
from exactformer.programs.blueprint import ProgramBlueprint, ProgramLayer, ProjectedHead, Register
from exactformer.programs.proof.shapes import check_program_shapes
from exactformer.programs.tabulation import tabulate

WIDTH, UNITS = 5, 4


def zeros(rows: int, columns: int) -> Matrix:
    return Matrix.of(rows, columns, {})


def right(beginning: bool = True) -> ProgramBlueprint:
    head = ProjectedHead(zeros(2, WIDTH), zeros(2, WIDTH), zeros(3, WIDTH), zeros(WIDTH, 3))
    relus = FeedForward(zeros(UNITS, WIDTH), zeros(UNITS, 1), zeros(WIDTH, UNITS), zeros(WIDTH, 1))
    return ProgramBlueprint(
        zeros(2 + beginning, WIDTH),
        zeros(3 + beginning, WIDTH),
        (ProgramLayer((head,), relus),),
        zeros(2, WIDTH),
        Selection(Rule.HARD_MAX),
        False,
        beginning,
        (Register(None, None, (0, WIDTH - 1), zeros(1 + beginning, 2)),),
        tuple(map(str, range(WIDTH))),
    )


@pytest.mark.parametrize("beginning", [True, False])
def test_what_fits_together_is_accepted(beginning: bool) -> None:
    check_program_shapes(right(beginning))
    check_program_shapes(right(beginning), tabulate(library.make_reverse(), "ab", 3))


@pytest.mark.parametrize("part", ["query", "key", "value", "output", "w1", "b1", "w2", "b2"])
@pytest.mark.parametrize(("more", "wider"), [(1, 0), (0, 1), (-1, 0)])
def test_parts_of_a_layer_that_do_not_fit_are_refused(part: str, more: int, wider: int) -> None:
    layer = right().layers[0]
    whole: Any = layer.heads[0] if hasattr(layer.heads[0], part) else layer.feed_forward
    matrix = getattr(whole, part)
    wrong = replace(whole, **{part: zeros(matrix.rows + more, matrix.columns + wider)})
    changed = replace(
        layer, **({"heads": (wrong,)} if whole is layer.heads[0] else {"feed_forward": wrong})
    )
    with pytest.raises(CertificationError, match="has the shape"):
        check_program_shapes(replace(right(), layers=(layer, changed)))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"positions": zeros(4, WIDTH + 1)}, "positions has the shape"),
        ({"readout": zeros(2, WIDTH + 1)}, "readout has the shape"),
        ({"dimensions": ("a",)}, "1 names for 5 directions"),
        ({"positions": zeros(1, WIDTH)}, "no tokens, positions"),
        ({"tokens": zeros(1, WIDTH)}, "no tokens, positions"),
        ({"tokens": zeros(3, 0)}, "no tokens, positions"),
        ({"registers": (Register(None, None, (0, WIDTH), zeros(2, 2)),)}, "not there"),
        ({"registers": (Register(None, None, (1, 1), zeros(2, 2)),)}, "twice"),
    ],
)
def test_a_blueprint_that_does_not_fit_is_refused(change: Any, text: str) -> None:
    with pytest.raises(CertificationError, match=text):
        check_program_shapes(replace(right(), **change))


def test_a_blueprint_has_the_tokens_positions_and_sight_of_its_program() -> None:
    for tokens, length, causal, text in (
        ("abc", 3, False, "tokens of the model"),
        ("ab", 4, False, "positions of the model"),
        ("ab", 3, True, "causal of the model"),
    ):
        program = replace(tabulate(library.make_reverse(), tokens, length), causal=causal)
        with pytest.raises(CertificationError, match=text):
            check_program_shapes(right(), program)
        check_program_shapes(right())
