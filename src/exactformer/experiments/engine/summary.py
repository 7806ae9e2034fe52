"""The summary of finished cells: as a frame, and as one row per quantity, next to what is known."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from exactformer.claims import Run, Value, compare
from exactformer.errors import ExperimentError
from exactformer.experiments.engine.cell import Cell, Parameters, matches
from exactformer.experiments.engine.experiment import Experiment, Quantity, Scale
from exactformer.experiments.engine.verdict import Outcome, Word, expected, mean, published, spread

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Row:
    """A quantity, its values over the seeds, and how they compare with the published value.

    Where the papers publish none, ``expected`` may be what theory says.
    """

    label: str
    values: tuple[float, ...]
    published: float | None
    expected: float | None
    place: str
    verdict: Word
    why: str
    drift: float

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return mean(self.values)

    @property
    def spread(self) -> float | None:
        """The standard deviation over seeds."""
        return spread(self.values)

    @property
    def reference(self) -> float | None:
        """The published value, or else the expected one."""
        return self.expected if self.published is None else self.published

    @property
    def ratio(self) -> float | None:
        """Ours over the published or expected value."""
        return self.mean / self.reference if self.reference else None


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
    known = published(experiment.name)
    rows = tuple(
        row_of(quantity, scale, cells, known) for quantity in experiment.quantities_at(scale)
    )
    return Summary(scale, with_intervals(rows, known, scale), cells)


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


def row_of(
    quantity: Quantity, scale: Scale, cells: Sequence[Cell], known: Mapping[str, Value]
) -> Row:
    """Return the row of ``quantity`` from finished cells."""
    by_seed: dict[Any, list[Cell]] = {}
    for cell in cells:
        if matches(cell.parameters, quantity.where):
            by_seed.setdefault(cell.seed, []).append(cell)
    values = tuple(value for of_seed in by_seed.values() for value in _values(quantity, of_seed))
    return judged(quantity, values, scale, known)


def judged(
    quantity: Quantity, values: tuple[float, ...], scale: Scale, known: Mapping[str, Value]
) -> Row:
    """Return the row of ``quantity`` for its ``values`` over seeds."""
    verdict: Word
    value = known.get(quantity.label)
    if value is None:
        verdict, why = expected(quantity, values, scale)
    else:
        verdict, why = _compared(value, {quantity.label: values}, scale)
    notes = [why, quantity.note, value.note if value else ""]
    if value and value.inferred:
        notes.append("Which row of the damaged table this number belongs to is inferred.")
    return Row(
        label=quantity.label,
        values=values,
        published=value.number if value else None,
        expected=None if value else quantity.expected,
        place=quantity.place,
        verdict=verdict,
        why=" ".join(note for note in notes if note),
        drift=quantity.drift,
    )


def with_intervals(
    rows: tuple[Row, ...], known: Mapping[str, Value], scale: Scale
) -> tuple[Row, ...]:
    """Return the rows, with exponents judged by the half-widths that stand in rows of their own."""
    values = {row.label: row.values for row in rows}
    made = []
    for row in rows:
        value = known.get(row.label)
        if value and value.interval in values:
            verdict, why = _compared(value, values, scale)
            row = replace(row, verdict=verdict, why=f"{why} {value.note}".strip())
        made.append(row)
    return tuple(made)


def _compared(
    value: Value, rows: Mapping[str, tuple[float, ...]], scale: Scale
) -> tuple[Word, str]:
    if value.interval and value.interval not in rows:
        return Outcome.NOT_COMPARED, ""
    if scale is not Scale.FULL:
        return Outcome.NOT_COMPARED, "Published values are compared with runs at full scale."
    verdict, why = compare(value, Run(rows))
    return verdict, f"{why[:1].upper()}{why[1:]}."


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
