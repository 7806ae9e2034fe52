"""``compile_sequence``: a sequence-to-sequence map into a transformer (Yun et al. 2020)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from exactformer.algebra.rational import to_float
from exactformer.core.options import MEMORY_LIMIT, choose
from exactformer.errors import CertificationError, InputError, SizeError
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.constructions import SEQUENCE_FORMS
from exactformer.sequences.files import load_sequence
from exactformer.sequences.grid import Class, Grid, GridTable
from exactformer.sequences.measure import equal_column_norm, estimate_modulus
from exactformer.sequences.model import EXECUTORS, SequenceModel
from exactformer.sequences.proof.cells import quantised
from exactformer.sequences.proof.certify import certify_sequence
from exactformer.sequences.proof.error import Modulus, bound_sequence_error
from exactformer.sequences.proof.integers import Integers
from exactformer.sequences.proof.lookups import cell_unit, every_class, quantised_streams
from exactformer.sequences.run.literal import LiteralSequence
from exactformer.sequences.sizes import check_sequence_size, check_stored_sequence_size
from exactformer.sequences.soft_model import check_soft_size, prove_softened, soften_model
from exactformer.sequences.tabulate import SAMPLES, SequenceMap, given, tabulate

Table = Mapping[Class, Iterable[Iterable[Any]]]
REALISATIONS = ("hard", "softmax-relu")
MOST_RUNS = 2**27
"""Layers times classes that are run to compare a module with its table."""


def compile_sequence(
    f: SequenceMap | Table | None = None,
    *,
    tokens: int,
    dim: int,
    delta: Fraction | float | str,
    form: str = "compact",
    positional: bool = False,
    support: tuple[Any, Any] = (0, 1),
    realisation: str = "hard",
    tolerance: float | None = None,
    table: Table | None = None,
    sample: str = "centre",
    executor: str | None = None,
    device: torch.device | str | None = None,
    sharpness: Fraction | float | None = None,
    ramp: int | None = None,
    modulus: Modulus | str | None = None,
    largest: float | None = None,
    p: float = 2,
) -> SequenceModel:
    """Compile a sequence-to-sequence map into a transformer that equals it on a grid.

    Args:
        f: takes a (d, n) array, one column a token, and returns one; or a table, see ``table``.
        tokens: the number n of tokens.
        dim: the number d of coordinates of a token.
        delta: the side of a cell as a fraction 1/N of the support's.
        form: ``"compact"`` (default): integer keys, values in rows of their own; ``"paper"``: every
            layer of the proof, in d rows; ``"four-layer"``: four wide layers, equal columns kept.
        positional: whether the map may depend on the order of the tokens. Without it the map has to be
            permutation equivariant, which is checked on the grid.
        support: the interval that every coordinate lies in; outside, the model is 0.
        realisation: ``"hard"``: hard maximum and piecewise-linear activations, exact on the grid;
            ``"softmax-relu"``: softmax and ReLUs, as sharp as ``tolerance`` asks for.
        tolerance: how far the softened model may be from the hard one in d_p.
        table: in place of f, values by class: ``{ids of the columns: (d, n) array}``, ids in ascending
            order, or by position. The id of a column is q_1 + N q_2 + … for its cells q.
            Classes left out go to 0.
        sample: where in its cell f is evaluated, ``"centre"`` or ``"corner"`` (the lower).
        executor: ``"fused"`` (default), ``"literal"`` or ``"exact"``.
        device: where the module lives.
        sharpness: λ, the inverse temperature of the softmax, in place of one from the tolerance.
        ramp: k for ramps of the quantiser that are 2^(−k) of a cell wide, likewise.
        modulus: a number L with ‖f(X) − f(Y)‖_p ≤ L‖X − Y‖_p, or ω with ω(‖X − Y‖_p), or
            ``"estimate"``; the certificate then bounds d_p between f and the model.
        largest: a bound on ‖f(X)‖_p where it is known; else it follows from table and modulus.
        p: the exponent of d_p, at least 1.

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
    choose("realisation", realisation, REALISATIONS)
    if executor is not None:
        choose("executor", executor, EXECUTORS)
    if realisation == "hard" and not tolerance is sharpness is ramp is None:
        raise InputError(
            "tolerance=, sharpness= and ramp= belong to realisation='softmax-relu'; the hard one is "
            "exact on the grid"
        )
    grid = sequence_grid(tokens, dim, delta, form, positional, support)
    size = check_sequence_size(grid, form, exact_only=executor == "exact")
    if realisation != "hard":
        check_soft_size(size.depth, size.key_bits, tokens)
    target = sequence_table(f, table, grid, sample)
    blueprint = SEQUENCE_FORMS[form](target)
    if realisation == "hard":
        model = prove_sequence(blueprint, target, executor)
    else:
        model = soften_model(blueprint, target, sharpness, ramp, tolerance, p, executor)
        check_floats(model)
    if modulus is not None:
        estimated = modulus == "estimate"
        if estimated:
            if not callable(f):
                raise InputError("modulus='estimate' needs a function to be estimated from")
            modulus = estimate_modulus(f, grid, p, sample)
        if isinstance(modulus, str):
            raise InputError(f"modulus={modulus!r}: give a number, a function, or 'estimate'")
        softness = model.certificate.softness
        norm = equal_column_norm(f, grid, p, sample) if callable(f) else None
        bound = bound_sequence_error(target, modulus, p, largest, sample, softness, estimated, norm)
        model._seal(replace(model.certificate, error=bound.to_dict()))
    return model.to(device)


