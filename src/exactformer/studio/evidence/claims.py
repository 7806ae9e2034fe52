"""Claims of papers with their verdicts, which follow from the ledger of claims and the stored runs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markupsafe import Markup
from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.orm import Session

from exactformer import claims as ledger
from exactformer.claims import MEANINGS, Judgement, Runs, Value, Verdict, compare
from exactformer.experiments.engine import presentation
from exactformer.experiments.engine.numbers import number
from exactformer.experiments.engine.stored import stored_runs
from exactformer.studio.errors import NotFoundError
from exactformer.studio.evidence import evidence, sources
from exactformer.studio.evidence.evidence import Evidence
from exactformer.studio.library.tables import Claim, Paper
from exactformer.studio.storage.slices import Slice
from exactformer.studio.web import markup

TONES = {name: presentation.TONES[name] for name in MEANINGS}
"""How each verdict is shown, in the order of the legend; what is ours stands last."""
UNKNOWN = Judgement(Verdict.NOT_TRIED, "Nothing here speaks for it or against it.")

Tally = list[tuple[str, str, int]]


@cache
def entries() -> dict[str, ledger.Claim]:
    """Return the claims of the ledger by the names under which papers here hold them."""
    return {f"{paper}/{one.id}": one for paper in ledger.PAPERS for one in ledger.ledger(paper)}


@dataclass(frozen=True)
class Line:
    """A published number next to ours."""

    row: str
    published: str
    ours: str
    verdict: str
    tone: str
    why: str


@dataclass(frozen=True)
class Part:
    """A statement of the claim that a stored run tested; ``holds`` is None where it did not."""

    text: str
    holds: bool | None
    limit: str


@dataclass(frozen=True)
class ClaimView:
    """A claim as its card shows it: its verdict, why, and the evidence that the verdict rests on."""

    claim: Claim
    judgement: Judgement
    entry: ledger.Claim | None = None
    runs: Runs = lambda name: None
    evidence: Evidence | None = None

    @property
    def status(self) -> str:
        """The verdict."""
        return str(self.judgement.verdict)

    @property
    def why(self) -> str:
        """What the verdict rests on."""
        return self.judgement.why

    @property
    def is_ours(self) -> bool:
        """Whether this goes beyond the paper, which is then not judged by it."""
        return self.judgement.verdict is Verdict.BEYOND

    @property
    def tone(self) -> str:
        """How the verdict is coloured."""
        return TONES[self.status]

    @property
    def basis(self) -> str:
        """What kinds of evidence there are: proven, tested, measured."""
        return ", ".join(self.entry.basis) if self.entry else ""

    @property
    def statement(self) -> Markup:
        """The claim's statement as HTML."""
        return markup.render(self.claim.statement)

    @property
    def about(self) -> Markup:
        """What goes with the claim wherever it is shown, as HTML."""
        return markup.render(self.entry.about if self.entry else "")

    @property
    def lines(self) -> list[Line]:
        """The published numbers of the claim."""
        return [self._line(value) for value in (self.entry.values if self.entry else ())]

    @property
    def parts(self) -> list[Part]:
        """The statements that the verdict rests on."""
        return [self._part(one) for one in (self.entry.conditions if self.entry else ())]

    @property
    def errata(self) -> list[tuple[ledger.Erratum, Markup, Markup]]:
        """What is wrong or loose in the claim, each with its text and its tests as HTML."""
        found = self.entry.errata if self.entry else ()
        return [
            (one, markup.render(_without_links(one.text)), sources.links(one.tests))
            for one in found
        ]

    @property
    def tests(self) -> Markup:
        """The tests that speak for the claim, as HTML."""
        return sources.links(self.entry.tests if self.entry else ())

    def _line(self, value: Value) -> Line:
        run = self.runs(value.result)
        verdict, why = compare(value, run)
        found = run.rows.get(value.row) if run else None
        ours = number(sum(found) / len(found)) if found else "–"
        note = " ".join(filter(None, (f"{why[:1].upper()}{why[1:]}.", value.note)))
        if value.inferred:
            note += " Which row of the damaged table it belongs to is inferred."
        return Line(value.row, value.published, ours, str(verdict), TONES[verdict], note)

    def _part(self, one: ledger.Condition) -> Part:
        run = self.runs(one.result)
        text = run.statement(one.statement) if run else None
        holds = run.statements[text] if run and text else None
        limit = "the paper's limit" if one.threshold == "paper" else "the limit is ours"
        return Part(text or one.statement, holds, limit)


def _without_links(text: str) -> str:
    """Return an erratum without links into the documentation, which is not here."""
    return sources.PAGE_LINK.sub(r"\1", text)


def _judged(name: str, runs: Runs) -> Judgement:
    entry = entries().get(name)
    return ledger.judge(entry, runs) if entry else UNKNOWN


def view(claim: Claim, results: Path | None) -> ClaimView:
    """Return a claim with the evidence in ``results``."""
    runs, entry = stored_runs(results), entries().get(claim.ledger)
    first = entry.experiments[0] if entry and entry.experiments else None
    return ClaimView(
        claim, _judged(claim.ledger, runs), entry, runs, evidence.of_claim(results, first)
    )


