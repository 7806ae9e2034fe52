"""The index of full-text search: filled after migrations, kept in step by whoever writes papers.

What is indexed are words as :func:`names.words` gives them, so both databases find the same:
on SQLite an FTS5 table with the words of each field, on PostgreSQL a ``tsvector`` (with weights,
under a GIN index) written out word by word, so that no locale or dictionary has a say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import Select, select, text
from sqlalchemy.orm import Session

from exactformer.studio.library.names import words
from exactformer.studio.library.tables import Authorship, Paper, PaperTopic, Person, Topic
from exactformer.studio.storage.dialects import forget_documents, keep_documents
from exactformer.studio.storage.slices import chunks

# Field -> its weight in PostgreSQL's letters; SQLite's numbers are in the migration, in this order.
FIELDS = {"title": "A", "authors": "B", "topics": "C", "abstract": "D"}
MOST_WORDS = 4000  # of a field; PostgreSQL's positions end at 16,383
LONGEST_WORD = 60


def complete(db: Session) -> None:
    """Fill an index that a migration has just made."""
    papers = db.scalar(select(Paper.id).limit(1))
    if papers is not None and db.scalar(text("SELECT 1 FROM search_papers LIMIT 1")) is None:
        index_all(db)


def index(db: Session, paper_ids: Sequence[int]) -> None:
    """Bring the index up to date with these papers, in the transaction that changed them."""
    db.flush()
    for some in chunks(paper_ids):
        forget_documents(db, some)
        keep_documents(db, _documents(db, some), FIELDS)


def index_all(db: Session) -> None:
    """Index every paper anew."""
    db.execute(text("DELETE FROM search_papers"))
    for some in chunks(db.scalars(select(Paper.id).order_by(Paper.id)).all()):
        keep_documents(db, _documents(db, some), FIELDS)


def _documents(db: Session, ids: Sequence[int]) -> Iterator[tuple[int, dict[str, list[str]]]]:
    authors = _joined(
        db,
        select(Authorship.paper_id, Person.name)
        .join(Person)
        .where(Authorship.paper_id.in_(ids))
        .order_by(Authorship.paper_id, Authorship.position),
    )
    topics = _joined(
        db,
        select(PaperTopic.paper_id, Topic.name)
        .join(Topic, Topic.id == PaperTopic.topic_id)
        .where(PaperTopic.paper_id.in_(ids)),
    )
    for id, title, abstract in db.execute(
        select(Paper.id, Paper.title, Paper.abstract).where(Paper.id.in_(ids))
    ):
        parts = (title, authors.get(id, ""), topics.get(id, ""), abstract)
        fields = {
            field: [word[:LONGEST_WORD] for word in words(part)[:MOST_WORDS]]
            for field, part in zip(FIELDS, parts, strict=True)
        }
        yield id, fields


def _joined(db: Session, query: Select[int, str]) -> dict[int, str]:
    gathered: dict[int, list[str]] = {}
    for id, name in db.execute(query):
        gathered.setdefault(id, []).append(name)
    return {id: " ".join(names) for id, names in gathered.items()}