def prove_sequence(
    blueprint: SequenceBlueprint,
    table: GridTable,
    executor: str | None = None,
    device: torch.device | str | None = None,
) -> SequenceModel:
    """Return the module of a blueprint with its certificate; raise where it is not the table."""
    certificate = certify_sequence(blueprint, table)
    model = SequenceModel(blueprint, table, certificate, executor)
    check_floats(model)
    return model.to(device)


def check_floats(model: SequenceModel) -> None:
    """Raise unless a model gives every class its values in float64, those without any 0.

    Sweeps round each value once. Layers may be off by roundings of the largest number they add a value
    to, which is a key in the paper's form; where they are not known to be exact beyond the quantiser,
    every class is run.
    """
    if model.sweeps is None:
        return
    grid = model.table.grid
    classes = every_class(grid)
    _compare(model, classes, model.sweeps, 0.0)
    if model.executor != "literal" or model.certificate.softness is not None:
        return
    if model.certificate.plain_floats:
        return _check_quantiser(model)
    work = len(classes) * sum(len(stage) for stage in model.blueprint.stages)
    if work > MOST_RUNS:
        raise SizeError(
            f"executor='literal' is not shown to be right in float64 without running {len(classes):,} "
            f"classes through all layers, {work:,} in all; the limit is {MOST_RUNS:,}. Use "
            "executor='fused', or delta = 1/2^m in another form"
        )
    largest = max(model.table.largest, cell_unit(model.blueprint) * model.blueprint.largest_key)
    _compare(model, classes, model, 8 * 2.0**-53 * to_float(largest))


def _compare(
    model: SequenceModel, classes: Integers, run: Callable[[Tensor], Tensor], tolerance: float
) -> None:
    """Compare values at the centres of all cells with the table."""
    grid, table = model.table.grid, model.table.values
    points = torch.tensor(
        [[to_float(v) for v in grid.centre(k)] for k in range(grid.points)], dtype=torch.float64
    )
    nothing = ((Fraction(0),) * grid.dim,) * grid.tokens
    named = [tuple(ids) for ids in classes.tolist()]
    wanted = [[[to_float(v) for v in c] for c in table.get(ids, nothing)] for ids in named]
    found = run(points[torch.from_numpy(classes)])
    off = (found - torch.tensor(wanted, dtype=torch.float64)).abs()
    wrong = (~(off <= tolerance)).any(-1).any(-1).nonzero()
    if len(wrong):
        raise CertificationError(
            f"in float64 the class {named[int(wrong[0])]} does not come out as it should: the "
            "support is too narrow, or too far from 0, for its cells, or numbers are too large"
        )


