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
    ModelOut,
    Plot,
    in_bytes,
    names,
    out_file,
)
from exactformer.cli.support.output import console, empty_table, print_json, print_saved
from exactformer.cli.support.usage import as_options
from exactformer.core.whole_files import write_bytes
from exactformer.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.table import Table as RichTable

    from exactformer.learning.laws.regressor import PolynomialAttentionRegressor
    from exactformer.learning.laws.tables import Table

_MOST_ROWS = 40


def fit(
    ctx: typer.Context,
    data: Path,
    target: Annotated[str, typer.Option("--target", "-t")],
    columns: str | None = None,
    header: Annotated[str | None, typer.Option("--names")] = None,
    missing: str = "raise",
    degree: str = "auto",
    loss: str = "squared",
    features: str | None = None,
    solver: str = "sparse",
    significance: float = 0.01,
    relevance: float = 1e-3,
    model_tolerance: float | None = None,
    epochs: int = 2000,
    device: str = "cpu",
    seed: int = 0,
    out: ModelOut = None,
    plot: Plot = None,
    report: Annotated[Path | None, out_file(".html", name="--report")] = None,
    force: Force = False,
    memory_limit: MemoryLimit = 4,
    as_json: Json = False,
) -> None:
    """Find the polynomial law behind a table: formula, errors, residuals, and a certified model.

    A file larger than --memory-limit is refused, with the line that samples its rows.

    Args:
        data: A CSV or Parquet file, one row per observation; - reads standard input.
        target: The column to predict; several with commas.
        columns: Columns to predict it from, separated by commas; all others if absent.
        header: Names of all columns, for a CSV file without a header.
        missing: Rows with a missing value: raise, or drop to leave them out.
        degree: Total degree, or auto.
        loss: squared; huber draws rows far from the law in; trimmed leaves them out.
        features: Functions to apply to every column besides powers, separated by commas: sin, cos, exp,
            log, sqrt, tanh, atan, abs, 1/x.
        solver: sparse, least-squares or sgd.
        significance: Level at which terms are tested, all together.
        relevance: Leave out terms that explain less than this share of the spread.
        model_tolerance: For --features: the distance accepted between saved model and law; a hundredth
            of the noise if absent.
        epochs: For sgd: passes over the data.
        device: For sgd: cpu or cuda.
        seed: For sgd: the seed.
        report: Write one HTML page about the law here (.html).
    """
    from exactformer.algebra.limits import MAX_VARIABLES
    from exactformer.learning.laws.parameters import check_parameters
    from exactformer.learning.laws.regressor import PolynomialAttentionRegressor
    from exactformer.learning.laws.tables import Wanted, read_table

    limit = in_bytes(memory_limit)
    wanted = Wanted(names(target) or [], names(columns), names(header), missing, most=MAX_VARIABLES)
    regressor = PolynomialAttentionRegressor(
        _degree(degree),
        loss=loss,
        features=names(features),
        solver=solver,
        significance=significance,
        relevance=relevance,
        epochs=epochs,
        device=device,
        model_tolerance=model_tolerance,
        random_state=seed,
        memory_limit=limit,
        verbose=not as_json,
    )
    single = len(wanted.targets) == 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_parameters(regressor)
        table = read_table(data, wanted, limit)
        regressor.fit(table.features, table.targets.iloc[:, 0] if single else table.targets)
        if out is not None:
            regressor.model_.save(out)
    told = [str(w.message) for w in caught]
    told += [note for note in regressor.notes_ if note not in told]
    notes = [*table.notes, *(as_options(note, ctx.command) for note in told)]
    fitted = regressor.predict(table.features).reshape(len(table.targets), -1)
    residuals = table.targets.to_numpy() - fitted
    if plot is not None:
        from exactformer.figures import save_figure
        from exactformer.learning.laws.pictures import overview

        save_figure(overview(fitted, residuals, wanted.targets), plot)
    if report is not None:
        from exactformer.learning.laws.report import law_page

        certificate = "" if out is None else str(regressor.model_.certificate)
        page = law_page(regressor, table, notes, certificate)
        write_bytes(page.encode(), report)
    if as_json:
        print_json(_contents(regressor, table, notes), out, plot, report)
    else:
        _show(regressor, table, notes, residuals)
        print_saved(out, plot, report)


