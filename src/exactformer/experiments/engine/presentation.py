"""The presentation of a result: its verdict, rows, statements and counts in words, as plain data.

The command line, the report, the documentation and the studio lay out what is here and add no words or
numbers of their own.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from exactformer.claims import Verdict
from exactformer.core.words import plural
from exactformer.experiments.engine.experiment import Experiment, Scale, Statement
from exactformer.experiments.engine.numbers import number
from exactformer.experiments.engine.provenance import Provenance, command_line
from exactformer.experiments.engine.result import Result
from exactformer.experiments.engine.summary import Row
from exactformer.experiments.engine.verdict import Outcome
from exactformer.progress import duration

NO_RUN = "no stored run"
# Every verdict in the order of summaries, with the tone in which it is shown.
TONES: dict[str, str] = {
    Verdict.REPRODUCED: "good",
    Verdict.SUBSTITUTES: "good",
    Verdict.CORRECTED: "warn",
    Verdict.NUMBERS_DIFFER: "warn",
    Verdict.INCONCLUSIVE: "warn",
    Verdict.NOT_REPRODUCED: "bad",
    Verdict.BEYOND: "plain",
    Verdict.NOT_TRIED: "plain",
    Outcome.NOT_COMPARED: "plain",
    Outcome.AGREES: "good",
    Outcome.DIFFERS: "warn",
    NO_RUN: "plain",
}


@dataclass(frozen=True)
class Line:
    """A row of the table, as text. ``reference`` is the published or expected value, at ``place``."""

    label: str
    place: str
    reference: str
    ours: str
    seeds: str
    ratio: str
    verdict: str
    why: str
    tone: str

    def column(self, name: str) -> str:
        """Return the field that stands in the column called ``name``."""
        fields = {"Quantity": self.label, "Published": self.reference, "Expected": self.reference}
        return fields.get(name) or str(getattr(self, name.lower()))


@dataclass(frozen=True)
class Item:
    """A statement with its outcome."""

    text: str
    holds: bool
    outcome: str

    @property
    def mark(self) -> str:
        """A tick or a cross."""
        return "✓" if self.holds else "✗"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Part:
    """What a result says about the paper, or about what is ours; ``count`` sums it up.

    ``reference`` is the name of the column with the values that ours are compared with.
    """

    title: str
    reference: str
    count: str = ""
    lines: tuple[Line, ...] = ()
    items: tuple[Item, ...] = ()

    @property
    def compared(self) -> bool:
        """Whether there is a value to compare with."""
        return any(line.reference != "–" for line in self.lines)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table, in order: those that have anything to show."""
        if self.compared:
            return ("Quantity", self.reference, "Ours", "Seeds", "Ratio", "Verdict", "Why")
        why = ("Why",) if any(line.why for line in self.lines) else ()
        return ("Quantity", "Ours", "Seeds", *why)

    def __bool__(self) -> bool:
        return bool(self.lines or self.items)


PAPER, BEYOND = Part("The paper", "Published"), Part("Beyond the paper", "Expected")


@dataclass(frozen=True)
class Presentation:
    """A result, or an experiment without one, as every page shows it."""

    name: str
    title: str
    claim: str
    source: str
    verdict: str
    why: str
    command: str
    paper: Part = PAPER
    beyond: Part = BEYOND
    scale: str = ""
    cost: str = "–"
    origin: dict[str, str] = field(default_factory=dict)

    @property
    def tone(self) -> str:
        """How the verdict is coloured: good, warn, bad or plain."""
        return TONES[self.verdict]

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that have anything to show, the paper's first."""
        return tuple(part for part in (self.paper, self.beyond) if part)

    @property
    def counts(self) -> str:
        """Both parts summed up, apart from each other."""
        return " ".join(f"{part.title}: {part.count}." for part in self.parts)


def present(result: Result) -> Presentation:
    """Return the presentation of ``result``."""
    origin = result.provenance
    return Presentation(
        **_about(result.experiment),
        verdict=str(result.verdict),
        why=result.why,
        command=origin.command,
        paper=_filled(PAPER, result, ours=False),
        beyond=_filled(BEYOND, result, ours=True),
        scale=str(result.scale),
        cost=duration(origin.seconds),
        origin=_origin(origin),
    )


