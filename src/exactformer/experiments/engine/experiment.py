"""An experiment: a grid of cells, the rows of its table, and statements about them.

What a paper publishes and claims stands in the ledger (:mod:`exactformer.claims`), which names rows and
statements; an experiment holds neither published values nor verdicts.
"""

import importlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

from exactformer.errors import ExperimentError
from exactformer.experiments.engine.cell import Cell, Parameters, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from exactformer.experiments.engine.summary import Summary

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FIGURE = re.compile(r"[\w.]+:\w+")

T = TypeVar("T")


class Scale(StrEnum):
    """How large a run is: seconds in CI, minutes on a laptop, or as large as we run it.

    ``full`` is at the paper's own sizes where we can; the experiment says where it is not.
    """

    SMOKE = "smoke"
    DEFAULT = "default"
    FULL = "full"


def by_scale(smoke: T, default: T, full: T | None = None) -> dict[Scale, T]:
    """Return a value for every scale; without ``full`` it is that of the default scale."""
    return {
        Scale.SMOKE: smoke,
        Scale.DEFAULT: default,
        Scale.FULL: default if full is None else full,
    }


Metric = str | Callable[[Sequence[Cell]], float | Sequence[float]]


@dataclass(frozen=True)
class Quantity:
    """One number of the summary: where it comes from and what we expect of it.

    ``where`` selects cells by their parameters; they are grouped by ``seed``. ``metric`` names the
    metric to take from the one cell of each seed, or is a function of a seed's cells (a slope over
    a sweep, say). A cell that trains several seeds as one ensemble has a list of values, one for each.
    ``expected`` is what theory says it is, at ``place``: a closed form, say. It *agrees* within the
    relative tolerance ``within`` or two spreads of the seeds. ``note`` goes with the row. ``drift`` is
    the relative change ``--check`` lets pass beyond the spread; infinite for run times, which are never
    checked.
    """

    label: str
    metric: Metric
    where: Mapping[str, Any]
    expected: float | None = None
    place: str = ""
    within: float = 0.1
    note: str = ""
    drift: float = 1e-6


def rows(
    label: str,
    metric: Metric | Mapping[str, Metric | tuple[Metric, float]],
    over: Mapping[str, Iterable[Any]] | None = None,
    where: Mapping[str, Any] | None = None,
    **options: Any,
) -> list[Quantity]:
    """Return one quantity per combination of the parameters in ``over``.

    ``label`` is a format string of these parameters. A mapping in place of a list of values gives
    each value the words that stand for it in the label. ``where`` holds for all rows. ``metric`` may
    be a table of its own, from words to a metric or to (metric, drift): its words are ``{row}``.

    Every option of :class:`Quantity` may be a function of the combination, a mapping that also has
    ``row``, or a table by label, which need not have every row. Without an expected value there is
    nothing to compare: only note and drift count.

    >>> [q.label for q in rows("{size}, {row}", {"error": "mse", "cost": "s"}, {"size": (1, 2)})]
    ['1, error', '1, cost', '2, error', '2, cost']
    """
    over = over or {}
    table = metric if isinstance(metric, Mapping) else {"": metric}
    found = []
    for values in product(*over.values()):
        chosen = dict(zip(over, values, strict=True))
        words = {
            name: names[chosen[name]] if isinstance(names, Mapping) else chosen[name]
            for name, names in over.items()
        }
        for row, entry in table.items():
            read, own = (entry[0], {"drift": entry[1]}) if isinstance(entry, tuple) else (entry, {})
            text = label.format(**words, row=row)
            facts = {
                name: fact
                for name, option in {**options, **own}.items()
                if (fact := _fact(option, text, {**chosen, "row": row})) is not None
            }
            if "expected" not in facts:
                for name in ("place", "within"):
                    facts.pop(name, None)
            found.append(Quantity(text, read, {**(where or {}), **chosen}, **facts))
    return found


def _fact(option: Any, label: str, combination: Mapping[str, Any]) -> Any:
    """Return what an option says of one row; ``None`` leaves the quantity its default."""
    if isinstance(option, Mapping):
        return option.get(label)
    return option(combination) if callable(option) else option


Test = Callable[["Summary"], bool | None]


@dataclass(frozen=True)
class Statement:
    """A statement in words, with the test of it: a direction that holds at every scale.

    A test returns None where a run is too small to say anything; the statement is left out then.
    """

    text: str
    holds: Test


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper, by name.

    ``cells(scale)`` lists the parameters of every cell: JSON-able, all different, with the ``seed``
    from which ``run`` draws all its randomness. ``run(parameters, device)`` returns the metrics:
    numbers, text, or lists of them. It must be a function of an importable module, since worker
    processes find it by name; keep heavy imports inside it. ``quantities`` are the rows of the
    table (a function of the scale where the grid's shape depends on it). What is said in words
    stands above its test, as :meth:`states`.
    ``figure`` draws a summary: a function, or "module:function" of a module that is imported when the
    figure is drawn. Without it, our values are drawn against the published ones.

    Two views of one computation need not run it twice: ``shares`` names the experiment in whose
    place finished cells are kept. With the same ``run``, equal parameters are then the same cell.
    """

    name: str
    title: str
    claim: str
    source: str
    cells: Callable[[Scale], Sequence[Parameters]]
    run: Run
    quantities: Sequence[Quantity] | Callable[[Scale], Iterable[Quantity]]
    statements: list[Statement] = field(default_factory=list)
    figure: "Callable[[Summary], Figure] | str | None" = None
    shares: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "statements", list(self.statements))  # its own, for states()
        # The names become those of files and folders, so nothing else may pass.
        for name in (self.name, self.shelf):
            if not _NAME.fullmatch(name):
                raise ExperimentError(
                    f"{name!r} cannot name an experiment: use lower-case words and digits "
                    f"joined by hyphens, such as 'fang-table-1'."
                )
        if isinstance(self.figure, str) and not _FIGURE.fullmatch(self.figure):
            raise ExperimentError(
                f"The figure of {self.name} is {self.figure!r}; write it as 'module:function'."
            )

    @property
    def shelf(self) -> str:
        """The name under which finished cells are kept."""
        return self.shares or self.name

    def states(self, text: str) -> Callable[[Test], Test]:
        """Add the decorated test of a summary, as the statement ``text``."""
        if any(statement.text == text for statement in self.statements):
            raise ExperimentError(f"{self.name} states twice that {text}.")

        def add(holds: Test) -> Test:
            self.statements.append(Statement(text, holds))
            return holds

        return add

    def quantities_at(self, scale: Scale) -> tuple[Quantity, ...]:
        """Return the rows of the table at ``scale``."""
        return tuple(self.quantities(scale) if callable(self.quantities) else self.quantities)

    def draw(self, summary: "Summary") -> "Figure":
        """Draw the figure of a summary, in the one look of all figures."""
        from exactformer.experiments.engine.figure import ours_against_published
        from exactformer.figures.style import exactformer_style

        draw = self.figure or ours_against_published
        if isinstance(draw, str):
            module, _, name = draw.partition(":")
            draw = getattr(importlib.import_module(module), name)
        with exactformer_style():
            return draw(summary)
