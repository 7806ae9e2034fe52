"""Structure of sequence blueprints: a matrix of another shape, or no layer, is refused by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import pytest

from exactformer.core.layers import Attention, BiasedHead
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError
from exactformer.sequences.blueprint import SequenceBlueprint, Stage
from exactformer.sequences.shapes import check_sequence_shapes
from tests.cases.forged_sequences import made, with_parts

Change = Callable[[SequenceBlueprint], SequenceBlueprint]
FORMS = ("compact", "paper", "four-layer")


def refused(blueprint: SequenceBlueprint, words: str) -> None:
    with pytest.raises(CertificationError, match=words):
        check_sequence_shapes(blueprint)


def larger(matrix: Matrix, rows: int, columns: int) -> Matrix:
    return Matrix.of(matrix.rows + rows, matrix.columns + columns, matrix.entries)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("rows", "columns"), [(1, 0), (0, 1)])
def test_every_matrix_has_the_shape_that_the_sizes_give_it(
    form: str, rows: int, columns: int
) -> None:
    """One row or column more is refused; only units, and rows of heads, are as many as they are."""
    honest, _ = made(form)
    check_sequence_shapes(honest)

    def wrong(old: Any, field: str) -> Any:
        return replace(old, **{field: larger(getattr(old, field), rows, columns)})

    embedding = honest.embedding
    for name in ("features", "constant", "positions"):
        refused(replace(honest, embedding=wrong(embedding, name)), f"embedding.{name} is")
    for name in ("readout", "code"):
        refused(wrong(honest, name), f"{name} is")
    for stage in honest.stages:
        part = stage.parts[-1]
        if isinstance(part, Attention):
            head = part.heads[-1]
            for field in (f.name for f in fields(head)):
                if (field, rows) != ("query", 1):
                    changed = replace(part, heads=(*part.heads[:-1], wrong(head, field)))
                    refused(_last(honest, stage, changed), f"{stage.name}.* head .*{field} is")
            if isinstance(head, BiasedHead) and rows:
                tall = replace(part, heads=(*part.heads[:-1], wrong(head, "query")))
                refused(_last(honest, stage, tall), "key is")
            continue
        for field in ("b1", "w2", "b2", *(("w1",) if columns else ())):
            new = wrong(part, field)
            refused(_last(honest, stage, new), f"{stage.name}, part {len(stage.parts)}, {field} is")


def _last(blueprint: SequenceBlueprint, stage: Stage, part: Any) -> SequenceBlueprint:
    return with_parts(blueprint, stage.name, lambda parts: [*parts[:-1], part])


def _empty_units(parts: list[Any]) -> list[Any]:
    units = parts[0]
    w = units.w1.columns
    none = replace(
        units,
        w1=Matrix.of(0, w, {}),
        b1=Matrix.of(0, 1, {}),
        w2=Matrix.of(w, 0, {}),
    )
    return [replace(none, successive=1)]


def _other_kind(parts: list[Any]) -> list[Any]:
    return [replace(parts[0], activation="relu")]


def _headless(parts: list[Any]) -> list[Any]:
    return [replace(parts[0], heads=())]


def _rowless(parts: list[Any]) -> list[Any]:
    first, *others = parts[0].heads
    w = first.query.columns
    none = Matrix.of(0, w, {})
    head = replace(first, query=none, key=none, bias=Matrix.of(0, 1, {}))
    return [replace(parts[0], heads=(*others, head))]


def _warm(temperature: int) -> Callable[[list[Any]], list[Any]]:
    def change(parts: list[Any]) -> list[Any]:
        selection = replace(parts[0].selection, temperature=Fraction(temperature))
        return [replace(parts[0], selection=selection), *parts[1:]]

    return change


WRONG: dict[str, tuple[Change, str]] = {
    "no token": (lambda b: replace(b, tokens=0), "tokens is 0"),
    "no coordinate": (lambda b: replace(b, dim=0), "dim is 0"),
    "no row": (lambda b: replace(b, dimensions=()), "width is 0"),
    "two thirds": (lambda b: replace(b, delta=Fraction(2, 3)), "not 1/N"),
    "minus a quarter": (lambda b: replace(b, delta=Fraction(-1, 4)), "not 1/N"),
    "no support": (lambda b: replace(b, support=(Fraction(1), Fraction(1))), "empty"),
    "a support upside down": (lambda b: replace(b, support=(Fraction(1), Fraction(0))), "empty"),
    "a negative key": (lambda b: replace(b, largest_key=-1), "negative"),
    "no stage": (lambda b: replace(b, stages=()), "names of their own"),
    "a name twice": (
        lambda b: replace(b, stages=(*b.stages, b.stages[0])),
        "names of their own",
    ),
    "no layer": (lambda b: with_parts(b, "values", lambda _: []), "no layer"),
    "no unit": (lambda b: with_parts(b, "values", _empty_units), "layers of"),
    **{
        f"layers of {hidden}": (
            lambda b, h=hidden: with_parts(b, "values", lambda p: [replace(p[0], successive=h)]),
            "layers of",
        )
        for hidden in (0, -1, 5, 1000)
    },
    "another kind": (lambda b: with_parts(b, "values", _other_kind), "piecewise-linear"),
    "no head": (lambda b: with_parts(b, "contextual mapping", _headless), "needs a head"),
    "no row in a head": (lambda b: with_parts(b, "contextual mapping", _rowless), "needs a head"),
    "zero temperature": (lambda b: with_parts(b, "contextual mapping", _warm(0)), "temperature"),
    "negative temperature": (
        lambda b: with_parts(b, "contextual mapping", _warm(-1)),
        "temperature",
    ),
    "no code": (lambda b: replace(b, code=Matrix.of(1, b.width, {})), "reads nothing"),
    "positions": (
        lambda b: replace(
            b,
            embedding=replace(b.embedding, positions=Matrix.of(b.width, 2, {(0, 1): 1})),
        ),
        "not positional",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_has_no_structure_is_refused(what: str) -> None:
    change, words = WRONG[what]
    refused(change(made("compact")[0]), words)


def test_the_smallest_of_everything_is_enough() -> None:
    honest, _ = made("compact", (1, 1, 1))
    assert (honest.tokens, honest.dim, honest.cells, honest.largest_key) == (1, 1, 1, 0)
    check_sequence_shapes(honest)
    placed, _ = made("compact", (1, 2, 3), positional=True)
    check_sequence_shapes(placed)
