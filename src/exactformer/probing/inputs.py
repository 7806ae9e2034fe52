"""The inputs on which codes are compared, and which of their tokens are the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import InputError, SizeError
from exactformer.probing.separation import Tokens

_MOST_INPUTS = 2**20


@dataclass(frozen=True)
class Grid:
    """All inputs of ``tokens`` columns in {0, 1/levels, …, 1 − 1/levels}^dim.

    ``distinct_columns`` leaves out inputs with two equal columns, as the paper's lemma does.
    """

    tokens: int
    dim: int
    levels: int
    distinct_columns: bool = False

    def __len__(self) -> int:
        columns = self.levels**self.dim
        if not self.distinct_columns:
            return int(columns**self.tokens)
        return int(np.prod([columns - i for i in range(self.tokens)], dtype=object))

    def inputs(self) -> NDArray[np.int64]:
        """Return every input (number, tokens, dim), in units of 1/levels."""
        columns = np.array(list(product(range(self.levels), repeat=self.dim)))
        choices = np.indices((len(columns),) * self.tokens).reshape(self.tokens, -1).T
        if self.distinct_columns:
            ordered = np.sort(choices, axis=1)
            choices = choices[(ordered[:, 1:] != ordered[:, :-1]).all(axis=1)]
        return np.asarray(columns[choices])


def read_inputs(
    grid: Grid | tuple[int, int, int] | Iterable[Any],
) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
    """Return the inputs twice: as what tells columns apart, and as what is put to the module."""
    if isinstance(grid, tuple) and len(grid) == 3 and all(isinstance(k, int) for k in grid):
        grid = Grid(*grid)
    if isinstance(grid, Grid):
        if min(grid.tokens, grid.dim, grid.levels) < 1:
            raise InputError(f"{grid} is empty: tokens, dim and levels are at least 1.")
        if grid.levels ** (grid.dim * grid.tokens) > _MOST_INPUTS:
            raise SizeError(
                f"a grid of {grid.tokens} tokens in {grid.dim} dimensions with {grid.levels} levels "
                f"has {grid.levels}^{grid.dim * grid.tokens} inputs; at most {_MOST_INPUTS:,} are "
                f"tried. Use fewer levels, or give a sample of inputs."
            )
        inputs = grid.inputs()
        return list(inputs), list(_over(inputs, grid.levels))
    given = [np.asarray(x) for x in grid]
    if not given:
        raise InputError("there are no inputs to try.")
    for number, x in enumerate(given):
        if x.ndim not in (1, 2) or 0 in x.shape or x.shape[1:] != given[0].shape[1:]:
            raise InputError(
                f"input {number} has shape {x.shape}; an input is (tokens, dim), with one dim for "
                "all, or (tokens,) for token ids."
            )
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            raise InputError(f"input {number} has entries that are infinite or not numbers.")
    return given, given


def _over(inputs: NDArray[np.int64], levels: int) -> NDArray[Any]:
    return np.array([Fraction(k, levels) for k in range(levels)], dtype=object)[inputs]


def name_tokens(inputs: Sequence[NDArray[Any]], positional: bool) -> tuple[Tokens, list[int]]:
    """Name the tokens of all inputs: owner, place, column, and class of permutations."""
    column_of: dict[Any, int] = {}
    context_of: dict[tuple[int, ...], int] = {}
    seen: set[tuple[int, ...]] = set()
    found: list[tuple[int, int, int, int]] = []
    kept: list[int] = []
    for number, x in enumerate(inputs):
        rows = x.reshape(len(x), -1).tolist()
        names = [(*row, i) if positional else tuple(row) for i, row in enumerate(rows)]
        columns = tuple(column_of.setdefault(name, len(column_of)) for name in names)
        if columns in seen:
            continue
        seen.add(columns)
        context = context_of.setdefault(tuple(sorted(columns)), len(context_of))
        found += [(len(kept), place, column, context) for place, column in enumerate(columns)]
        kept.append(number)
    return Tokens(*np.array(found).T), kept