def _degree(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    try:
        return int(text)
    except ValueError:
        raise InputError(f"--degree {text}: give a whole number from 1, or auto") from None


def _contents(law: PolynomialAttentionRegressor, table: Table, notes: list[str]) -> dict[str, Any]:
    """Return all of a law for machines; lists by target where there are several."""
    import numpy as np

    columns, targets = list(table.features.columns), list(table.targets.columns)
    # Polynomials have exact coefficients; other laws are written as SymPy has them.
    functions = any(law.uses_functions(k) for k in range(len(targets)))
    written = law.to_sympy() if functions else law.polynomial_
    terms = law.coef_table_.to_json(orient="records", double_precision=15)
    return {
        "target": targets if len(targets) > 1 else targets[0],
        "formula": law.formula_,
        "kind": law.kind_,
        "why": law.kind_reason_,
        "exact": [str(one) for one in written] if isinstance(written, list) else str(written),
        "variables": dict(zip(law.variables_, columns, strict=True)),
        "terms": json.loads(terms),
        "degree": law.degree_,
        "rows": len(table.targets),
        "r2": np.asarray(law.r2_).tolist(),
        "noise": np.asarray(law.noise_).tolist(),
        "box": dict(zip(columns, law.box_.tolist(), strict=True)),
        "unused": law.unused_,
        "notes": notes,
    }


def _show(
    law: PolynomialAttentionRegressor,
    table: Table,
    notes: list[str],
    residuals: NDArray[Any],
) -> None:
    """Print all of a law for people."""
    from rich.text import Text

    from exactformer.learning.laws.pictures import histogram

    screen = console()

    def say(text: str, style: str = "") -> None:
        screen.print(Text(text, style=style), soft_wrap=True)

    targets, rows = list(table.targets.columns), len(table.targets)
    single = len(targets) == 1
    for place, target in enumerate(targets):
        told = (law.formula_, law.r2_, law.noise_, law.kind_, law.kind_reason_)
        formula, r2, noise, kind, why = (found if single else found[place] for found in told)
        sign = "=" if kind == "law" else "≈"
        say(f"\n{target} {sign} {formula}\n", "bold")
        say(f"{str(kind).capitalize()}: {why}.\n", "" if kind == "law" else "yellow")
        if law.renamed_ and place == 0:
            say("where " + ", ".join(f"{v} is {n!r}" for v, n in law.renamed_.items()) + "\n")
        screen.print(_terms(law, None if single else target, p_values=kind == "law"))
        say(
            f"\nR² {r2:.6g}   noise {noise:.4g} (standard deviation)   "
            f"{rows:,} rows   terms up to degree {law.degree_} considered"
        )
        say(f"\nResiduals\n{histogram(residuals[:, place])}\n")
    for column, (low, high) in zip(table.features.columns, law.box_, strict=True):
        say(f"  {column} from {low:.6g} to {high:.6g}")
    say("Extrapolation begins outside these ranges, and there the model refuses.")
    if constant := [n for n, why in law.unused_.items() if why == "constant"]:
        say(f"Constant, so not used: {', '.join(constant)}.")
    for note in notes:
        say(f"Note: {note}", "yellow")


def _terms(
    regressor: PolynomialAttentionRegressor, target: str | None, p_values: bool
) -> RichTable:
    """Return the table of terms; an approximation shows no p-values, which would be about a law."""
    found = regressor.coef_table_
    if target is not None:
        found = found[found.output == target]
    interval = f"{regressor.confidence:.0%} interval"
    heads = ("term", "coefficient", "± error", interval, "p-value")
    shown = empty_table(*heads[: 5 if p_values else 4], right=1, ruled=False)
    certain = found.sort_values("p_value", kind="stable").head(_MOST_ROWS).sort_index()
    for row in certain.to_dict("records"):
        known = row["standard_error"] == row["standard_error"]
        interval = f"{row['lower']:.6g} … {row['upper']:.6g}" if known else "–"
        error = f"{row['standard_error']:.2g}" if known else "–"
        p_value = f"{row['p_value']:.1e}" if row["p_value"] else "< 1e-300"
        cells = (row["term"], f"{row['coefficient']:.6g}", error, interval)
        shown.add_row(*cells, *([p_value if known else "–"] if p_values else []))
    if len(found) > _MOST_ROWS:
        which = "first" if found.p_value.isna().all() else "most significant"
        shown.caption = f"the {_MOST_ROWS} {which} of {len(found):,}; --json gives all"
    return shown