def _check_quantiser(model: SequenceModel) -> None:
    """Raise unless the quantiser's layers are exact in float64 at the centre of every cell."""
    grid, blueprint = model.table.grid, model.blueprint
    unit = cell_unit(blueprint)
    columns = np.repeat(np.arange(grid.points)[:, None], grid.tokens, axis=1)
    after = quantised(blueprint, unit)
    wanted = quantised_streams(grid, after, columns).entries.tolist()
    streams: dict[str, Tensor] = {}
    literal = LiteralSequence(blueprint)
    centres = [[[to_float(v) for v in grid.centre(k)] for k in ids] for ids in columns.tolist()]
    literal(torch.tensor(centres, dtype=torch.float64), streams.__setitem__)
    first = blueprint.stages[0]
    found = streams[f"{first.name} {len(first)}"].tolist()
    used = [row for row in range(blueprint.width) if row not in after.free]
    for here, there in zip(found, wanted, strict=True):
        for column, exact in zip(here, there, strict=True):
            if any(Fraction(column[row]) != exact[row] * unit for row in used):
                raise CertificationError(
                    "in float64 the layers of the quantiser do not take the centre of every cell to "
                    "its number: the support is too narrow, or too far from 0; use executor='fused'"
                )


def load_sequence_model(
    path: str | Path,
    *,
    executor: str | None = None,
    device: torch.device | str | None = None,
    memory_limit: int = MEMORY_LIMIT,
) -> SequenceModel:
    """Load a saved sequence model, proving it anew against the table in its file."""
    blueprint, table = load_sequence(path)
    choose("form", blueprint.form, tuple(SEQUENCE_FORMS))
    check_stored_sequence_size(blueprint, table.grid, memory_limit)
    check_sequence_size(table.grid, blueprint.form, exact_only=executor == "exact")
    if blueprint.realisation == "hard":
        return prove_sequence(blueprint, table, executor, device)
    choose("realisation", blueprint.realisation, REALISATIONS)
    # The limit is proposed by the construction and proven like any other.
    limit = SEQUENCE_FORMS[blueprint.form](table)
    model = prove_softened(blueprint, limit, table, executor)
    check_floats(model)
    return model.to(device)


def sequence_grid(
    tokens: int,
    dim: int,
    delta: Fraction | float | str,
    form: str,
    positional: bool,
    support: tuple[Any, Any],
) -> Grid:
    """Return the grid that the arguments of a sequence model describe."""
    for name, value in (("tokens", tokens), ("dim", dim)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(f"{name} must be a positive integer, not {value!r}")
    try:
        side = Fraction(delta)
        low, high = (Fraction(end) for end in support)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise InputError(f"delta={delta!r} and support={support!r} must be numbers") from None
    if side <= 0 or (1 / side).denominator != 1:
        raise InputError(
            f"delta must be 1/N for a positive integer N, not {delta!r}; write Fraction(1, 3) or "
            "'1/3' for what is no binary number"
        )
    if low >= high:
        raise InputError(f"support must be an interval (low, high), not {support!r}")
    grid = Grid(tokens, dim, int(1 / side), bool(positional), form == "four-layer", (low, high))
    if grid.size == 0:
        raise InputError(
            f"a grid of {grid.points} points has no {tokens} different columns, and form={form!r} "
            "needs them; use a smaller delta, form='four-layer' or positional=True"
        )
    return grid


def sequence_table(
    f: SequenceMap | Table | None, table: Table | None, grid: Grid, sample: str
) -> GridTable:
    """Return the target on the grid."""
    if (f is None) == (table is None):
        raise InputError("give a function or a table, one of them")
    values = table if table is not None else f
    if isinstance(values, Mapping):
        return given(values, grid)
    if not callable(values):
        raise InputError(f"the target must be a function or a table, not {type(values).__name__}")
    return tabulate(values, grid, sample)
