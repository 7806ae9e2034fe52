"""A law on one HTML page that needs nothing else: no network, no scripts, no other files."""

from __future__ import annotations

import base64
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from exactformer.figures.style import exactformer_style, figure_bytes, page_style
from exactformer.learning.laws import intervals, pictures
from exactformer.version import __version__

if TYPE_CHECKING:
    from exactformer.learning.laws.tables import Table
    from exactformer.learning.laws.written_laws import WrittenLaws

_MOST_TERMS, _MOST_PANELS = 60, 11


def law_page(law: WrittenLaws, table: Table, notes: list[str], certificate: str = "") -> str:
    """Return the page of a law fitted to a table.

    ``certificate`` is what is known of its model, where one was made.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    targets = list(table.targets.columns)
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    source = resources.files(__package__).joinpath("report.html").read_text("utf-8")
    return environment.from_string(source).render(
        style=Markup(page_style()),
        title=f"The law of {', '.join(targets)}",
        facts=f"{len(table.targets):,} rows, terms up to degree {law.degree_} considered",
        notes=notes,
        aliases=law.renamed_,
        confidence=f"{law.confidence:.0%}",
        laws=[_law(law, table, place) for place in range(len(targets))],
        ranges=_ranges(law, list(table.features.columns)),
        certificate=certificate,
        version=__version__,
    )


def _law(law: WrittenLaws, table: Table, place: int) -> dict[str, Any]:
    from markupsafe import Markup

    target = str(table.targets.columns[place])
    own, single = law.coef_table_, len(table.targets.columns) == 1
    if not single:
        own = own[own["output"] == target]
    shown = own.sort_values("p_value", kind="stable").head(_MOST_TERMS).sort_index()
    r2, noise = (float(np.atleast_1d(v)[place]) for v in (law.r2_, law.noise_))
    return {
        "target": target,
        "mathml": Markup(intervals.mathml(shown, target)),
        "quality": f"R² {r2:.6g}; noise {noise:.4g} (standard deviation of the residual)",
        "terms": [_term(row) for row in shown.to_dict("records")],
        "hidden": len(own) - len(shown),
        "text": f"{target} = {intervals.text(own)}",
        "latex": law.with_intervals("latex") if single else law.with_intervals("latex")[place],
        "sympy": str(law.with_intervals("sympy") if single else law.with_intervals("sympy")[place]),
        "pictures": _pictures(law, table, place, target),
    }


def _term(row: dict[Any, Any]) -> dict[str, Any]:
    p_value = row["p_value"]
    return {
        "name": row["term"],
        "coefficient": f"{row['coefficient']:.6g}",
        "error": f"{row['standard_error']:.2g}",
        "interval": f"{row['lower']:.6g} … {row['upper']:.6g}",
        "bar": _bar(row),
        "p_value": "" if p_value != p_value else f"{p_value:.1e}" if p_value else "< 1e-300",
    }


def _bar(row: dict[Any, Any]) -> Any:
    """Return a small drawing: the interval between ±1.5 times the coefficient."""
    from markupsafe import Markup

    low, high = row["lower"], row["upper"]
    reach = 1.5 * max(abs(low), abs(high))
    if not np.isfinite(reach) or reach == 0:
        return ""
    left, right = (100 + 100 * v / reach for v in (low, high))
    width = max(right - left, 1.5)
    return Markup(
        '<svg viewBox="0 0 200 16" preserveAspectRatio="none" aria-hidden="true">'
        '<line x1="100" y1="0" x2="100" y2="16" stroke="currentColor" stroke-opacity=".4"/>'
        f'<rect x="{left:.2f}" y="4" width="{width:.2f}" height="8" fill="#1d5fa8"/></svg>'
    )


def _pictures(law: WrittenLaws, table: Table, place: int, target: str) -> list[dict[str, str]]:
    names, X = list(table.features.columns), table.features.to_numpy()
    fitted = law.evaluate(X, place)
    residual = table.targets.to_numpy()[:, place] - fitted
    candidates = [(j, str(n)) for j, n in enumerate(names) if n not in law.unused_]
    inside = [(j, n) for j, n in candidates if law.depends_on(j, place)]
    outside = [one for one in candidates if one not in inside]
    drawn = [*inside, *outside][:_MOST_PANELS]
    found = []
    with exactformer_style():
        if inside:
            curves = pictures.dependence(
                lambda rows: law.evaluate(rows, place), X, inside[:_MOST_PANELS], target
            )
            legend = (
                "Blue: the mean of the law over the rows, with one variable set to each value in turn. "
                "Pale: single rows; where they are not parallel, the effect depends on other variables."
            )
            found.append(_picture("Dependence on each variable", legend, curves))
        clouds = pictures.residuals(residual, fitted, X, drawn, target)
    legend = (
        "Points are rows; the line joins means of equally many of them. Where several neighbouring "
        "means leave zero on one side, the law has missed something."
    )
    if len(candidates) > _MOST_PANELS:
        legend += f" The first {_MOST_PANELS} of {len(candidates)} variables are drawn."
    return [*found, _picture("Residuals", legend, clouds)]


def _picture(title: str, legend: str, figure: Any) -> dict[str, str]:
    content = base64.b64encode(figure_bytes(figure, "svg")).decode()
    return {"title": title, "legend": legend, "content": content}


def _ranges(law: WrittenLaws, names: list[str]) -> list[dict[str, str]]:
    outputs = range(len(np.atleast_1d(law.r2_)))
    rows = []
    for j, (name, (low, high)) in enumerate(zip(names, law.box_.tolist(), strict=True)):
        inside = any(law.depends_on(j, k) for k in outputs)
        use = law.unused_.get(name, "in the law" if inside else "not in the law")
        rows.append({"name": name, "low": f"{low:.6g}", "high": f"{high:.6g}", "use": use})
    return rows
