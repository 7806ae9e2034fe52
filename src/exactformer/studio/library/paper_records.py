"""Papers as records again: the way out of the library, and the form edits are made in."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session, selectinload
from sqlalchemy.orm.interfaces import ORMOption

from exactformer.studio.library.catalogue import PLAIN_FIELDS
from exactformer.studio.library.records import AuthorRecord, ClaimRecord, PaperRecord, keys
from exactformer.studio.library.tables import Authorship, Citation, Paper
from exactformer.studio.storage.slices import chunks


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
            ClaimRecord(
                anchor=claim.anchor,
                kind=claim.kind,  # type: ignore[arg-type]
                title=claim.title,
                statement=claim.statement,
                experiment=claim.experiment,
                checked_by=claim.checked_by,
            )
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
        openalex_id=paper.openalex_id,
        authors=first,
    )