def waiting(
    experiment: Experiment, why: str = "There is no stored run yet; the command makes one."
) -> Presentation:
    """Return the presentation of an experiment that has no result."""
    command = command_line(experiment.name, Scale.DEFAULT, "cpu")
    return Presentation(**_about(experiment), verdict=NO_RUN, why=why, command=command)


def _about(experiment: Experiment) -> dict[str, Any]:
    return {name: getattr(experiment, name) for name in ("name", "title", "claim", "source")}


def tally(verdicts: Iterable[str], tones: Mapping[str, str] = TONES) -> list[tuple[str, str, int]]:
    """Return each verdict that occurs, its tone and how often it occurs, in the order of ``tones``."""
    counts = Counter(verdicts)
    return [(str(name), tone, counts[name]) for name, tone in tones.items() if counts[name]]


def _filled(part: Part, result: Result, ours: bool) -> Part:
    """Return a part with what a result says, of those rows and statements that are ours or are not."""
    rows = [row for row in result.summary.rows if (row.published is None) == ours]
    papers = result.cited
    tested = [(one, holds) for one, holds in result.tested if (one.text not in papers) == ours]
    counts = _count_ours(rows, tested) if ours else _count_papers(rows, tested)
    items = tuple(
        Item(stated.text, holds, "holds" if holds else "does not hold") for stated, holds in tested
    )
    count = "; ".join(counts) or "nothing compared"
    return replace(part, count=count, lines=tuple(map(_line, rows)), items=items)


def _count_papers(rows: list[Row], tested: list[tuple[Statement, bool]]) -> Iterator[str]:
    if tested:
        yield _holding(tested)
    kinds = Counter(row.verdict for row in rows)
    silent = (Verdict.NOT_TRIED, Outcome.NOT_COMPARED)
    if compared := sum(count for kind, count in kinds.items() if kind not in silent):
        yield f"{kinds[Verdict.REPRODUCED]} of {compared} published values met"


def _count_ours(rows: list[Row], tested: list[tuple[Statement, bool]]) -> Iterator[str]:
    if tested:
        yield _holding(tested)
    if expected := [row for row in rows if row.verdict in (Outcome.AGREES, Outcome.DIFFERS)]:
        agreeing = sum(row.verdict is Outcome.AGREES for row in expected)
        yield f"{agreeing} of {len(expected)} expected values met"
    if more := len(rows) - len(expected):
        other = "other " if expected else ""
        yield plural(more, f"{other}quantity", f"{other}quantities")


def _holding(tested: list[tuple[Statement, bool]]) -> str:
    broken = [part.text for part, holds in tested if not holds]
    which = f" (not: {'; '.join(broken)})" if broken else ""
    return f"{len(tested) - len(broken)} of {len(tested)} statements hold{which}"


def _line(row: Row) -> Line:
    spread = f" ± {number(row.spread)}" if row.spread is not None else ""
    diverged = number(row.mean) == "diverged"
    return Line(
        label=row.label,
        place=row.place,
        reference=number(row.reference),
        ours=number(row.mean) + ("" if diverged else spread),
        seeds=number(len(row.values)),
        ratio="–" if diverged else number(row.ratio),
        verdict="" if row.reference is None else str(row.verdict),
        why=row.why,
        tone=TONES[row.verdict],
    )


def _origin(origin: Provenance) -> dict[str, str]:
    kept = f", {origin.kept} cells kept from before" if origin.kept else ""
    changed = " with changes" if origin.modified else ""
    return {
        "cost": f"{duration(origin.seconds)} in {plural(origin.cells, 'cell')}; "
        f"last run {duration(origin.wall_seconds)}{kept}",
        "device": origin.device,
        "seeds": ", ".join(map(str, origin.seeds)) or "none",
        "date": origin.date,
        "version": f"{origin.version}, commit {origin.commit or 'unknown'}{changed}",
        "libraries": f"Python {origin.python}, torch {origin.torch}, numpy {origin.numpy}",
    }