def views(paper: Paper, results: Path | None) -> list[ClaimView]:
    """Return the claims of ``paper`` with the evidence in ``results``."""
    return [view(claim, results) for claim in paper.claims]


def get(paper: Paper, anchor: str) -> Claim:
    """Return the claim of ``paper`` with this anchor."""
    for claim in paper.claims:
        if claim.anchor == anchor:
            return claim
    raise NotFoundError("This paper has no such claim. Its page lists those it has.")


def tally(claims: list[ClaimView]) -> Tally:
    """Return each status that occurs, its tone, and how many claims have it; ours come last."""
    return _counted([view.status for view in claims])


def _counted(statuses: list[str]) -> Tally:
    return _ours_last(presentation.tally(statuses, TONES))


def _ours_last(found: Tally) -> Tally:
    return sorted(found, key=lambda entry: entry[0] == Verdict.BEYOND)


@dataclass(frozen=True)
class Wanted:
    """Which claims a reader looks for, over all papers."""

    q: str = ""
    status: str = ""
    kind: str = ""
    paper: str = ""
    limit: int = 50
    offset: int = 0


def find(db: Session, wanted: Wanted, results: Path | None) -> Slice[tuple[ClaimView, Paper]]:
    """Return the claims that fit, each with its paper, in the order of the papers."""
    chosen = _fitting(wanted)
    if wanted.status:
        chosen = chosen.where(_has_status(wanted.status, results))
    total = db.scalar(select(func.count()).select_from(chosen.subquery())) or 0
    page = chosen.order_by(Paper.id, Claim.position).limit(wanted.limit).offset(wanted.offset)
    ids = db.scalars(page).all()
    rows = db.execute(
        select(Claim, Paper)
        .join(Paper, Paper.id == Claim.paper_id)
        .where(Claim.id.in_(ids))
        .order_by(Paper.id, Claim.position)
    )
    items = tuple((view(claim, results), paper) for claim, paper in rows)
    return Slice(items, total, wanted.limit, wanted.offset)


def tallies(db: Session, results: Path | None, wanted: Wanted | None = None) -> Tally:
    """Count the claims that fit by status; ours come last."""
    chosen = _fitting(wanted or Wanted())
    found = []
    for status, tone in TONES.items():
        some = chosen.where(_has_status(status, results)).subquery()
        if count := db.scalar(select(func.count()).select_from(some)):
            found.append((str(status), tone, count))
    return _ours_last(found)


def by_paper(db: Session, results: Path | None, ids: list[int]) -> dict[int, Tally]:
    """Return the tally of each of these papers, by one query; those without claims are left out."""
    columns = select(Claim.paper_id, Claim.ledger)
    runs = stored_runs(results)
    found: defaultdict[int, list[str]] = defaultdict(list)
    for paper_id, entry in db.execute(columns.where(Claim.paper_id.in_(ids))):
        found[paper_id].append(str(_judged(entry, runs).verdict))
    return {id: _counted(statuses) for id, statuses in found.items()}


def verdicts(db: Session, results: Path | None, ids: list[int]) -> dict[int, tuple[str, str]]:
    """Return status and tone of claims by their ids."""
    found = (view(claim, results) for claim in db.scalars(select(Claim).where(Claim.id.in_(ids))))
    return {each.claim.id: (each.status, each.tone) for each in found}


def papers_with_claims(db: Session) -> list[Paper]:
    """Return the papers that have claims, in their order."""
    return list(db.scalars(select(Paper).where(Paper.claims.any()).order_by(Paper.id).limit(200)))


def with_experiment(db: Session, name: str) -> list[tuple[Claim, str]]:
    """Return the claims that an experiment speaks to, each with its paper's slug."""
    speaks = [entry for entry, claim in entries().items() if name in claim.experiments]
    statement = select(Claim, Paper.slug).join(Paper, Paper.id == Claim.paper_id)
    rows = db.execute(statement.where(Claim.ledger.in_(speaks)).order_by(Claim.id).limit(20))
    return [(claim, slug) for claim, slug in rows]


def _fitting(wanted: Wanted) -> Select[int]:
    chosen = select(Claim.id).join(Paper, Paper.id == Claim.paper_id)
    if wanted.kind:
        chosen = chosen.where(Claim.kind == wanted.kind)
    if wanted.paper:
        chosen = chosen.where(Paper.slug == wanted.paper)
    for word in wanted.q.split()[:12]:
        title, statement = (
            column.icontains(word, autoescape=True) for column in (Claim.title, Claim.statement)
        )
        chosen = chosen.where(or_(title, statement))
    return chosen


def _has_status(status: str, results: Path | None) -> ColumnElement[bool]:
    """Return the condition that :attr:`ClaimView.status` is ``status``, for the database."""
    runs = stored_runs(results)
    having = [name for name in entries() if _judged(name, runs).verdict == status]
    told = Claim.ledger.in_(having)
    return or_(told, Claim.ledger.not_in(list(entries()))) if status == Verdict.NOT_TRIED else told
