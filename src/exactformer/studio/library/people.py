"""People, institutions and topics: who and what papers have in common."""

from __future__ import annotations

from typing import TypeVar

from sqlalchemy import and_, exists, func, select
from sqlalchemy.orm import Session

from exactformer.studio.errors import NotFoundError
from exactformer.studio.library.tables import (
    Affiliation,
    Authorship,
    Institution,
    PaperTopic,
    Person,
    Topic,
)
from exactformer.studio.storage.slices import Slice

Thing = TypeVar("Thing")
_SAME_PLACE = and_(
    Authorship.paper_id == Affiliation.paper_id, Authorship.position == Affiliation.position
)


def person(db: Session, id: int) -> Person:
    """Return the person with this id."""
    return _there(db.get(Person, id), f"person {id}")


def institution(db: Session, id: int) -> Institution:
    """Return the institution with this id."""
    return _there(db.get(Institution, id), f"institution {id}")


def topic(db: Session, slug: str) -> Topic:
    """Return the topic with this slug."""
    found = db.scalar(select(Topic).where(Topic.slug == slug)) if "\0" not in slug else None
    return _there(found, f"topic {slug[:120]!r}")


def _there(found: Thing | None, name: str) -> Thing:
    if found is None:
        raise NotFoundError(f"there is no {name}")
    return found


def institutions_of(db: Session, person_id: int) -> list[Institution]:
    """Return the houses that papers give for a person."""
    named = select(Affiliation.institution_id).join(Authorship, _SAME_PLACE)
    named = named.where(Authorship.person_id == person_id)
    chosen = select(Institution).where(Institution.id.in_(named))
    return list(db.scalars(chosen.order_by(Institution.name)))


def people_at(db: Session, institution_id: int, limit: int = 200) -> list[Person]:
    """Return the people for whom papers give this house."""
    there = select(Authorship.person_id).join(Affiliation, _SAME_PLACE)
    there = there.where(Affiliation.institution_id == institution_id)
    chosen = select(Person).where(Person.id.in_(there))
    return list(db.scalars(chosen.order_by(Person.name).limit(limit)))


def coauthors(db: Session, person_id: int, limit: int = 30) -> list[tuple[Person, int]]:
    """Return who wrote with a person, and how many papers."""
    mine = select(Authorship.paper_id).where(Authorship.person_id == person_id)
    together = func.count(Authorship.paper_id.distinct())
    rows = db.execute(
        select(Person, together)
        .join(Authorship, Authorship.person_id == Person.id)
        .where(Authorship.paper_id.in_(mine), Person.id != person_id)
        .group_by(Person.id)
        .order_by(together.desc(), Person.name)
        .limit(limit)
    )
    return [(person, number) for person, number in rows]


def topics(db: Session, limit: int = 40, offset: int = 0) -> Slice[tuple[Topic, int]]:
    """Return the topics with most papers, and how many each has."""
    number = func.count().label("number")
    # Counted before names are joined: with many papers, by the index alone.
    counted = select(PaperTopic.topic_id, number).group_by(PaperTopic.topic_id).subquery()
    rows = db.execute(
        select(Topic, counted.c.number)
        .join(counted, counted.c.topic_id == Topic.id)
        .order_by(counted.c.number.desc(), Topic.name)
        .limit(limit)
        .offset(offset)
    )
    used = exists().where(PaperTopic.topic_id == Topic.id)
    total = db.scalar(select(func.count()).select_from(Topic).where(used)) or 0
    return Slice(tuple((topic, many) for topic, many in rows), total, limit, offset)
