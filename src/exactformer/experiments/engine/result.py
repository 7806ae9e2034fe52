"""The result of an experiment: the table, the verdict, the cells behind it, and its provenance."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exactformer.errors import FileFormatError
from exactformer.experiments.engine.cell import Cell, plain, restore
from exactformer.experiments.engine.experiment import Experiment, Scale
from exactformer.experiments.engine.figure import save_figure
from exactformer.experiments.engine.provenance import Provenance
from exactformer.experiments.engine.store import write_atomically
from exactformer.experiments.engine.summary import Row, Summary
from exactformer.experiments.engine.verdict import Verdict, overall

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

FORMAT = "exactformer result 1"


@dataclass(frozen=True)
class Result:
    """What :func:`reproduce` returns and ``results/NAME.json`` holds."""

    experiment: Experiment
    summary: Summary
    statements: dict[str, bool]
    provenance: Provenance

    @classmethod
    def of(cls, experiment: Experiment, summary: Summary, provenance: Provenance) -> "Result":
        """Return the result of a finished run, with every statement of the claim tested."""
        statements = {part.text: bool(part.holds(summary)) for part in experiment.statements}
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
    def verdict(self) -> Verdict:
        """Reproduced, better, not reproduced, or not compared."""
        return self._overall[0]

    @property
    def why(self) -> str:
        """The reason for the verdict, in a sentence."""
        return self._overall[1]

    @property
    def _overall(self) -> tuple[Verdict, str]:
        verdicts = {row.label: row.verdict for row in self.summary.rows}
        return overall(verdicts, self.broken, len(self.statements), self.scale)

    @property
    def table(self) -> "DataFrame":
        """One row per quantity: the paper's figure, ours, spread, seeds, ratio, verdict, why."""
        from pandas import DataFrame

        return DataFrame(
            {
                "quantity": [row.label for row in self.summary.rows],
                "paper": [row.printed for row in self.summary.rows],
                "ours": [row.mean for row in self.summary.rows],
                "spread": [row.spread for row in self.summary.rows],
                "seeds": [len(row.values) for row in self.summary.rows],
                "ratio": [row.ratio for row in self.summary.rows],
                "verdict": [str(row.verdict) for row in self.summary.rows],
                "why": [row.why for row in self.summary.rows],
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


def load(path: Path, experiment: Experiment) -> Result:
    """Read back what :meth:`Result.save` wrote for ``experiment``."""
    content = read(path)
    try:
        rows = tuple(
            Row(
                label=row["label"],
                values=tuple(row["values"]),
                printed=row["printed"],
                place=row["place"],
                verdict=Verdict(row["verdict"]),
                why=row["why"],
                drift=row["drift"],
            )
            for row in restore(content["rows"])
        )
        cells = tuple(
            Cell(**{**cell, "metrics": restore(cell["metrics"])}) for cell in content["cells"]
        )
        origin = content["provenance"]
        provenance = Provenance(**{**origin, "seeds": tuple(origin["seeds"])})
        summary = Summary(Scale(content["scale"]), rows, cells)
        return Result(experiment, summary, content["statements"], provenance)
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path} is not a whole result: {error!r}") from error
