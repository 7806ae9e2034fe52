"""The result of an experiment: the table, the verdict, the cells behind it, and its provenance.

A file holds the numbers of a run. The verdict is derived from them when the result is read, by the
experiment as it is now; the words that the file has are for readers of the file.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exactformer.errors import ExperimentError, FileFormatError
from exactformer.experiments.engine.cell import Cell, Metrics, Parameters, plain, restore
from exactformer.experiments.engine.experiment import Experiment, Quantity, Scale, Statement
from exactformer.experiments.engine.figure import save_figure
from exactformer.experiments.engine.provenance import Provenance
from exactformer.experiments.engine.store import write_atomically
from exactformer.experiments.engine.summary import Row, Summary, judged, row_of
from exactformer.experiments.engine.verdict import Verdict, overall

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

FORMAT = "exactformer result 2"


@dataclass(frozen=True)
class Result:
    """What :func:`reproduce` returns and ``results/NAME.json`` holds.

    ``unjudged`` names what the paper published or claims and a stored run cannot be judged by, because
    the file and this version of the experiment differ in it.
    """

    experiment: Experiment
    summary: Summary
    statements: dict[str, bool]
    provenance: Provenance
    unjudged: tuple[str, ...] = ()

    @classmethod
    def of(cls, experiment: Experiment, summary: Summary, provenance: Provenance) -> "Result":
        """Return the result of a finished run, with every statement tested that it can test."""
        found = ((part.text, part.holds(summary)) for part in experiment.statements)
        statements = {text: bool(holds) for text, holds in found if holds is not None}
        return cls(experiment, summary, statements, provenance)

    @property
    def scale(self) -> Scale:
        """How large the run was."""
        return self.summary.scale

    @property
    def broken(self) -> list[str]:
        """The statements of the claim that do not hold."""
        return [text for text, holds in self.statements.items() if not holds]

    @property
    def tested(self) -> list[tuple[Statement, bool]]:
        """Every statement that was tested, with whether it holds."""
        parts = self.experiment.stated
        return [(p, self.statements[p.text]) for p in parts if p.text in self.statements]

    @property
    def verdict(self) -> Verdict:
        """The outcome for the paper; what is ours has no part in it."""
        return self._overall[0]

    @property
    def why(self) -> str:
        """The reason for the verdict, in a sentence or two."""
        return self._overall[1]

    @property
    def _overall(self) -> tuple[Verdict, str]:
        return overall(self.summary.rows, self.tested, self.scale, self.unjudged)

    @property
    def table(self) -> "DataFrame":
        """One row per quantity: the published value, ours, spread, seeds, ratio, verdict, why."""
        from pandas import DataFrame

        return DataFrame(
            {
                "quantity": [row.label for row in self.summary.rows],
                "paper": [row.published for row in self.summary.rows],
                "ours": [row.mean for row in self.summary.rows],
                "spread": [row.spread for row in self.summary.rows],
                "seeds": [len(row.values) for row in self.summary.rows],
                "ratio": [row.ratio for row in self.summary.rows],
                "verdict": [str(row.verdict) for row in self.summary.rows],
                "why": [row.why for row in self.summary.rows],
                "beyond the paper": [row.ours for row in self.summary.rows],
            }
        )

    def figure(self) -> "Figure":
        """Draw the experiment's figure from this result."""
        return self.experiment.draw(self.summary)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data; non-finite numbers are the strings nan, inf, -inf."""
        experiment = self.experiment
        content = {
            "format": FORMAT,
            "experiment": experiment.name,
            "title": experiment.title,
            "claim": experiment.claim,
            "source": experiment.source,
            "scale": str(self.scale),
            "verdict": str(self.verdict),
            "why": self.why,
            "statements": self.statements,
            "rows": [
                {**asdict(row), "mean": row.mean, "spread": row.spread, "ratio": row.ratio}
                for row in self.summary.rows
            ],
            "provenance": asdict(self.provenance),
            "cells": [asdict(cell) for cell in self.summary.cells],
        }
        data: dict[str, Any] = plain(content, experiment.name)
        return data

    def save(self, folder: str | Path) -> Path:
        """Write NAME.json, NAME.png and NAME.svg into ``folder``; return the JSON's path."""
        path = Path(folder) / f"{self.experiment.name}.json"
        save_figure(self.figure(), path.with_suffix(""))
        # Last, so that a JSON always has its figure; one cell per line, so that diffs are readable.
        content = self.to_dict()
        cells = ",\n  ".join(json.dumps(cell, ensure_ascii=False) for cell in content.pop("cells"))
        head = json.dumps(content, indent=1, ensure_ascii=False).removesuffix("\n}")
        write_atomically(path, f'{head},\n "cells": [\n  {cells}\n ]\n}}\n'.encode())
        return path


