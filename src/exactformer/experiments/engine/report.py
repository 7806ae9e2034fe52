"""All results on one HTML page that needs nothing else: no network, no scripts, no other files."""

import base64
import math
from collections.abc import Iterator
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from exactformer.errors import InputError
from exactformer.experiments.engine.cell import restore
from exactformer.experiments.engine.experiment import Scale
from exactformer.experiments.engine.provenance import command_line
from exactformer.experiments.engine.result import read
from exactformer.experiments.engine.store import write_atomically
from exactformer.experiments.registry import find, names
from exactformer.progress import duration

Content = dict[str, Any]

# Name of each column of a result's table -> its class.
_COLUMNS = {
    "Quantity": "",
    "Paper": "number",
    "Ours": "number",
    "Seeds": "number",
    "Ratio": "number",
    "Verdict": "",
    "Why": "why",
}


def write_report(results: str | Path = "results", out: str | Path | None = None) -> Path:
    """Write the report on every experiment; return its path (``results``/report.html).

    Each experiment is shown at the largest scale at which ``results`` has it.

    Raises:
        InputError: if ``results`` holds no result of any experiment.
    """
    folder = Path(results)
    path = Path(out) if out else folder / "report.html"
    known = names()
    stored = {found.stem for place in _places(folder) for found in place.glob("*.json")}
    if not stored:
        problem = "holds no results" if folder.is_dir() else "is not a folder"
        raise InputError(
            f"{folder} {problem}; exactformer reproduce stores results, --results names their folder"
        )
    entries = [_entry(folder, name) for name in [*known, *sorted(stored - set(known))]]
    write_atomically(path, page(entries).encode())
    return path


def _places(folder: Path) -> list[Path]:
    return [folder, folder / Scale.DEFAULT, folder / Scale.SMOKE]


def _entry(folder: Path, name: str) -> Content:
    """Return the stored result of ``name`` with its figure, or a stub if it was never run."""
    for place in _places(folder):
        path = place / f"{name}.json"
        if path.is_file():
            picture = path.with_suffix(".svg")
            svg = picture.read_bytes() if picture.is_file() else None
            return {**read(path), "svg": svg}
    experiment = find(name)
    return {
        "experiment": name,
        "title": experiment.title,
        "claim": experiment.claim,
        "source": experiment.source,
        "verdict": "not run",
    }


def page(entries: list[Content]) -> str:
    """Return the whole page."""
    style = resources.files(__package__).joinpath("report.css").read_text()
    body = "\n".join(map(_section, entries)) or "<p>No experiment has been run yet.</p>"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>exactformer: reproductions</title>
