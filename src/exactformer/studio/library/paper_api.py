"""Papers for programs: find, read, edit; what they claim, cite and are cited by."""

from __future__ import annotations

import math
from dataclasses import asdict
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field, JsonValue

from exactformer.studio.evidence import claims, evidence
from exactformer.studio.evidence.claims import ClaimView
from exactformer.studio.evidence.evidence import Evidence
from exactformer.studio.library import edits, papers, people
from exactformer.studio.library.paper_records import record
from exactformer.studio.library.papers import Browse, Counts, Found, Sort
from exactformer.studio.library.records import (
    Address,
    AuthorRecord,
    Kind,
    Prose,
    Short,
    Source,
    Title,
    TopicName,
)
from exactformer.studio.library.tables import Paper
from exactformer.studio.web.request import CurrentActor, ReadSession, settings_of, writing
from exactformer.studio.web.types import (
    LARGEST,
    Body,
    Clean,
    Identifier,
    Listing,
    Out,
    Paging,
    Slug,
    Words,
    listing,
)

router = APIRouter(prefix="/api/v1", tags=["papers"])

Year = Annotated[int, Query(ge=1000, le=2999)]
Number = Annotated[int, Query(ge=1, le=LARGEST)]


class PaperChange(Body):
    """Fields to change, each as in a record; what is left out stays.

    ``version`` is what reading the paper gave.
    """

    title: Title | None = None
    abstract: Prose | None = None
    year: Annotated[int, Field(ge=1000, le=2999)] | None = None
    kind: Kind | None = None
    source: Source | None = None
    open_access: bool | None = None
    doi: Annotated[Clean, Field(max_length=250)] | None = None
    arxiv_id: Annotated[Clean, Field(max_length=100)] | None = None
    openalex_id: Annotated[Clean, Field(max_length=100)] | None = None
    url: Address | None = None
    code_url: Address | None = None
    code_note: Short | None = None
    data_url: Address | None = None
    data_note: Short | None = None
    authors: Annotated[list[AuthorRecord], Field(max_length=5000)] | None = None
    topics: Annotated[list[TopicName], Field(max_length=100)] | None = None
    version: Annotated[Clean, Field(max_length=60)] | None = None


class PaperOut(Out):
    """A paper with all its page says about it; ``version`` goes with a change."""

    slug: str
    title: str
    abstract: str
    year: int | None
    kind: str
    source: str
    open_access: bool | None
    doi: str | None
    arxiv_id: str | None
    openalex_id: str | None
    url: str
    code_url: str
    code_note: str
    data_url: str
    data_note: str
    authors: list[AuthorRecord]
    topics: list[str]
    counts: Counts
    created_at: datetime
    updated_at: datetime
    version: str


class CitedOut(Out):
    """A paper in a list of references."""

    slug: str
    title: str
    year: int | None
    authors: list[str]


class BriefOut(CitedOut):
    """A paper in a list."""

    kind: str
    source: str
    topics: list[str]
    counts: Counts


class HistoryOut(Out):
    """A change of a paper's page; ``detail`` depends on the action."""

    at: datetime
    by: str | None
    action: str
    detail: dict[str, JsonValue]


class RowOut(Out):
    """A published value beside ours; null where a run diverged or there is none."""

    label: str
    place: str
    published: float | str | None
    ours: float | None
    spread: float | None
    ratio: float | None
    seeds: int
    verdict: str
    why: str
    beyond_paper: bool


class StatementOut(Out):
    """A statement that a run tests."""

    text: str
    holds: bool
    beyond_paper: bool
    errata: str


class ProvenanceOut(Out):
    """How, by what, on what and when a run was made."""

    command: str
    version: str
    commit: str | None
    modified: bool | None
    code: str
    seeds: list[int | str | None]
    device: str
    date: str
    seconds: float
    wall_seconds: float
    cells: int
    kept: int
    python: str
    torch: str
    numpy: str
    scale: str