def read(path: Path) -> dict[str, Any]:
    """Return the content of a result file, checked for its form."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise FileFormatError(f"There is no stored result {path}.") from None
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path} cannot be read as a result: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise FileFormatError(f"{path} is not a result of this version ({FORMAT!r}).")
    return content


def load(path: Path, experiment: Experiment | None) -> Result:
    """Read back what :meth:`Result.save` wrote for ``experiment``, and judge it anew.

    Without ``experiment`` (this version has none of that name) numbers are read and not judged.
    """
    content = read(path)
    try:
        cells = tuple(
            Cell(**{**cell, "metrics": restore(cell["metrics"])}) for cell in content["cells"]
        )
        origin = content["provenance"]
        provenance = Provenance(**{**origin, "seeds": tuple(origin["seeds"])})
        unjudged = [] if experiment else ["this version has no experiment of this name"]
        known = experiment or _unknown(content)
        scale = Scale(content["scale"])
        rows = tuple(_rows(known, scale, restore(content["rows"]), cells, unjudged))
        summary = Summary(scale, rows, cells)
        statements = dict(_statements(known, content["statements"], summary, unjudged))
        return Result(known, summary, statements, provenance, tuple(unjudged))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path} is not a whole result: {error!r}") from error


# Errors of a quantity or statement that asks for more than an older file has.
_LACKING = (ExperimentError, ArithmeticError, LookupError, TypeError, ValueError)


def _rows(
    experiment: Experiment,
    scale: Scale,
    stored: list[dict[str, Any]],
    cells: tuple[Cell, ...],
    unjudged: list[str],
) -> Iterator[Row]:
    """Yield every stored row, judged, then those that follow from the stored cells."""
    quantities = {quantity.label: quantity for quantity in experiment.quantities_at(scale)}
    for row in stored:
        label, published, place, drift = (row[k] for k in ("label", "published", "place", "drift"))
        quantity = quantities.pop(label, None)
        if quantity is None:
            unjudged += [label] if published is not None else []
            why = "Not judged: this version has no such quantity."
            quantity = Quantity(
                label, "", {}, published, place, within=math.inf, note=why, drift=drift
            )
        yield judged(quantity, tuple(map(float, row["values"])), scale)
    for label, quantity in quantities.items():
        try:
            yield row_of(quantity, scale, cells)
        except _LACKING:
            unjudged += [label] if quantity.published is not None and not quantity.ours else []


def _statements(
    experiment: Experiment, stored: dict[str, bool], summary: Summary, unjudged: list[str]
) -> Iterator[tuple[str, bool]]:
    """Yield every statement as the run tested it, or as the stored numbers decide it."""
    for part in experiment.stated:
        try:
            holds = stored[part.text] if part.text in stored else part.holds(summary)
            if holds is not None:
                yield part.text, bool(holds)
        except _LACKING:
            unjudged += [part.text] if part.of_paper else []


def _unknown(content: dict[str, Any]) -> Experiment:
    """Return a stand-in for an experiment that this version does not have."""

    def run(parameters: Parameters, device: str) -> Metrics:
        raise ExperimentError(f"This version cannot run {content['experiment']!r}.")

    return Experiment(
        name=content["experiment"],
        title=content["title"],
        claim=content["claim"],
        source=content["source"],
        cells=lambda scale: [],
        run=run,
        quantities=(),
        statements=[Statement(text, lambda s: False) for text in content["statements"]],
    )
