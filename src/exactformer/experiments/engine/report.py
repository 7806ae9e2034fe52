"""All results on one HTML page that needs nothing else: no network, no scripts, no other files."""

import base64
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from exactformer.errors import InputError
from exactformer.experiments.engine.experiment import Scale
from exactformer.experiments.engine.presentation import Presentation, present, tally, waiting
from exactformer.experiments.engine.result import load
from exactformer.experiments.engine.store import write_atomically
from exactformer.experiments.registry import find, names

# A result and its figure, an SVG file's content.
Shown = tuple[Presentation, bytes | None]


def write_report(results: str | Path = "results", out: str | Path | None = None) -> Path:
    """Write the report on every experiment; return its path (``results``/report.html).

    Each experiment is shown at the largest scale at which ``results`` has it.

    Raises:
        InputError: if ``results`` holds no result of any experiment.
    """
    folder = Path(results)
    path = Path(out) if out else folder / "report.html"
    write_atomically(path, page([_shown(folder, name) for name in stored_names(folder)]).encode())
    return path


def stored_names(folder: Path) -> list[str]:
    """Return the names of all experiments, then those of which ``folder`` alone has a result."""
    known = names()
    stored = {found.stem for place in _places(folder) for found in place.glob("*.json")}
    if not stored:
        problem = "holds no results" if folder.is_dir() else "is not a folder"
        raise InputError(
            f"{folder} {problem}; exactformer reproduce stores results, --results names their folder"
        )
    return [*known, *sorted(stored - set(known))]


def _places(folder: Path) -> list[Path]:
    return [folder, folder / Scale.DEFAULT, folder / Scale.SMOKE]


def _shown(folder: Path, name: str) -> Shown:
    """Return the stored result of ``name`` with its figure, or what there is without one."""
    experiment = find(name) if name in names() else None
    for place in _places(folder):
        path = place / f"{name}.json"
        if path.is_file():
            picture = path.with_suffix(".svg")
            svg = picture.read_bytes() if picture.is_file() else None
            return present(load(path, experiment)), svg
    return waiting(find(name)), None


def page(shown: Sequence[Shown]) -> str:
    """Return the whole page."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    from exactformer.figures.style import page_style

    files = resources.files(__package__)
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(files.joinpath("report.html").read_text("utf-8")).render(
        style=Markup(page_style()),
        tally=tally(one.verdict for one, _ in shown),
        shown=[(one, svg and base64.b64encode(svg).decode()) for one, svg in shown],
    )
