"""Papers for programs: find, read, edit; what they claim, cite and are cited by."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field

from exactformer.experiments.engine.result import Result
from exactformer.studio.evidence import claims, evidence
from exactformer.studio.evidence.claims import ClaimView
from exactformer.studio.evidence.evidence import Evidence
from exactformer.studio.library import editing, papers, people
from exactformer.studio.library.describing import record
from exactformer.studio.library.papers import Browse, Counts, Found, Sort
from exactformer.studio.library.tables import Paper
from exactformer.studio.web.request import (
    LARGEST,
    Body,
    Clean,
    CurrentActor,
    Identifier,
    Paging,
    ReadSession,
    listing,
    settings_of,
    writing,
)

router = APIRouter(prefix="/api/v1", tags=["papers"])

Slug = Annotated[Clean, Field(min_length=1, max_length=120)]
Kind = Literal["article", "preprint", "talk", "book", "thesis", "software", "dataset", "other"]
Words = Annotated[Clean, Query(max_length=300)]
Short = Annotated[Clean, Field(max_length=500)]


class AuthorChange(Body):
    """An author, in her place of the list."""

    name: Annotated[Clean, Field(min_length=1, max_length=200)]
    orcid: Annotated[Clean, Field(max_length=40)] | None = None
    institutions: Annotated[list[Annotated[Clean, Field(max_length=300)]], Field(max_length=50)] = (
        Field(default_factory=list)
    )


class PaperChange(Body):
    """Fields to change; what is left out stays. ``version`` is what :func:`read` gave."""

    title: Short | None = None
    abstract: Annotated[Clean, Field(max_length=20_000)] | None = None
    year: Annotated[int, Field(ge=1000, le=2999)] | None = None
    kind: Kind | None = None
    source: Annotated[Clean, Field(max_length=200)] | None = None
    open_access: bool | None = None
    doi: Annotated[Clean, Field(max_length=250)] | None = None
    arxiv_id: Annotated[Clean, Field(max_length=100)] | None = None
    openalex_id: Annotated[Clean, Field(max_length=100)] | None = None
    url: Short | None = None
    code_url: Short | None = None
    code_note: Short | None = None
    data_url: Short | None = None
    data_note: Short | None = None
    authors: Annotated[list[AuthorChange], Field(max_length=5000)] | None = None
    topics: (
        Annotated[list[Annotated[Clean, Field(max_length=120)]], Field(max_length=100)] | None
    ) = None
    version: Annotated[Clean, Field(max_length=60)] | None = None


@router.get("/papers")
def find(
    db: ReadSession,
    paging: Paging,
    q: Words = "",
    kind: Kind | None = None,
    year: Annotated[int, Query(ge=1000, le=2999)] | None = None,
    topic: Annotated[Clean, Query(max_length=120)] | None = None,
    person: Annotated[int, Query(ge=1, le=LARGEST)] | None = None,
    institution: Annotated[int, Query(ge=1, le=LARGEST)] | None = None,
    sort: Sort = "relevance",
) -> dict[str, Any]:
    """Papers: all, or those with these words and filters."""
    asked = Browse(q, kind, year, topic, person, institution, sort, paging.limit, paging.offset)
    found = papers.find(db, asked)
    counts = papers.counts(db, [paper.id for paper in found.items])
    return listing((brief(paper, counts[paper.id]) for paper in found.items), found.total)


@router.get("/papers/{slug}")
def read(db: ReadSession, slug: Slug) -> dict[str, Any]:
    """One paper with everything its page says about it."""
    paper = papers.get(db, slug)
    return whole(paper, papers.counts(db, [paper.id])[paper.id])


@router.patch("/papers/{slug}")
def edit(request: Request, actor: CurrentActor, slug: Slug, change: PaperChange) -> dict[str, Any]:
    """Change what a paper's page says; for curators."""
    fields = change.model_dump(exclude_unset=True, exclude={"version"})
    with writing(request) as db:
        paper = editing.edit(db, actor, slug, fields, change.version)
        return whole(paper, papers.counts(db, [paper.id])[paper.id])


@router.get("/papers/{slug}/claims")
def read_claims(request: Request, db: ReadSession, slug: Slug) -> dict[str, Any]:
    """What a paper claims, and what came of each claim."""
    views = claims.views(papers.get(db, slug), settings_of(request).results)
    return listing(map(_claim, views), len(views))


@router.get("/papers/{slug}/references")
def read_references(db: ReadSession, slug: Slug, paging: Paging) -> dict[str, Any]:
    """What a paper cites, as far as the library knows."""
    paper = papers.get(db, slug)
    return _cited(papers.references(db, paper.id, paging.limit, paging.offset))