class EvidenceOut(Out):
    """What the stored run of an experiment shows: words as on pages, numbers as they are."""

    experiment: str
    title: str
    claim: str
    source: str
    status: str
    why: str
    counts: str
    command: str
    rows: list[RowOut]
    statements: list[StatementOut]
    provenance: ProvenanceOut | None
    figures: list[str]
    figure_size: tuple[int, int] | None


class ClaimEvidenceOut(Out):
    """A claim, and what came of it."""

    anchor: str
    kind: str
    title: str
    statement: str
    checked_by: str
    status: str
    evidence: EvidenceOut | None


class NamedOut(Out):
    """Somebody or something with a page of its own."""

    id: int
    name: str


class PersonOut(NamedOut):
    """An author."""

    orcid: str | None
    institutions: list[NamedOut]


class InstitutionOut(NamedOut):
    """An institution and its people."""

    people: list[NamedOut]


class TopicOut(Out):
    """A topic, and how many papers are about it."""

    slug: str
    name: str
    papers: int


@router.get("/papers")
def find(
    db: ReadSession,
    paging: Paging,
    q: Words = "",
    kind: Kind | None = None,
    year: Year | None = None,
    topic: Annotated[Clean, Query(max_length=120)] | None = None,
    person: Number | None = None,
    institution: Number | None = None,
    sort: Sort = "relevance",
) -> Listing[BriefOut]:
    """Papers: all, or those with these words and filters."""
    asked = Browse(q, kind, year, topic, person, institution, sort, paging.limit, paging.offset)
    found = papers.find(db, asked)
    counts = papers.counts(db, [paper.id for paper in found.items])
    return listing((brief(paper, counts[paper.id]) for paper in found.items), found.total)


@router.get("/papers/{slug}")
def read(db: ReadSession, slug: Slug) -> PaperOut:
    """One paper with everything its page says about it."""
    paper = papers.get(db, slug)
    return whole(paper, papers.counts(db, [paper.id])[paper.id])


@router.patch("/papers/{slug}")
def edit(request: Request, actor: CurrentActor, slug: Slug, change: PaperChange) -> PaperOut:
    """Change what a paper's page says; for curators."""
    fields = change.model_dump(exclude_unset=True, exclude={"version"})
    with writing(request) as db:
        paper = edits.edit(db, actor, slug, fields, change.version)
        return whole(paper, papers.counts(db, [paper.id])[paper.id])


@router.get("/papers/{slug}/claims")
def read_claims(request: Request, db: ReadSession, slug: Slug) -> Listing[ClaimEvidenceOut]:
    """What a paper claims, and what came of each claim."""
    views = claims.views(papers.get(db, slug), settings_of(request).results)
    return listing(map(_claim, views), len(views))


@router.get("/papers/{slug}/references")
def read_references(db: ReadSession, slug: Slug, paging: Paging) -> Listing[CitedOut]:
    """What a paper cites, as far as the library knows."""
    paper = papers.get(db, slug)
    return _cited(papers.references(db, paper.id, paging.limit, paging.offset))


@router.get("/papers/{slug}/cited-by")
def read_cited_by(db: ReadSession, slug: Slug, paging: Paging) -> Listing[CitedOut]:
    """Which papers of the library cite a paper."""
    paper = papers.get(db, slug)
    return _cited(papers.cited_by(db, paper.id, paging.limit, paging.offset))


@router.get("/papers/{slug}/history")
def read_history(db: ReadSession, slug: Slug) -> Listing[HistoryOut]:
    """Who changed what about a paper, the newest change first."""
    entries = papers.history(db, papers.get(db, slug).id)
    items = [
        HistoryOut(
            at=entry.at,
            by=entry.actor.handle if entry.actor else None,
            action=entry.action,
            detail=entry.detail,
        )
        for entry in entries
    ]
    return listing(items, len(items))


