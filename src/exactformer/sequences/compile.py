"""``compile_sequence``: a sequence-to-sequence map into a transformer (Yun et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from math import isinf
from pathlib import Path
from typing import Any

import torch

from exactformer.algebra.rational import to_float
from exactformer.core.given_domain import exact_number
from exactformer.core.options import MEMORY_LIMIT, choose, positive_integer
from exactformer.errors import InputError
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.constructions import SEQUENCE_FORMS
from exactformer.sequences.files import load_sequence
from exactformer.sequences.floats import check_floats
from exactformer.sequences.grid import Class, Grid, GridTable
from exactformer.sequences.model import EXECUTORS, SequenceModel, check_outside
from exactformer.sequences.proof.certify import certify_sequence
from exactformer.sequences.sizes import check_sequence_size, check_stored_sequence_size
from exactformer.sequences.soft_model import prove_softened
from exactformer.sequences.tabulate import SAMPLES, SequenceMap, given, tabulate

Table = Mapping[Class, Iterable[Iterable[Any]]]
REALISATIONS = ("hard", "softmax-relu")


def compile_sequence(
    f: SequenceMap | Table,
    *,
    tokens: int,
    dim: int,
    delta: Fraction | float | str,
    form: str = "four-layer",
    positional: bool = False,
    support: tuple[Any, Any] = (0, 1),
    sample: str = "centre",
    executor: str | None = None,
    device: torch.device | str | None = None,
    outside: str = "raise",
) -> SequenceModel:
    """Compile a sequence-to-sequence map into a transformer that equals it on a grid.

    Arrays are ``(tokens, dim)``, one *row* per token, for the function as for the model. Where
    ``tokens == dim`` a function that takes columns for tokens cannot be told from one that does not.

    Args:
        f: takes a (tokens, dim) array and returns one; or a table of values by class,
            ``{ids of the tokens: (tokens, dim) array}``, ids in ascending order, or by position. The
            id of a token is q_1 + N q_2 + … for its cells q. Classes left out go to 0.
        tokens: the number n of tokens.
        dim: the number d of coordinates of a token.
        delta: the side of a cell as a fraction 1/N of the support's.
        form: ``"four-layer"`` (default): four wide layers, right for equal tokens too; ``"paper"``:
            every layer of the proof, in d rows; ``"compact"``: integer keys, values in rows of their
            own. The latter two send sequences with two tokens in one cell to 0.
        positional: whether the map may depend on the order of the tokens. Without it the map has to be
            permutation equivariant, which is checked on the grid.
        support: the interval [low, high) that every coordinate lies in.
        sample: where in its cell f is evaluated, ``"centre"`` or ``"corner"`` (the lower).
        executor: ``"fused"`` (default), ``"literal"`` or ``"exact"``.
        device: where the module lives.
        outside: what to do with sequences that have a coordinate outside the support: ``"raise"``,
            ``"nan"``, or ``"zero"``, the theorem's value. There is no ``"allow"``: the layers know the
            grid only.

    ``model.softened(tolerance)`` is the same of softmax and ReLUs, and ``model.bounded(modulus)`` has a
    bound on the distance between the map and the model.

    Raises:
        ExactformerError: if the input is wrong, too large, or anything cannot be proven.

    >>> import exactformer as ef
    >>> from fractions import Fraction
    >>> model = ef.compile_sequence(lambda X: X - X.mean(), tokens=2, dim=1, delta=Fraction(1, 8))
    >>> model([[0.1], [0.9]]).squeeze(-1).tolist()
    [-0.4375, 0.4375]
    """
    choose("form", form, tuple(SEQUENCE_FORMS))
    choose("sample", sample, SAMPLES)
    check_outside(outside)
    if executor is not None:
        choose("executor", executor, EXECUTORS)
    grid = sequence_grid(tokens, dim, delta, form, positional, support)
    check_sequence_size(grid, form, exact_only=executor == "exact")
    table = sequence_table(f, grid, sample)
    blueprint = SEQUENCE_FORMS[form](table)
    if sample != SAMPLES[0]:
        blueprint = replace(blueprint, metadata={**blueprint.metadata, "sample": sample})
    return prove_sequence(blueprint, table, executor, device, outside)


def prove_sequence(
    blueprint: SequenceBlueprint,
    table: GridTable,
    executor: str | None = None,
    device: torch.device | str | None = None,
    outside: str = "raise",
) -> SequenceModel:
    """Return the module of a blueprint with its certificate; raise where it is not the table."""
    certificate = certify_sequence(blueprint, table)
    model = SequenceModel(blueprint, table, certificate, executor, outside)
    check_floats(model)
    return model.placed(device)


def prove_stored(
    blueprint: SequenceBlueprint,
    table: GridTable,
    executor: str | None = None,
    device: torch.device | str | None = None,
    outside: str = "raise",
    memory_limit: int = MEMORY_LIMIT,
) -> SequenceModel:
    """Return the module of a blueprint that is not known to be ours, proven against a table."""
    check_outside(outside)
    choose("form", blueprint.form, tuple(SEQUENCE_FORMS))
    choose("realisation", blueprint.realisation, REALISATIONS)
    check_stored_sequence_size(blueprint, table.grid, memory_limit)
    check_sequence_size(table.grid, blueprint.form, exact_only=executor == "exact")
    if blueprint.realisation == "hard":
        return prove_sequence(blueprint, table, executor, device, outside)
    # The limit is proposed by the construction and proven like any other.
    limit = SEQUENCE_FORMS[blueprint.form](table)
    return prove_softened(blueprint, limit, table, executor, outside=outside).placed(device)


def load_sequence_model(
    path: str | Path,
    *,
    executor: str | None = None,
    device: torch.device | str | None = None,
    outside: str = "raise",
    memory_limit: int = MEMORY_LIMIT,
) -> SequenceModel:
    """Load a saved sequence model, proving it anew against the table in its file.

    A bound on d_p is computed anew from the table and from the modulus that the file states.
    """
    return prove_stored(*load_sequence(path), executor, device, outside, memory_limit)


def sequence_grid(
    tokens: int,
    dim: int,
    delta: Fraction | float | str,
    form: str,
    positional: bool,
    support: tuple[Any, Any],
) -> Grid:
    """Return the grid that the arguments of a sequence model describe."""
    tokens, dim = positive_integer(tokens, "tokens"), positive_integer(dim, "dim")
    try:
        side = exact_number(delta)
        low, high = (exact_number(end) for end in support)
    except (TypeError, ValueError):
        raise InputError(f"delta={delta!r} and support={support!r} must be numbers") from None
    if side <= 0 or (1 / side).denominator != 1:
        raise InputError(
            f"delta must be 1/N for a positive integer N, not {delta!r}; write Fraction(1, 3) or "
            "'1/3' for what is no binary number"
        )
    if low >= high:
        raise InputError(f"support must be an interval (low, high), not {support!r}")
    if isinf(to_float(low)) or isinf(to_float(high)):
        raise InputError("support must lie between numbers of float64, which are below 2^1024")
    grid = Grid(tokens, dim, int(1 / side), bool(positional), form == "four-layer", (low, high))
    if grid.size == 0:
        raise InputError(
            f"a grid of {grid.points} points has no {tokens} different columns, and form={form!r} "
            "needs them; use a smaller delta, form='four-layer' or positional=True"
        )
    return grid


def sequence_table(f: SequenceMap | Table, grid: Grid, sample: str) -> GridTable:
    """Return the target on the grid."""
    if isinstance(f, Mapping):
        return given(f, grid)
    if not callable(f):
        raise InputError(f"the target must be a function or a table, not {type(f).__name__}")
    return tabulate(f, grid, sample)
