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
    stored, references = [], {}
    for record in records:
        known = match(db, record)
        if known is None:
            stored.append(Stored(add(db, [record])[0], is_new=True))
        else:
            paper = db.get_one(Paper, known)
            stored.append(Stored(paper, is_new=False, gained=tuple(fill(db, paper, record))))
        references.setdefault(stored[-1].paper.id, set()).update(record.references)
    cite(db, references)
    return stored


def add(db: Session, records: Sequence[PaperRecord]) -> list[Paper]:
    """Write new papers. Which records are new is the caller's to find out."""
    shelf = _Shelf(db, records)
    papers = [_paper(shelf, record) for record in records]
    db.add_all(papers)
    db.flush()
    index(db, [paper.id for paper in papers])
    return papers


def fill(db: Session, paper: Paper, record: PaperRecord) -> list[str]:
    """Complete ``paper`` from ``record`` where it is empty; return the names of what was filled."""
    gained = gains(paper, record, resolve(db, keys(record)))
    overwrite(db, paper, record, gained)
    return gained


def overwrite(db: Session, paper: Paper, record: PaperRecord, names: Sequence[str]) -> None:
    """Give ``paper`` these fields of ``record``, whatever it has there."""
    if not names:
        return
    shelf = _Shelf(db, [record])
    for name in names:
        if name in PLAIN_FIELDS or name in ("title", "kind"):
            setattr(paper, name, getattr(record, name))
    paper.normalised_title = normalised(paper.title)[:500]
    if "authors" in names:
        paper.authorships.clear()
        db.flush()  # places in the list are keys: the old ones have to go first
        paper.authorships.extend(shelf.authorships(record.authors))
    if "topics" in names:
        paper.topics = shelf.topics(record.topics)
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


def _paper(shelf: _Shelf, record: PaperRecord) -> Paper:
    return Paper(
        slug=shelf.free_slug(record),
        title=record.title,
        normalised_title=normalised(record.title)[:500],
        kind=record.kind,
        authorships=shelf.authorships(record.authors),
        topics=shelf.topics(record.topics),
        claims=_claims(record.claims, 0),
        **{name: getattr(record, name) for name in PLAIN_FIELDS},
    )


def _claims(records: Iterable[ClaimRecord], first: int) -> list[Claim]:
    return [
        Claim(position=position, **asdict(record)) for position, record in enumerate(records, first)
    ]


class _Shelf:
    """People, houses, topics and slugs that a batch of records may share with the library."""

    def __init__(self, db: Session, records: Sequence[PaperRecord]) -> None:
        self.db = db
        authors = [author for record in records for author in record.authors]
        self.by_orcid: dict[str, Person] = {}
        self.by_name: dict[str, Person] = {}
        self._load_people(db, authors)
        houses = {normalised(name)[:300] for author in authors for name in author.institutions}
        self.houses: dict[str, Institution] = {}
        for some in chunks(sorted(houses)):
            for house in db.scalars(
                select(Institution).where(Institution.normalised_name.in_(some))
            ):
                self.houses[house.normalised_name] = house
        slugs = {_topic_slug(name) for record in records for name in record.topics}
        self.by_slug: dict[str, Topic] = {}
        for some in chunks(sorted(slugs)):
            for topic in db.scalars(select(Topic).where(Topic.slug.in_(some))):
                self.by_slug[topic.slug] = topic
        self.numbers: dict[str, int] = {}
        self.taken: set[str] = set()
        for some in chunks(sorted({_slug(record) for record in records})):
            self.taken.update(db.scalars(select(Paper.slug).where(Paper.slug.in_(some))))

    def _load_people(self, db: Session, authors: Sequence[AuthorRecord]) -> None:
        names = {normalised(author.name)[:200] for author in authors}
        for some in chunks(sorted(names)):
            for person in db.scalars(
                select(Person).where(Person.normalised_name.in_(some)).order_by(Person.id)
            ):
                self.by_name.setdefault(person.normalised_name, person)
        for some in chunks(sorted({author.orcid for author in authors if author.orcid})):
            for person in db.scalars(select(Person).where(Person.orcid.in_(some))):
                self.by_orcid[person.orcid or ""] = person

    def authorships(self, authors: Iterable[AuthorRecord]) -> list[Authorship]:
        """Return the list of authors, in their order, with their houses."""
        return [
            Authorship(
                position=position,
                person=self._person(author),
                institutions=list(
                    {id(h): h for h in map(self._house, author.institutions)}.values()
                ),
            )
            for position, author in enumerate(authors)
        ]

    def topics(self, names: Iterable[str]) -> list[Topic]:
        """Return the topics, each once."""
        topics: dict[str, Topic] = {}
        for name in names:
            slug = _topic_slug(name)
            topics[slug] = self.by_slug.setdefault(slug, Topic(slug=slug, name=name))
        return list(topics.values())

    def free_slug(self, record: PaperRecord) -> str:
        """Return the record's slug, with a number behind it if others have it already."""
        free = slug = _slug(record)
        if slug in self.taken:
            self.numbers[slug] = self._last_number(slug, self.numbers.get(slug, 1)) + 1
            free = f"{slug}-{self.numbers[slug]}"
        self.taken.add(free)
        return free

    def _last_number(self, slug: str, known: int) -> int:
        """Return a number that is taken and has a free one behind it, from one that is taken."""

        def is_taken(number: int) -> bool:
            numbered = f"{slug}-{number}"
            query = select(Paper.id).where(Paper.slug == numbered)
            return numbered in self.taken or self.db.scalar(query) is not None

        step = 1
        while is_taken(known + step):
            known, step = known + step, 2 * step
        while step > 1:
            step //= 2
            known += step if is_taken(known + step) else 0
        return known

    def _person(self, author: AuthorRecord) -> Person:
        if author.orcid and author.orcid in self.by_orcid:
            return self.by_orcid[author.orcid]
        name = normalised(author.name)[:200]
        person = self.by_name.get(name)
        if person is None or (author.orcid and person.orcid):  # one name, two people
            person = Person(name=author.name, normalised_name=name, orcid=author.orcid)
            self.by_name.setdefault(name, person)
        elif author.orcid:
            person.orcid = author.orcid
        if author.orcid:
            self.by_orcid[author.orcid] = person
        return person

    def _house(self, name: str) -> Institution:
        key = normalised(name)[:300]
        return self.houses.setdefault(key, Institution(name=name, normalised_name=key))


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
