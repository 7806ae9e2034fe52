"""``exactformer fit``: the law behind a table, as a formula and as a model."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from exactformer.cli.support.options import (
    Force,
    Json,
    MemoryLimit,
    Plot,
    in_bytes,
    names,
    out_file,
)
from exactformer.cli.support.output import console, empty_table, print_json, print_saved
from exactformer.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from exactformer.learning.laws.regressor import PolynomialAttentionRegressor
    from exactformer.learning.laws.tables import Table

_MOST_ROWS = 40


def fit(
    data: Annotated[Path, typer.Argument(help="A CSV or Parquet file, one row per observation.")],
    target: Annotated[str, typer.Option("--target", "-t", help="The column to predict.")],
    columns: Annotated[
        str | None,
        typer.Option(help="Columns to predict it from, separated by commas; all others if absent."),
    ] = None,
    degree: Annotated[str, typer.Option(help="Total degree, or auto.")] = "auto",
    solver: Annotated[str, typer.Option(help="sparse, least-squares or sgd.")] = "sparse",
    significance: Annotated[
        float, typer.Option(help="Probability of keeping a term that is not in the law.")
    ] = 0.01,
    epochs: Annotated[int, typer.Option(help="For sgd: passes over the data.")] = 2000,
    device: Annotated[str, typer.Option(help="For sgd: cpu or cuda.")] = "cpu",
    seed: Annotated[int, typer.Option(help="For sgd: the seed.")] = 0,
    out: Annotated[
        Path | None, out_file("Save the model here (.safetensors).", ".safetensors")
    ] = None,
    plot: Plot = None,
    force: Force = False,
    memory_limit: MemoryLimit = 4,
    as_json: Json = False,
) -> None:
    """Find the polynomial law behind a table: formula, errors, residuals, and a certified model."""
    from exactformer.algebra.limits import MAX_VARIABLES
    from exactformer.learning.laws.regressor import PolynomialAttentionRegressor
    from exactformer.learning.laws.tables import read_table

    table = read_table(data, target, names(columns), most=MAX_VARIABLES)
    regressor = PolynomialAttentionRegressor(
        _degree(degree),
        solver=solver,
        significance=significance,
        epochs=epochs,
        device=device,
        random_state=seed,
        memory_limit=in_bytes(memory_limit),
        verbose=solver == "sgd" and not as_json,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        regressor.fit(table.features, table.target)
    notes = [str(w.message) for w in caught]
    if out is not None:
        regressor.model_.save(out)
    if plot is not None:
        from exactformer.figures import save_figure
        from exactformer.learning.laws.residuals import figure

        save_figure(figure(*_residual(regressor, table), target), plot)
    if as_json:
        print_json(_contents(regressor, table, target, notes), out, plot)
    else:
        _show(regressor, table, target, notes)
        print_saved(out, plot)


def _degree(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    try:
        return int(text)
    except ValueError:
        raise InputError(f"--degree {text}: give a whole number from 1, or auto") from None


def _residual(regressor: PolynomialAttentionRegressor, table: Table) -> tuple[Any, Any]:
    fitted = regressor.predict(table.features)
    return fitted, table.target.to_numpy() - fitted


def _contents(
    regressor: PolynomialAttentionRegressor, table: Table, target: str, notes: list[str]
) -> dict[str, Any]:
    return {
        "target": target,
        "formula": regressor.formula_,
        "exact": str(regressor.polynomial_),
        "variables": dict(zip(regressor.variables_, table.features.columns, strict=True)),
        "terms": json.loads(regressor.coef_table_.to_json(orient="records", double_precision=15)),
        "degree": regressor.degree_,
        "rows": len(table.target),
        "r2": regressor.r2_,
        "noise": regressor.noise_,
        "radius": regressor.radius_,
        "box": dict(zip(table.features.columns, regressor.box_.tolist(), strict=True)),
        "unused": regressor.unused_,
        "notes": notes,
    }


def _show(
    regressor: PolynomialAttentionRegressor, table: Table, target: str, notes: list[str]
) -> None:
    from rich.text import Text

    from exactformer.learning.laws.residuals import histogram

    screen, names = console(), list(table.features.columns)

    def say(text: str, style: str = "") -> None:
        screen.print(Text(text, style=style), soft_wrap=True)

    say(f"\n{target} = {regressor.formula_}\n", "bold")
    if regressor.variables_ != names:
        pairs = zip(regressor.variables_, names, strict=True)
        say("where " + ", ".join(f"{v} is {n!r}" for v, n in pairs) + "\n")
    screen.print(_terms(regressor))
    say(
        f"\nR² {regressor.r2_:.6g}   noise {regressor.noise_:.4g} (standard deviation)   "
        f"{len(table.target):,} rows   terms up to degree {regressor.degree_} considered"
    )
    say(f"\nResiduals\n{histogram(_residual(regressor, table)[1])}\n")
    for column, (low, high) in zip(names, regressor.box_, strict=True):
        say(f"  {column} from {low:.6g} to {high:.6g}")
    say(
        f"Extrapolation begins outside these ranges, and beyond ‖x‖ = {regressor.radius_:.6g} "
        "the model refuses."
    )
    if constant := [n for n, why in regressor.unused_.items() if why == "constant"]:
        say(f"Constant, so not used: {', '.join(constant)}.")
    for note in notes:
        say(f"Note: {note}", "yellow")


def _terms(regressor: PolynomialAttentionRegressor) -> RichTable:
    found = regressor.coef_table_
    interval = f"{regressor.confidence:.0%} interval"
    heads = ("term", "coefficient", "± error", interval, "p-value")
    shown = empty_table(*heads, right=1, ruled=False)
    most = found.sort_values("p_value", kind="stable").head(_MOST_ROWS).sort_index()
    for row in most.to_dict("records"):
        shown.add_row(
            row["term"],
            f"{row['coefficient']:.6g}",
            f"{row['standard_error']:.2g}",
            f"{row['lower']:.6g} … {row['upper']:.6g}",
            f"{row['p_value']:.1e}" if row["p_value"] else "< 1e-300",
        )
    if len(found) > _MOST_ROWS:
        shown.caption = f"the {_MOST_ROWS} most significant of {len(found):,}; --json gives all"
    return shown
