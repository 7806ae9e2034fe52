"""What an experiment is: a grid of cells, the numbers the paper printed, what must hold."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from exactformer.errors import ExperimentError
from exactformer.experiments.engine.cell import Cell, Parameters, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from exactformer.experiments.engine.summary import Summary

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class Scale(StrEnum):
    """How large a run is: seconds in CI, minutes on a laptop, or the paper's own sizes."""

    SMOKE = "smoke"
    DEFAULT = "default"
    PAPER = "paper"


@dataclass(frozen=True)
class Quantity:
    """One number of the summary: where it comes from and what the paper printed for it.

    ``where`` selects cells by their parameters; they are grouped by ``seed``. ``metric`` names the
    metric to take from the one cell of each seed, or is a function of a seed's cells (a slope over
    a sweep, say). A cell that trains several seeds as one ensemble has a list of values, one for each.
    ``printed`` is the published value, at ``place``. With ``ours`` it is a value that we expect and the
    paper did not publish (a closed form, say). A row without it is ours in any case.

    Ours counts as *reproduced* within the relative tolerance ``within`` or within two spreads of
    the seeds; beyond that, on the side ``better`` names, as *better*: to be named for the paper's own
    method only. An infinite ``within`` shows both and compares nothing (run times on another machine).
    ``errata`` says why the published value is wrong: a difference is then a correction. ``note`` tells
    the reader why ours differs. ``drift`` is the relative change ``--check`` lets pass beyond the
    spread; infinite for run times, which are never checked.
    """

    label: str
    metric: str | Callable[[Sequence[Cell]], float | Sequence[float]]
    where: Mapping[str, Any]
    printed: float | None = None
    place: str = ""
    better: Literal["lower", "higher"] | None = None
    within: float = 0.1
    note: str = ""
    drift: float = 1e-6
    ours: bool = False
    errata: str = ""


@dataclass(frozen=True)
class Statement:
    """Part of a claim in words, with the test of it: a direction that holds at every scale.

    With ``ours`` the paper did not claim it. With ``errata``, what the paper says in its place, it is
    the claim as the errata correct it.
    """

    text: str
    holds: Callable[["Summary"], bool]
    ours: bool = False
    errata: str = ""

    @property
    def of_paper(self) -> bool:
        """Whether the paper claims it."""
        return not (self.ours or self.errata)

    @property
    def corrects(self) -> bool:
        """Whether it corrects what the paper claims."""
        return bool(self.errata) and not self.ours


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper, by name.

    ``cells(scale)`` lists the parameters of every cell: JSON-able, all different, with the ``seed``
    from which ``run`` draws all its randomness. ``run(parameters, device)`` returns the metrics:
    numbers, text, or lists of them. It must be a function of an importable module, since worker
    processes find it by name; keep heavy imports inside it. ``quantities`` are the rows of the
    table (a function of the scale where the grid's shape depends on it), ``statements`` what the
    claim says in words; with ``ours`` all of both go beyond the paper. ``figure`` draws a summary;
    without it, ours is drawn against the published values.

    Two views of one computation need not run it twice: ``shares`` names the experiment in whose
    place finished cells are kept. With the same ``run``, equal parameters are then the same cell.
    """

    name: str
    title: str
    claim: str
    source: str
    cells: Callable[[Scale], Sequence[Parameters]]
    run: Run
    quantities: tuple[Quantity, ...] | Callable[[Scale], Sequence[Quantity]]
    statements: tuple[Statement, ...] = ()
    figure: "Callable[[Summary], Figure] | None" = None
    shares: str | None = None
    ours: bool = False

    def __post_init__(self) -> None:
        # The names become those of files and folders, so nothing else may pass.
        for name in (self.name, self.shelf):
            if not _NAME.fullmatch(name):
                raise ExperimentError(
                    f"{name!r} cannot name an experiment: use lower-case words and digits "
                    f"joined by hyphens, such as 'fang-table-1'."
                )

    @property
    def shelf(self) -> str:
        """The name under which finished cells are kept."""
        return self.shares or self.name

    def quantities_at(self, scale: Scale) -> tuple[Quantity, ...]:
        """Return the rows of the table at ``scale``."""
        chosen = self.quantities(scale) if callable(self.quantities) else self.quantities
        return tuple(replace(one, ours=True) if self.ours else one for one in chosen)

    @property
    def stated(self) -> tuple[Statement, ...]:
        """The statements, each with whether it goes beyond the paper."""
        return tuple(replace(one, ours=True) if self.ours else one for one in self.statements)
