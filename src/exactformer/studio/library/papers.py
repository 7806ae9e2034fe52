"""Papers as readers meet them: found, browsed, counted, and what stands around each.

Counts are counted when asked for, by indexed queries: a number on a page is a number of rows. How
often a paper is cited is also kept with it, since lists in that order would count all citations anew.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session, selectinload

from exactformer.studio.errors import NotFoundError
from exactformer.studio.library import search
from exactformer.studio.library.catalogue import whole
from exactformer.studio.library.tables import (
    Affiliation,
    Authorship,
    Citation,
    Claim,
    Paper,
    PaperTopic,
    Topic,
)
from exactformer.studio.opinions.tables import Comment, Review, Save
from exactformer.studio.storage.audit import AuditEntry
from exactformer.studio.storage.slices import Slice

Sort = Literal["relevance", "claims", "newest", "oldest", "title", "cited"]
_SLUG = re.compile(r"[a-z0-9-]{1,120}")
SORTS: tuple[Sort, ...] = ("relevance", "claims", "newest", "oldest", "title", "cited")


@dataclass(frozen=True)
class Browse:
    """What a reader looks for."""

    q: str = ""
    kind: str | None = None
    year: int | None = None
    topic: str | None = None
    person: int | None = None
    institution: int | None = None
    sort: Sort = "relevance"
    limit: int = 20
    offset: int = 0


@dataclass(frozen=True)
class Counts:
    """How much there is around a paper."""

    citations: int = 0
    references: int = 0
    reviews: int = 0
    saves: int = 0
    comments: int = 0
    claims: int = 0


def get(db: Session, slug: str) -> Paper:
    """Return the paper with this slug, with its parts loaded."""
    known = _SLUG.fullmatch(slug) is not None
    paper = db.scalar(select(Paper).where(Paper.slug == slug).options(*whole())) if known else None
    if paper is None:
        raise NotFoundError(
            f"There is no paper {slug[:120]!r}. The list of papers has those there are."
        )
    return paper


def find(db: Session, browse: Browse) -> Slice[Paper]:
    """Return the papers that a reader looks for, a page of them; an identifier finds its paper."""
    place = browse.limit, browse.offset
    if browse.q and (known := search.by_identifier(db, browse.q)) is not None:
        return Slice(by_ids(db, [] if browse.offset else [known]), 1, *place)
    query = search.parse(browse.q)
    if browse.q.strip() and not query:
        return Slice((), 0, *place)
    chosen = _filtered(select(Paper.id), browse)
    filtered = chosen.whereclause is not None
    if query:
        matching = search.matching(db, query)
        everything = chosen.where(Paper.id.in_(matching)) if filtered else matching
    else:
        everything = chosen
    total = db.scalar(select(func.count()).select_from(everything.subquery())) or 0
    if query and browse.sort == "relevance":
        ranked = search.ranked(db, query, chosen if filtered else None)
        page = select(ranked.c.paper_id).order_by(ranked.c.rank, ranked.c.paper_id)
    else:
        page = select(Paper.id).where(Paper.id.in_(everything)) if query else chosen
        page = _sorted(page, browse.sort)
    ids = db.scalars(page.limit(browse.limit).offset(browse.offset)).all()
    return Slice(by_ids(db, ids), total, *place)


def by_ids(db: Session, ids: Sequence[int]) -> tuple[Paper, ...]:
    """Return papers in the order of ``ids``, with their authors and topics."""
    found = db.scalars(
        select(Paper)
        .where(Paper.id.in_(ids))
        .options(
            selectinload(Paper.authorships).joinedload(Authorship.person, innerjoin=True),
            selectinload(Paper.topics),
        )
    )
    by_id = {paper.id: paper for paper in found}
    return tuple(by_id[id] for id in ids)


def counts(db: Session, ids: Sequence[int]) -> dict[int, Counts]:
    """Return what there is around each paper."""
    visible_review, visible_comment = Review.state == "visible", Comment.state == "visible"
    tallies = (
        _tally(db, Citation.cited_id, ids),
        _tally(db, Citation.citing_id, ids),
        _tally(db, Review.paper_id, ids, visible_review),
        _tally(db, Save.paper_id, ids),
        _tally(db, Comment.paper_id, ids, visible_comment),
        _tally(db, Claim.paper_id, ids),
    )
    return {id: Counts(*(tally.get(id, 0) for tally in tallies)) for id in ids}


def references(db: Session, paper_id: int, limit: int = 200, offset: int = 0) -> Slice[Paper]:
    """Return the papers that a paper cites."""
    return _cited(db, Citation.cited_id, Citation.citing_id == paper_id, limit, offset)


def cited_by(db: Session, paper_id: int, limit: int = 200, offset: int = 0) -> Slice[Paper]:
    """Return the papers that cite a paper."""
    return _cited(db, Citation.citing_id, Citation.cited_id == paper_id, limit, offset)


def history(db: Session, paper_id: int, limit: int = 100) -> list[AuditEntry]:
    """Return who changed what about a paper, the newest change first."""
    return list(
        db.scalars(
            select(AuditEntry)
            .where(AuditEntry.subject_kind == "paper", AuditEntry.subject_id == paper_id)
            .where(AuditEntry.action.startswith("paper."))
            .options(selectinload(AuditEntry.actor))
            .order_by(AuditEntry.id.desc())
            .limit(limit)
        )
    )


def _filtered(chosen: Select[int], browse: Browse) -> Select[int]:
    if browse.kind:
        chosen = chosen.where(Paper.kind == browse.kind)
    if browse.year is not None:
        chosen = chosen.where(Paper.year == browse.year)
    if browse.topic:
        about = select(PaperTopic.paper_id).join(Topic, Topic.id == PaperTopic.topic_id)
        chosen = chosen.where(Paper.id.in_(about.where(Topic.slug == browse.topic)))
    if browse.person is not None:
        by = select(Authorship.paper_id).where(Authorship.person_id == browse.person)
        chosen = chosen.where(Paper.id.in_(by))
    if browse.institution is not None:
        at = select(Affiliation.paper_id).where(Affiliation.institution_id == browse.institution)
        chosen = chosen.where(Paper.id.in_(at))
    return chosen


def _sorted(page: Select[int], sort: Sort) -> Select[int]:
    if sort == "oldest":
        return page.order_by(Paper.year.asc().nulls_last(), Paper.id)
    if sort == "title":
        return page.order_by(Paper.normalised_title, Paper.id)
    newest = Paper.year.desc().nulls_last(), Paper.id
    if sort == "cited":
        return page.order_by(Paper.times_cited.desc(), *newest)
    if sort == "claims":
        page, claims = _with_claims(page)
        return page.order_by(claims.desc(), *newest)
    return page.order_by(*newest)


def _with_claims(page: Select[int]) -> tuple[Select[int], ColumnElement[int]]:
    """Return the query with how many claims a paper makes.

    All papers are counted in one pass; of a part of them, each by itself.
    """
    if page.whereclause is not None:
        own = select(func.count()).where(Claim.paper_id == Paper.id).correlate(Paper)
        return page, own.scalar_subquery()
    made = select(Claim.paper_id, func.count().label("claims")).group_by(Claim.paper_id).subquery()
    page = page.outerjoin(made, made.c.paper_id == Paper.id)
    return page, func.coalesce(made.c.claims, 0)


def _cited(
    db: Session,
    wanted: InstrumentedAttribute[int],
    condition: ColumnElement[bool],
    limit: int,
    offset: int,
) -> Slice[Paper]:
    total = db.scalar(select(func.count()).select_from(Citation).where(condition)) or 0
    page = (
        select(Paper.id)
        .join(Citation, wanted == Paper.id)
        .where(condition)
        .order_by(Paper.year.desc().nulls_last(), Paper.normalised_title, Paper.id)
    )
    ids = db.scalars(page.limit(limit).offset(offset)).all()
    return Slice(by_ids(db, ids), total, limit, offset)


def _tally(
    db: Session,
    column: InstrumentedAttribute[int],
    ids: Sequence[int],
    *conditions: ColumnElement[bool],
) -> dict[int, int]:
    rows = db.execute(
        select(column, func.count()).where(column.in_(ids), *conditions).group_by(column)
    )
    return {row[0]: row[1] for row in rows}
