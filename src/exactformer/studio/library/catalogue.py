"""Records into the library and out of it: papers with their people, houses, topics, claims, citations.

:func:`store` writes records: new papers by :func:`add`; one that is there is completed by
:func:`fill`, which never overwrites. :func:`overwrite` does. All keep the search index in step.
Permission is the caller's business.
:func:`record` and :func:`records` are the way out, and the form edits are made in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields

from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session, selectinload
from sqlalchemy.orm.interfaces import ORMOption

from exactformer.studio.library.matches import match, resolve
from exactformer.studio.library.names import family_name, normalised, slugified
from exactformer.studio.library.records import AuthorRecord, ClaimRecord, PaperRecord, keys
from exactformer.studio.library.search_index import index
from exactformer.studio.library.tables import (
    Authorship,
    Citation,
    Claim,
    Institution,
    Paper,
    Person,
    Topic,
)
from exactformer.studio.storage.base import now
from exactformer.studio.storage.slices import chunks

PLAIN_FIELDS = tuple(
    "abstract year source open_access doi arxiv_id url "
    "code_url code_note data_url data_note".split()
)


@dataclass(frozen=True)
class Stored:
    """What a record has become: a new paper, or one that was there and gained some fields."""

    paper: Paper
    is_new: bool
    gained: tuple[str, ...] = ()


def store(db: Session, records: Iterable[PaperRecord]) -> list[Stored]:
    """Write new papers, fill gaps of those that are there, and tie citations."""
    stored: list[Stored] = []
    references: dict[int, set[str]] = {}
    for record in records:
        known = match(db, record)
        if known is None:
            stored.append(Stored(add(db, record), is_new=True))
        else:
            paper = db.get_one(Paper, known)
            stored.append(Stored(paper, is_new=False, gained=tuple(fill(db, paper, record))))
        references.setdefault(stored[-1].paper.id, set()).update(record.references)
    cite(db, references)
    return stored


def add(db: Session, record: PaperRecord) -> Paper:
    """Write a new paper. Whether it is new is the caller's to find out."""
    paper = Paper(
        slug=_free_slug(db, record),
        title=record.title,
        normalised_title=normalised(record.title)[:500],
        kind=record.kind,
        authorships=_authorships(db, record.authors),
        topics=_topics(db, record.topics),
        claims=_claims(record.claims, 0),
        **{name: getattr(record, name) for name in PLAIN_FIELDS},
    )
    db.add(paper)
    db.flush()
    index(db, [paper.id])
    return paper


def fill(db: Session, paper: Paper, record: PaperRecord) -> list[str]:
    """Complete ``paper`` from ``record`` where it is empty; return the names of what was filled."""
    gained = gains(paper, record, resolve(db, keys(record)))
    overwrite(db, paper, record, gained)
    return gained


def overwrite(db: Session, paper: Paper, record: PaperRecord, names: Sequence[str]) -> None:
    """Give ``paper`` these fields of ``record``, whatever it has there."""
    if not names:
        return
    for name in names:
        if name in PLAIN_FIELDS or name in ("title", "kind"):
            setattr(paper, name, getattr(record, name))
    paper.normalised_title = normalised(paper.title)[:500]
    if "authors" in names:
        paper.authorships.clear()
        db.flush()  # places in the list are keys: the old ones have to go first
        paper.authorships.extend(_authorships(db, record.authors))
    if "topics" in names:
        paper.topics = _topics(db, record.topics)
    if "claims" in names:
        paper.claims = _claims(record.claims, 0)
    paper.updated_at = now()
    index(db, [paper.id])