@router.get("/experiments/{name}")
def read_evidence(
    request: Request, name: Annotated[Clean, Field(min_length=1, max_length=60)]
) -> EvidenceOut:
    """What the stored run of an experiment shows."""
    return _evidence(evidence.of(settings_of(request).results, name))


@router.get("/people/{id}")
def read_person(db: ReadSession, id: Identifier) -> PersonOut:
    """A person; ``/papers?person=`` lists her papers."""
    person = people.person(db, id)
    return PersonOut(
        id=person.id,
        name=person.name,
        orcid=person.orcid,
        institutions=[NamedOut.model_validate(each) for each in people.institutions_of(db, id)],
    )


@router.get("/institutions/{id}")
def read_institution(db: ReadSession, id: Identifier) -> InstitutionOut:
    """An institution; ``/papers?institution=`` lists its papers."""
    institution = people.institution(db, id)
    return InstitutionOut(
        id=institution.id,
        name=institution.name,
        people=[NamedOut.model_validate(each) for each in people.people_at(db, id)],
    )


@router.get("/topics")
def read_topics(db: ReadSession, paging: Paging) -> Listing[TopicOut]:
    """Topics, those with most papers first."""
    found, total = people.topics(db, paging.limit, paging.offset)
    items = (TopicOut(slug=topic.slug, name=topic.name, papers=n) for topic, n in found)
    return listing(items, total)


def brief(paper: Paper, counts: Counts) -> BriefOut:
    """A paper as it stands in a list."""
    return BriefOut(
        **_cited_paper(paper).model_dump(),
        kind=paper.kind,
        source=paper.source,
        topics=[topic.slug for topic in paper.topics],
        counts=counts,
    )


def whole(paper: Paper, counts: Counts) -> PaperOut:
    """A paper with all it has."""
    fields = asdict(record(paper))
    fields.pop("references")
    fields.pop("claims")
    return PaperOut(
        slug=paper.slug,
        **fields,
        counts=counts,
        created_at=paper.created_at,
        updated_at=paper.updated_at,
        version=edits.version_of(paper),
    )


def _cited_paper(paper: Paper) -> CitedOut:
    authors = [place.person.name for place in paper.authorships]
    return CitedOut(slug=paper.slug, title=paper.title, year=paper.year, authors=authors)


def _cited(found: Found) -> Listing[CitedOut]:
    return listing(map(_cited_paper, found.items), found.total)


def _claim(view: ClaimView) -> ClaimEvidenceOut:
    claim = view.claim
    return ClaimEvidenceOut(
        anchor=claim.anchor,
        kind=claim.kind,
        title=claim.title,
        statement=claim.statement,
        checked_by=claim.checked_by,
        status=view.status,
        evidence=_evidence(view.evidence) if view.evidence else None,
    )


def _evidence(found: Evidence) -> EvidenceOut:
    shown, result = found.shown, found.result
    rows = result.summary.rows if result else ()
    return EvidenceOut(
        experiment=shown.name,
        title=shown.title,
        claim=shown.claim,
        source=shown.source,
        status=shown.verdict,
        why=shown.why,
        counts=shown.counts,
        command=shown.command,
        rows=[
            RowOut(
                label=row.label,
                place=row.place,
                published=row.published,
                ours=_finite(row.mean),
                spread=_finite(row.spread),
                ratio=_finite(row.ratio),
                seeds=len(row.values),
                verdict=row.verdict,
                why=row.why,
                beyond_paper=row.ours,
            )
            for row in rows
        ],
        statements=[
            StatementOut(text=part.text, holds=holds, beyond_paper=part.ours, errata=part.errata)
            for part, holds in (result.tested if result else [])
        ],
        provenance=ProvenanceOut(**asdict(result.provenance), scale=result.scale)
        if result
        else None,
        figures=[f"/figures/{shown.name}.{kind}" for kind in found.figures],
        figure_size=found.figure_size,
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