<style>
{style}</style>
</head>
<body>
<h1>Reproductions</h1>
<p>Every experiment of exactformer: what the paper claims and printed, what we measured, and
whether the two agree. Ours is the mean over seeds, ± their standard deviation.</p>
{_overview(entries)}
{body}
</body>
</html>
"""


def _overview(entries: list[Content]) -> str:
    if not entries:
        return ""
    rows = "".join(
        f'<tr><td><a href="#{escape(entry["experiment"])}">{escape(entry["experiment"])}</a></td>'
        f'<td class="source">{escape(entry["source"])}</td><td>{_badge(entry["verdict"])}</td>'
        f'<td class="number">{_cost(entry)}</td></tr>'
        for entry in entries
    )
    return (
        '<div class="scroll"><table><thead><tr><th>Experiment</th><th class="source">Source</th>'
        '<th>Verdict</th><th class="number">Cost</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _section(entry: Content) -> str:
    name = escape(entry["experiment"])
    return (
        f'<section id="{name}">\n<h2>{escape(entry["title"])}</h2>\n'
        f'<p class="soft">{name} · {escape(entry["source"])}</p>\n'
        f'<p class="claim">{escape(entry["claim"])}</p>\n' + "\n".join(_parts(entry)) + "</section>"
    )


def _parts(entry: Content) -> Iterator[str]:
    yield f"<p>{_badge(entry['verdict'])}{escape(_reason(entry))}</p>"
    if "provenance" not in entry:
        yield f"<pre>{escape(command_line(entry['experiment'], Scale.DEFAULT, 'cpu'))}</pre>"
        return
    if entry["rows"]:
        yield _table(restore(entry["rows"]))
    if entry["statements"]:
        items = "".join(
            f'<li class="{"holds" if holds else "broken"}">{"✓" if holds else "✗"} '
            f"{escape(text)}</li>"
            for text, holds in entry["statements"].items()
        )
        yield f'<ul class="statements">{items}</ul>'
    if entry["svg"]:
        # An image, not markup: two figures' identifiers cannot meet, and nothing in it can act.
        data = base64.b64encode(entry["svg"]).decode()
        alt = escape(f"Figure of {entry['experiment']}: {entry['title']}")
        yield f'<figure><img alt="{alt}" src="data:image/svg+xml;base64,{data}"></figure>'
    yield f"<pre>{escape(entry['provenance']['command'])}</pre>"
    yield _origin(entry)


def _reason(entry: Content) -> str:
    if entry["verdict"] == "not run":
        return " There is no stored result yet. To make one:"
    return f" at scale {entry['scale']}. {entry['why']}"


def _table(rows: list[Content]) -> str:
    head = "".join(f'<th class="{kind}">{name}</th>' for name, kind in _COLUMNS.items())
    return (
        f'<div class="scroll"><table class="rows"><thead><tr>{head}</tr></thead><tbody>\n'
        + "".join(map(_row, rows))
        + "</tbody></table></div>"
    )


def _row(row: Content) -> str:
    place = f'<br><span class="soft">{escape(row["place"])}</span>' if row["place"] else ""
    fields = (
        escape(row["label"]) + place,
        _number(row["printed"]),
        _ours(row),
        str(len(row["values"])),
        _number(row["ratio"]),
        _badge(row["verdict"]) if row["printed"] is not None else "",
        escape(row["why"]),
    )
    # On a narrow screen the header is hidden and each field shows its own name.
    cells = "".join(
        f'<td class="{kind}" data-name="{name}">{field}</td>'
        for (name, kind), field in zip(_COLUMNS.items(), fields, strict=True)
    )
    return f"<tr>{cells}</tr>\n"


def _ours(row: Content) -> str:
    if not math.isfinite(row["mean"]):
        return "diverged"
    spread = f" ± {_number(row['spread'])}" if row["spread"] is not None else ""
    return _number(row["mean"]) + spread


def _origin(entry: Content) -> str:
    origin = entry["provenance"]
    changed = " with changes" if origin["modified"] else ""
    facts = {
        "cost": f"{_cost(entry)} in {origin['cells']} cells; last run {_wall(origin)}",
        "device": origin["device"],
        "seeds": ", ".join(map(str, origin["seeds"])) or "none",
        "date": origin["date"],
        "version": f"{origin['version']}, commit {origin['commit'] or 'unknown'}{changed}",
        "libraries": f"Python {origin['python']}, torch {origin['torch']}, numpy {origin['numpy']}",
    }
    items = "".join(f"<dt>{name}</dt><dd>{escape(fact)}</dd>" for name, fact in facts.items())
    return f"<details><summary>Cost and provenance</summary><dl>{items}</dl></details>"


def _wall(origin: Content) -> str:
    kept = f", {origin['kept']} cells kept from before" if origin["kept"] else ""
    return duration(origin["wall_seconds"]) + kept


def _cost(entry: Content) -> str:
    return duration(entry["provenance"]["seconds"]) if "provenance" in entry else "–"


def _badge(verdict: str) -> str:
    kind = escape(verdict.replace(" ", "-"))
    return f'<span class="verdict {kind}">{escape(verdict)}</span>'


def _number(value: float | None) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.3g}"
