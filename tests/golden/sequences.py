"""Models of sequence maps: three forms, grids of halves, thirds and quarters, softened ones, bases."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import cycle, product
from typing import Any

import numpy as np

import exactformer as ef
from exactformer.sequences.compile import prove_sequence
from tests.adversary.sequence_drafts import honest_draft
from tests.cases.sequences import grid, random_table
from tests.golden.case import Case

BOTH = ("fused", "literal")
FORMS = ("four-layer", "compact", "paper")
MAPS = {
    "centred": (lambda X: X - X.mean(axis=0), False),
    "sort": (lambda X: np.sort(X, axis=0), True),
    "largest": (lambda X: 0 * X + X.max(axis=0), False),
}
GRIDS = ((2, 1, 4), (2, 2, 2), (1, 2, 3), (2, 1, 3))
"""(tokens, coordinates, cells)."""
TABLES = (((1, 2, 4), True), ((1, 3, 4), False), ((2, 2, 3), False))
"""(coordinates, tokens, cells) and whether positions are known."""
BASES = 16


def cases() -> Iterator[Case]:
    """Yield honest models of sequence maps."""
    for form, name, size in product(FORMS, MAPS, GRIDS):
        yield _case(form, name, size)
    for form in FORMS:
        yield _case(form, "largest", (3, 1, 4))
        yield _case(form, "sort", (3, 1, 4), slow=form != "four-layer")
    for (form, name), tolerance in zip(product(FORMS, MAPS), cycle((0.1, 0.001)), strict=False):
        make = partial(_softened, form, name, tolerance)
        title = f"softened to {tolerance}, {form}, {name}, 2 tokens, 1/4"
        yield Case(title, make, ("literal",), ("float64",))
    for support, sample in (((-1, 2), "centre"), (("1/3", 5), "corner")):
        yield _case("four-layer", "centred", (2, 1, 3), support=support, sample=sample)
        yield _case("paper", "centred", (2, 1, 3), support=support, sample=sample)
    for form, (size, positional) in product(FORMS, TABLES):
        make = partial(_of_table, form, size, positional)
        title = f"random table, {form}, {size}{', positional' * positional}"
        yield Case(title, make, BOTH, ("float64",))
    for index in range(BASES):
        make = partial(_of_base, index)
        yield Case(f"base {index} of the adversary", make, BOTH, ("float64",))


def _case(
    form: str, name: str, size: tuple[int, int, int], slow: bool = False, **options: Any
) -> Case:
    more = "".join(f", {key} {value}" for key, value in options.items())
    tokens, dim, cells = size
    title = f"{form}, {name}, {tokens} tokens of {dim}, 1/{cells}{more}"
    make = partial(_compiled, form, name, size, **options)
    return Case(title, make, BOTH, ("float64",), slow=slow)


def _compiled(form: str, name: str, size: tuple[int, int, int], **options: Any) -> Any:
    options.pop("dtype", None)  # there is one format
    (f, positional), (tokens, dim, cells) = MAPS[name], size
    sizes = {"tokens": tokens, "dim": dim, "delta": Fraction(1, cells), "positional": positional}
    return ef.compile_sequence(f, form=form, **sizes, **options)


def _softened(
    form: str, name: str, tolerance: float, executor: str = "literal", **options: Any
) -> Any:
    return _compiled(form, name, (2, 1, 4)).softened(tolerance, executor=executor)


def _of_table(
    form: str,
    size: tuple[int, int, int],
    positional: bool,
    executor: str | None = None,
    **options: Any,
) -> Any:
    table = random_table(grid(size, form, positional))
    where = table.grid
    sizes = {"tokens": where.tokens, "dim": where.dim, "delta": Fraction(1, where.cells)}
    return ef.compile_sequence(
        dict(table.values), form=form, positional=positional, executor=executor, **sizes
    )


def _of_base(index: int, executor: str | None = None, **options: Any) -> Any:
    draft = honest_draft(random.Random(f"golden {index}"))
    return prove_sequence(draft.blueprint, draft.table, executor)
