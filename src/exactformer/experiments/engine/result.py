"""The result of an experiment: the table, the verdict, the cells behind it, and its provenance.

A file holds the numbers of a run. Statements and verdicts are derived from them when the result is
read, by the experiment and the ledger as they are now; :func:`refresh` writes the words back.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exactformer.claims import Run
from exactformer.errors import ExperimentError, FileFormatError
from exactformer.experiments.engine.cell import Cell, Metrics, Parameters, plain, restore
from exactformer.experiments.engine.experiment import Experiment, Quantity, Scale, Statement
from exactformer.experiments.engine.figure import save_figure
from exactformer.experiments.engine.provenance import Provenance
from exactformer.experiments.engine.store import write_atomically
from exactformer.experiments.engine.summary import Row, Summary, judged, row_of, with_intervals
from exactformer.experiments.engine.verdict import Word, cited, overall, published

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
        parts = self.experiment.statements
        return [(p, self.statements[p.text]) for p in parts if p.text in self.statements]

    @property
    def cited(self) -> frozenset[str]:
        """The statements that a claim of a paper rests on."""
        return cited(self.experiment.name, tuple(self.statements))

    @property
    def run(self) -> Run:
        """What the ledger reads of it."""
        rows = {row.label: row.values for row in self.summary.rows}
        return Run(rows, self.statements, str(self.scale))

    @property
    def verdict(self) -> Word:
        """What the claims of the paper that it speaks to amount to, by the ledger."""
        return self._overall[0]

    @property
    def why(self) -> str:
        """The reason for the verdict, in a sentence or two."""
        return self._overall[1]

    @property
    def _overall(self) -> tuple[Word, str]:
        return overall(self.experiment.name, self.run, self.unjudged)

    @property
    def table(self) -> "DataFrame":
        """One row per quantity: the published value, ours, spread, seeds, ratio, verdict, why."""
        from pandas import DataFrame

        return DataFrame(
            {
                "quantity": [row.label for row in self.summary.rows],
                "paper": [row.published for row in self.summary.rows],
                "expected": [row.expected for row in self.summary.rows],
                "ours": [row.mean for row in self.summary.rows],
                "spread": [row.spread for row in self.summary.rows],
                "seeds": [len(row.values) for row in self.summary.rows],
                "ratio": [row.ratio for row in self.summary.rows],
                "verdict": [str(row.verdict) for row in self.summary.rows],
                "why": [row.why for row in self.summary.rows],
                "beyond the paper": [row.published is None for row in self.summary.rows],
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
        return self.write(path)  # last, so that a JSON always has its figure

    def write(self, path: Path) -> Path:
        """Write the JSON alone."""
        # One cell per line, so that diffs are readable.
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
        rows = with_intervals(rows, published(known.name), scale)
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
    known = published(experiment.name)
    quantities = {quantity.label: quantity for quantity in experiment.quantities_at(scale)}
    for row in stored:
        label, place, drift = (row[k] for k in ("label", "place", "drift"))
        quantity = quantities.pop(label, None)
        if quantity is None:
            why = "Not judged: this version has no such quantity."
            quantity = Quantity(label, "", {}, place=place, note=why, drift=drift)
        yield judged(quantity, tuple(map(float, row["values"])), scale, known)
    for label, quantity in quantities.items():
        try:
            yield row_of(quantity, scale, cells, known)
        except _LACKING:
            unjudged += [label] if label in known else []


def _statements(
    experiment: Experiment, stored: dict[str, bool], summary: Summary, unjudged: list[str]
) -> Iterator[tuple[str, bool]]:
    """Yield every statement as the stored numbers decide it, or else as the run tested it."""
    needed = cited(experiment.name, [part.text for part in experiment.statements])
    for part in experiment.statements:
        holds: bool | None
        try:
            holds = part.holds(summary)
        except _LACKING:
            holds = stored.get(part.text)
            unjudged += [part.text] if holds is None and part.text in needed else []
        if holds is not None:
            yield part.text, bool(holds)


def refresh(path: Path, experiment: Experiment) -> bool:
    """Write a stored result's derived words back into its file; return whether they had changed."""
    before = path.read_bytes()
    load(path, experiment).write(path)
    return path.read_bytes() != before


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
