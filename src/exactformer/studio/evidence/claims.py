"""Claims of papers with what is known about each: evidence of a stored run, or what checks it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from sqlalchemy import ColumnElement, Select, and_, false, func, or_, select
from sqlalchemy.orm import Session

from exactformer.experiments.engine import presentation
from exactformer.experiments.engine.verdict import Verdict
from exactformer.experiments.registry import names
from exactformer.studio.errors import NotFoundError
from exactformer.studio.evidence import evidence, sources
from exactformer.studio.evidence.evidence import Evidence
from exactformer.studio.library.tables import Claim, Paper
from exactformer.studio.storage.slices import Slice
from exactformer.studio.web import markup

CHECKED = "checked"
OPEN = "not checked"
# In the order of a summary: what a claim can be, and the tone it is shown in.
TONES = {**presentation.TONES, CHECKED: "accent", OPEN: "plain"}

MEANINGS: dict[str, str] = {
    Verdict.REPRODUCED: "A run of ours meets every statement and every published value.",
    Verdict.BETTER: "Every statement holds, and the paper's own method did better than published.",
    Verdict.CORRECTED: "It holds after a correction, which is given with a counterexample.",
    Verdict.NUMBERS_DIFFER: "Every statement holds in our run; some published values differ.",
    Verdict.NOT_REPRODUCED: "A statement of the claim does not hold in our run.",
    CHECKED: "Proven for every model that is built, or tested case by case.",
    Verdict.NOT_COMPARED: "A run is stored that cannot be compared with the paper.",
    presentation.NO_RUN: "An experiment exists; its run is not stored here.",
    OPEN: "Nothing here checks it.",
    Verdict.BEYOND: "Ours, beyond the paper: it says nothing for or against the authors.",
}
"""What each status means, in the order of the legend; what is ours stands last."""

# With this ``Claim.checked_by`` begins where a claim does not hold as printed, but after a change.
_CORRECTED = "Corrected: "

Tally = list[tuple[str, str, int]]


@dataclass(frozen=True)
class ClaimView:
    """A claim as its card shows it."""

    claim: Claim
    evidence: Evidence | None

    @property
    def status(self) -> str:
        """What came of the claim: the stored run's verdict, or whether something checks it."""
        return _status(self.evidence, self.claim.checked_by)

    @property
    def is_decided_by_run(self) -> bool:
        """Whether the stored run gives the status, and not what checks the claim otherwise."""
        return self.evidence is not None and self.status == self.evidence.shown.verdict

    @property
    def is_ours(self) -> bool:
        """Whether this goes beyond the paper, which is then not judged by it."""
        return self.status == Verdict.BEYOND

    @property
    def tone(self) -> str:
        """How the status is coloured."""
        return TONES[self.status]

    @property
    def statement(self) -> Markup:
        """The claim's statement as HTML."""
        return markup.render(self.claim.statement)

    @property
    def checked_by(self) -> Markup:
        """What checks the claim, as HTML with links to the files it names."""
        return sources.linked(markup.render(self.claim.checked_by.removeprefix(_CORRECTED)))


def _status(found: Evidence | None, checked_by: str) -> str:
    """Return what came of a claim.

    A run that tests nothing of the paper decides only where nothing else checks the claim.
    """
    verdict = found.shown.verdict if found is not None else OPEN
    if verdict not in (OPEN, Verdict.BEYOND) or not checked_by:
        return verdict
    return str(Verdict.CORRECTED) if checked_by.startswith(_CORRECTED) else CHECKED


def view(claim: Claim, results: Path | None) -> ClaimView:
    """Return a claim with the evidence in ``results``."""
    return ClaimView(claim, evidence.of_claim(results, claim.experiment))


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
    columns = select(Claim.paper_id, Claim.experiment, Claim.checked_by)
    found: defaultdict[int, list[str]] = defaultdict(list)
    for paper_id, experiment, checked_by in db.execute(columns.where(Claim.paper_id.in_(ids))):
        found[paper_id].append(_status(evidence.of_claim(results, experiment), checked_by))
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
    statement = select(Claim, Paper.slug).join(Paper, Paper.id == Claim.paper_id)
    rows = db.execute(statement.where(Claim.experiment == name).order_by(Claim.id).limit(20))
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
    verdicts = {name: evidence.of(results, name).shown.verdict for name in names()}
    deciding = [n for n, verdict in verdicts.items() if verdict not in (OPEN, Verdict.BEYOND)]
    beyond = [name for name, verdict in verdicts.items() if verdict == Verdict.BEYOND]
    told = Claim.experiment.in_([name for name in deciding if verdicts[name] == status])
    undecided = or_(Claim.experiment.is_(None), Claim.experiment.not_in(deciding))
    unchecked = Claim.checked_by == ""
    is_beyond = and_(Claim.experiment.is_not(None), Claim.experiment.in_(beyond))
    is_corrected = Claim.checked_by.startswith(_CORRECTED, autoescape=True)
    otherwise: ColumnElement[bool] = {
        OPEN: and_(undecided, unchecked, or_(Claim.experiment.is_(None), ~is_beyond)),
        str(Verdict.BEYOND): and_(is_beyond, unchecked),
        str(Verdict.CORRECTED): and_(undecided, is_corrected),
        CHECKED: and_(undecided, ~unchecked, ~is_corrected),
    }.get(status, false())
    return or_(told, otherwise)