def gains(paper: Paper, record: PaperRecord, known: dict[str, int]) -> list[str]:
    """Return the names of fields that are empty in ``paper`` and given by ``record``.

    An identifier that ``known`` (of :func:`matches.resolve`) gives to another paper stays there.
    """
    names = [
        name
        for name in PLAIN_FIELDS
        if getattr(paper, name) in (None, "")
        and (value := getattr(record, name)) not in (None, "")
        and known.get(f"{name.removesuffix('_id')}:{value}", paper.id) == paper.id
    ]
    if paper.kind == "other" and record.kind != "other":
        names.append("kind")
    if record.authors and not paper.authorships:
        names.append("authors")
    if record.topics and not paper.topics:
        names.append("topics")
    if record.claims and not paper.claims:
        names.append("claims")
    return names


def add_claims(paper: Paper, claims: Iterable[ClaimRecord]) -> list[str]:
    """Add the claims whose anchors ``paper`` does not have yet; return their anchors."""
    there = {claim.anchor for claim in paper.claims}
    new = [claim for claim in claims if claim.anchor not in there]
    behind = max((claim.position for claim in paper.claims), default=-1) + 1
    paper.claims.extend(_claims(new, behind))
    return [claim.anchor for claim in new]


def cite(db: Session, references: Mapping[int, Iterable[str]]) -> int:
    """Tie papers (by id) to the papers their references speak of; return how many ties are new."""
    known = resolve(db, (key for some in references.values() for key in some))
    wanted = {
        (citing, known[key])
        for citing, some in references.items()
        for key in some
        if key in known and known[key] != citing
    }
    for some in chunks(sorted(references)):
        there = db.execute(
            select(Citation.citing_id, Citation.cited_id).where(Citation.citing_id.in_(some))
        )
        wanted -= {(citing, cited) for citing, cited in there}
    if wanted:
        rows = [{"citing_id": citing, "cited_id": cited} for citing, cited in sorted(wanted)]
        db.execute(insert(Citation), rows)
        count_citations(db, {cited for _, cited in wanted})
    return len(wanted)


def count_citations(db: Session, papers: Iterable[int]) -> None:
    """Count anew how often papers (by id) are cited: lists in that order read the number kept here."""
    times = select(func.count()).where(Citation.cited_id == Paper.id).scalar_subquery()
    unchanged = {"updated_at": Paper.updated_at}  # else whoever edits such a paper would be refused
    for some in chunks(sorted(papers)):
        db.execute(
            update(Paper)
            .where(Paper.id.in_(some))
            .values(times_cited=times, **unchanged)
            .execution_options(synchronize_session=False)
        )


def _claims(records: Iterable[ClaimRecord], first: int) -> list[Claim]:
    return [
        Claim(position=position, **asdict(record)) for position, record in enumerate(records, first)
    ]


def _authorships(db: Session, authors: Sequence[AuthorRecord]) -> list[Authorship]:
    """Return a list of authors, in their order, with their institutions."""
    people: dict[str, Person] = {}
    houses: dict[str, Institution] = {}
    return [
        Authorship(
            position=position,
            person=_person(db, author, people),
            institutions=list(
                {
                    _normal_house(name): _house(db, name, houses) for name in author.institutions
                }.values()
            ),
        )
        for position, author in enumerate(authors)
    ]


def _person(db: Session, author: AuthorRecord, new: dict[str, Person]) -> Person:
    """Return the person of this ORCID, else of this name: one that is there, or a new one."""
    known = select(Person).where(Person.orcid == author.orcid)
    if author.orcid and (person := new.get(author.orcid) or db.scalar(known)):
        return person
    name = normalised(author.name)[:200]
    named = select(Person).where(Person.normalised_name == name).order_by(Person.id).limit(1)
    person = new.get(name) or db.scalar(named)
    if person is None or (author.orcid and person.orcid):  # one name, two people
        person = Person(name=author.name, normalised_name=name, orcid=author.orcid)
        new.setdefault(name, person)
    elif author.orcid:
        person.orcid = author.orcid
    if author.orcid:
        new[author.orcid] = person
    return person


def _house(db: Session, name: str, new: dict[str, Institution]) -> Institution:
    key = _normal_house(name)
    if key not in new:
        known = db.scalar(select(Institution).where(Institution.normalised_name == key))
        new[key] = known or Institution(name=name, normalised_name=key)
    return new[key]


