"""The summary of finished cells: as a frame, and as one row per quantity beside the published value."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from exactformer.errors import ExperimentError
from exactformer.experiments.engine.cell import Cell, Parameters, matches
from exactformer.experiments.engine.experiment import Experiment, Quantity, Scale
from exactformer.experiments.engine.verdict import Verdict, judge, mean, spread

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Row:
    """A quantity, its values over the seeds, and how they compare with the published value.

    It is ``ours`` if the paper published no value for it.
    """

    label: str
    values: tuple[float, ...]
    published: float | None
    place: str
    verdict: Verdict
    why: str
    drift: float
    ours: bool = False

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return mean(self.values)

    @property
    def spread(self) -> float | None:
        """The standard deviation over seeds."""
        return spread(self.values)

    @property
    def ratio(self) -> float | None:
        """Ours over the published value."""
        return self.mean / self.published if self.published else None


@dataclass(frozen=True)
class Summary:
    """The rows of the table, with the cells behind them: one by one, or as a frame.

    ``summary["attention, test"]`` is that row's mean.
    """

    scale: Scale
    rows: tuple[Row, ...]
    cells: tuple[Cell, ...]

    def row(self, label: str) -> Row:
        """Return the row called ``label``."""
        for row in self.rows:
            if row.label == label:
                return row
        labels = ", ".join(repr(row.label) for row in self.rows)
        raise ExperimentError(f"No row is called {label!r}; there are {labels}.")

    def __getitem__(self, label: str) -> float:
        return self.row(label).mean

    def select(self, **where: Any) -> list[Cell]:
        """Return the cells with these parameters."""
        return [cell for cell in self.cells if matches(cell.parameters, where)]

    def cell(self, **where: Any) -> Cell:
        """Return the one cell with these parameters."""
        (cell,) = self.select(**where)
        return cell

    def every(self, where: str, condition: str) -> bool:
        """Whether the cells that ``where`` selects, one at least, all fulfil ``condition``.

        Both are queries of :attr:`frame`, as pandas reads them: ``@name`` is a name of the caller's.
        """
        chosen = self.frame.query(where, level=1) if where else self.frame
        return 0 < len(chosen) == len(chosen.query(condition, level=1))

    @cached_property
    def frame(self) -> "DataFrame":
        """The cells as a table: see :func:`frame_of`."""
        return frame_of(self.cells)


def frame_of(cells: Iterable[Cell]) -> "DataFrame":
    """Return one row per cell: its parameters, and those metrics that are single values.

    A metric with the name of a parameter has the column "metric NAME". What a cell lacks is NaN; a
    statement that must tell the two apart reads the cells.
    """
    from pandas import DataFrame

    rows = []
    for cell in cells:
        row = dict(cell.parameters)
        for name, value in cell.metrics.items():
            if value is None or isinstance(value, bool | int | float | str):
                row[f"metric {name}" if name in cell.parameters else name] = value
        rows.append(row)
    return DataFrame(rows)


def summarise(experiment: Experiment, scale: Scale, cells: Iterable[Cell]) -> Summary:
    """Return the table of ``experiment`` from its finished cells."""
    cells = tuple(cells)
    rows = tuple(row_of(quantity, scale, cells) for quantity in experiment.quantities_at(scale))
    return Summary(scale, rows, cells)


def check_rows(experiment: Experiment, scale: Scale, grid: Sequence[Parameters]) -> None:
    """Raise if a row cannot be filled from ``grid``: before hours are spent on its cells."""
    labels = set()
    for quantity in experiment.quantities_at(scale):
        if quantity.label in labels:
            raise ExperimentError(f"{experiment.name} has several rows called {quantity.label!r}.")
        labels.add(quantity.label)
        seeds = [cell.get("seed") for cell in grid if matches(cell, quantity.where)]
        if not seeds:
            raise ExperimentError(
                f"The row {quantity.label!r} selects no cell: none has the parameters "
                f"{dict(quantity.where)} at scale {scale}."
            )
        if isinstance(quantity.metric, str) and len(set(seeds)) < len(seeds):
            raise ExperimentError(
                f"The row {quantity.label!r} selects several cells of one seed; narrow its "
                f"'where', or make its metric a function of them."
            )


def row_of(quantity: Quantity, scale: Scale, cells: Sequence[Cell]) -> Row:
    """Return the row of ``quantity`` from finished cells."""
    by_seed: dict[Any, list[Cell]] = {}
    for cell in cells:
        if matches(cell.parameters, quantity.where):
            by_seed.setdefault(cell.seed, []).append(cell)
    values = tuple(value for of_seed in by_seed.values() for value in _values(quantity, of_seed))
    return judged(quantity, values, scale)


def judged(quantity: Quantity, values: tuple[float, ...], scale: Scale) -> Row:
    """Return the row of ``quantity`` for its ``values`` over seeds."""
    verdict, why = judge(quantity, values, scale)
    return Row(
        label=quantity.label,
        values=values,
        published=quantity.published,
        place=quantity.place,
        verdict=verdict,
        why=f"{why} {quantity.note}".strip(),
        drift=quantity.drift,
        ours=quantity.ours or quantity.published is None,
    )


def _values(quantity: Quantity, cells: Sequence[Cell]) -> tuple[float, ...]:
    """Return what the cells of one seed say: one value, or one for each model of an ensemble."""
    if callable(quantity.metric):
        found = quantity.metric(cells)
    else:
        (cell,) = cells
        if quantity.metric not in cell.metrics:
            raise ExperimentError(
                f"The row {quantity.label!r} wants the metric {quantity.metric!r}; the cell has "
                f"{', '.join(sorted(cell.metrics)) or 'none'}."
            )
        found = cell.metrics[quantity.metric]
    return tuple(map(float, found)) if isinstance(found, Sequence) else (float(found),)