@router.get("/papers/{slug}/cited-by")
def read_cited_by(db: ReadSession, slug: Slug, paging: Paging) -> dict[str, Any]:
    """Which papers of the library cite a paper."""
    paper = papers.get(db, slug)
    return _cited(papers.cited_by(db, paper.id, paging.limit, paging.offset))


@router.get("/papers/{slug}/history")
def read_history(db: ReadSession, slug: Slug) -> dict[str, Any]:
    """Who changed what about a paper, the newest change first."""
    entries = papers.history(db, papers.get(db, slug).id)
    items = [
        {
            "at": entry.at.isoformat(),
            "by": entry.actor.handle if entry.actor else None,
            "action": entry.action,
            "detail": entry.detail,
        }
        for entry in entries
    ]
    return listing(items, len(items))


@router.get("/experiments/{name}")
def read_evidence(
    request: Request, name: Annotated[Clean, Field(min_length=1, max_length=60)]
) -> dict[str, Any]:
    """What the stored run of an experiment shows."""
    return _evidence(evidence.of(settings_of(request).results, name))


@router.get("/people/{id}")
def read_person(db: ReadSession, id: Identifier) -> dict[str, Any]:
    """A person; ``/papers?person=`` lists her papers."""
    person = people.person(db, id)
    houses = people.institutions_of(db, id)
    return {
        "id": person.id,
        "name": person.name,
        "orcid": person.orcid,
        "institutions": [{"id": house.id, "name": house.name} for house in houses],
    }


@router.get("/institutions/{id}")
def read_institution(db: ReadSession, id: Identifier) -> dict[str, Any]:
    """An institution; ``/papers?institution=`` lists its papers."""
    house = people.institution(db, id)
    members = people.people_at(db, id)
    return {
        "id": house.id,
        "name": house.name,
        "people": [{"id": person.id, "name": person.name} for person in members],
    }


@router.get("/topics")
def read_topics(db: ReadSession, paging: Paging) -> dict[str, Any]:
    """Topics, those with most papers first."""
    found, total = people.topics(db, paging.limit, paging.offset)
    items = ({"slug": topic.slug, "name": topic.name, "papers": n} for topic, n in found)
    return listing(items, total)


def brief(paper: Paper, counts: Counts) -> dict[str, Any]:
    """A paper as it stands in a list."""
    return {
        "slug": paper.slug,
        "title": paper.title,
        "authors": [place.person.name for place in paper.authorships],
        "year": paper.year,
        "kind": paper.kind,
        "source": paper.source,
        "topics": [topic.slug for topic in paper.topics],
        "counts": asdict(counts),
    }


def whole(paper: Paper, counts: Counts) -> dict[str, Any]:
    """A paper with all it has."""
    fields = asdict(record(paper))
    fields.pop("references")
    fields.pop("claims")
    return {
        "slug": paper.slug,
        **fields,
        "counts": asdict(counts),
        "created_at": paper.created_at.isoformat(),
        "updated_at": paper.updated_at.isoformat(),
        "version": editing.version_of(paper),
    }


def _cited(found: Found) -> dict[str, Any]:
    items = (
        {
            "slug": paper.slug,
            "title": paper.title,
            "year": paper.year,
            "authors": [place.person.name for place in paper.authorships],
        }
        for paper in found.items
    )
    return listing(items, found.total)


def _claim(view: ClaimView) -> dict[str, Any]:
    claim = view.claim
    return {
        "anchor": claim.anchor,
        "kind": claim.kind,
        "title": claim.title,
        "statement": claim.statement,
        "checked_by": claim.checked_by,
        "status": view.status,
        "evidence": _evidence(view.evidence) if view.evidence else None,
    }


def _evidence(found: Evidence) -> dict[str, Any]:
    """Evidence as data: words as pages show them, numbers as they are (null if a run diverged)."""
    shown, result = found.shown, found.result
    rows = result.summary.rows if result else ()
    return {
        "experiment": shown.name,
        "title": shown.title,
        "claim": shown.claim,
        "source": shown.source,
        "status": shown.verdict,
        "why": shown.why,
        "counts": shown.counts,
        "command": shown.command,
        "rows": [
            {
                "label": row.label,
                "place": row.place,
                "published": row.published,
                "ours": _finite(row.mean),
                "spread": _finite(row.spread),
                "ratio": _finite(row.ratio),
                "seeds": len(row.values),
                "verdict": row.verdict,
                "why": row.why,
                "beyond_paper": row.ours,
            }
            for row in rows
        ],
        "statements": [
            {"text": part.text, "holds": holds, "beyond_paper": part.ours, "errata": part.errata}
            for part, holds in (result.tested if result else [])
        ],
        "provenance": _origin(result) if result else None,
        "figures": [f"/figures/{shown.name}.{kind}" for kind in found.figures],
        "figure_size": found.figure_size,
    }


def _origin(result: Result) -> dict[str, Any]:
    return {**asdict(result.provenance), "scale": result.scale}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