def _normal_house(name: str) -> str:
    return normalised(name)[:300]


def _topics(db: Session, names: Iterable[str]) -> list[Topic]:
    """Return the topics, each once."""
    topics: dict[str, Topic] = {}
    for name in names:
        slug = _topic_slug(name)
        if slug not in topics:
            known = db.scalar(select(Topic).where(Topic.slug == slug))
            topics[slug] = known or Topic(slug=slug, name=name)
    return list(topics.values())


def _free_slug(db: Session, record: PaperRecord) -> str:
    """Return the record's slug, with the next number behind it if others have it already."""
    slug = _slug(record)
    if not _is_taken(db, slug):
        return slug
    known, step = 1, 1
    while _is_taken(db, f"{slug}-{known + step}"):
        known, step = known + step, 2 * step
    while step > 1:
        step //= 2
        known += step if _is_taken(db, f"{slug}-{known + step}") else 0
    return f"{slug}-{known + 1}"


def _is_taken(db: Session, slug: str) -> bool:
    return db.scalar(select(Paper.id).where(Paper.slug == slug)) is not None


def _slug(record: PaperRecord) -> str:
    family = family_name(record.authors[0].name) if record.authors else ""
    return slugified(f"{family} {record.year or ''} {record.title}") or "paper"


def _topic_slug(name: str) -> str:
    return slugified(name) or f"topic-{'-'.join(f'{ord(c):x}' for c in normalised(name)[:12])}"


def whole() -> list[ORMOption]:
    """Return what loads a paper with everything its record needs, in a fixed number of queries."""
    authorships = selectinload(Paper.authorships)
    return [
        authorships.joinedload(Authorship.person, innerjoin=True),
        # SQLite finds places by their index when they are joined, not when they are listed.
        authorships.subqueryload(Authorship.institutions),
        selectinload(Paper.topics),
        selectinload(Paper.claims),
    ]


def records(db: Session, papers: Sequence[Paper]) -> list[PaperRecord]:
    """Return the records of ``papers``, with the keys of what they cite."""
    cited: dict[int, list[str]] = {}
    for some in chunks([paper.id for paper in papers]):
        rows = db.execute(
            select(Citation.citing_id, Paper)
            .join(Paper, Paper.id == Citation.cited_id)
            .where(Citation.citing_id.in_(some))
            .order_by(Citation.citing_id, Citation.cited_id)
            .options(selectinload(Paper.authorships).selectinload(Authorship.person))
        )
        for citing, paper in rows:
            cited.setdefault(citing, []).append(keys(_bare(paper))[0])
    return [record(paper, cited.get(paper.id, ())) for paper in papers]


def record(paper: Paper, references: Sequence[str] = ()) -> PaperRecord:
    """Return the record of a paper whose parts are loaded."""
    return PaperRecord(
        title=paper.title,
        kind=paper.kind,  # type: ignore[arg-type]
        authors=tuple(
            AuthorRecord(
                name=place.person.name,
                orcid=place.person.orcid,
                institutions=tuple(house.name for house in place.institutions),
            )
            for place in paper.authorships
        ),
        topics=tuple(topic.name for topic in paper.topics),
        references=tuple(references),
        claims=tuple(
            ClaimRecord(**{field.name: getattr(claim, field.name) for field in fields(ClaimRecord)})
            for claim in paper.claims
        ),
        **{name: getattr(paper, name) for name in PLAIN_FIELDS},
    )


def _bare(paper: Paper) -> PaperRecord:
    """Return no more of a paper than its keys are made of."""
    first = tuple(AuthorRecord(place.person.name) for place in paper.authorships[:1])
    return PaperRecord(
        title=paper.title,
        year=paper.year,
        doi=paper.doi,
        arxiv_id=paper.arxiv_id,
        authors=first,
    )
