"""Papers, who wrote them and where, what they are about, what they cite and what they claim."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from exactformer.studio.storage.base import Base, now, to

PAPER_KINDS = ("article", "preprint", "talk", "book", "thesis", "software", "dataset", "other")


class Paper(Base):
    """A work with a page. Works known only from reference lists have a page too, a short one."""

    __tablename__ = "papers"

    id: Mapped[int] = mapped_column(primary_key=True)
    slug: Mapped[str] = mapped_column(String(120), unique=True)
    title: Mapped[str] = mapped_column(String(500))
    normalised_title: Mapped[str] = mapped_column(String(500), index=True)
    abstract: Mapped[str] = mapped_column(Text, default="")
    year: Mapped[int | None] = mapped_column(index=True)
    kind: Mapped[str] = mapped_column(String(20), default="other")
    source: Mapped[str] = mapped_column(String(200), default="")
    open_access: Mapped[bool | None]
    doi: Mapped[str | None] = mapped_column(String(200), unique=True)
    arxiv_id: Mapped[str | None] = mapped_column(String(40), unique=True)
    url: Mapped[str] = mapped_column(String(500), default="")
    code_url: Mapped[str] = mapped_column(String(500), default="")
    code_note: Mapped[str] = mapped_column(String(500), default="")
    data_url: Mapped[str] = mapped_column(String(500), default="")
    data_note: Mapped[str] = mapped_column(String(500), default="")
    times_cited: Mapped[int] = mapped_column(default=0, server_default="0", index=True)
    created_at: Mapped[datetime] = mapped_column(default=now)
    updated_at: Mapped[datetime] = mapped_column(default=now, onupdate=now)

    authorships: Mapped[list[Authorship]] = relationship(
        order_by="Authorship.position", cascade="all, delete-orphan", passive_deletes=True
    )
    claims: Mapped[list[Claim]] = relationship(
        order_by="Claim.position", cascade="all, delete-orphan", passive_deletes=True
    )
    topics: Mapped[list[Topic]] = relationship(secondary="paper_topics", order_by="Topic.name")


class Person(Base):
    """An author."""

    __tablename__ = "people"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    normalised_name: Mapped[str] = mapped_column(String(200), index=True)
    orcid: Mapped[str | None] = mapped_column(String(40), unique=True)


class Institution(Base):
    """Where authors work."""

    __tablename__ = "institutions"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(300))
    normalised_name: Mapped[str] = mapped_column(String(300), unique=True)


class Authorship(Base):
    """The person in a place of a paper's list of authors, with what the paper gives as her house."""

    __tablename__ = "authorships"

    paper_id: Mapped[int] = to("papers", primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    person_id: Mapped[int] = to("people", index=True)

    person: Mapped[Person] = relationship()
    institutions: Mapped[list[Institution]] = relationship(
        secondary="affiliations", order_by="Institution.name"
    )


class Affiliation(Base):
    """An institution given for an authorship."""

    __tablename__ = "affiliations"

    id: Mapped[int] = mapped_column(primary_key=True)
    paper_id: Mapped[int]
    position: Mapped[int]
    institution_id: Mapped[int] = to("institutions", index=True)
    __table_args__ = (
        ForeignKeyConstraint(
            ["paper_id", "position"],
            ["authorships.paper_id", "authorships.position"],
            ondelete="CASCADE",
        ),
        UniqueConstraint("paper_id", "position", "institution_id"),
    )


class Topic(Base):
    """What papers are about."""

    __tablename__ = "topics"

    id: Mapped[int] = mapped_column(primary_key=True)
    slug: Mapped[str] = mapped_column(String(120), unique=True)
    name: Mapped[str] = mapped_column(String(120))


class PaperTopic(Base):
    """A paper is about a topic."""

    __tablename__ = "paper_topics"

    paper_id: Mapped[int] = to("papers", primary_key=True)
    topic_id: Mapped[int] = to("topics", primary_key=True, index=True)


class Citation(Base):
    """One paper cites another."""

    __tablename__ = "citations"
    __table_args__ = (CheckConstraint("citing_id <> cited_id", name="not_itself"),)

    citing_id: Mapped[int] = to("papers", primary_key=True)
    cited_id: Mapped[int] = to("papers", primary_key=True, index=True)


class Claim(Base):
    """A theorem, table, figure or sentence of a paper that evidence can speak to.

    ``anchor`` is how comments mention it (``#table-1``); ``ledger`` names its entry in the ledger of
    claims, from which its verdict follows.
    """

    __tablename__ = "claims"
    __table_args__ = (UniqueConstraint("paper_id", "anchor"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    paper_id: Mapped[int] = to("papers")
    position: Mapped[int]
    anchor: Mapped[str] = mapped_column(String(60))
    kind: Mapped[str] = mapped_column(String(20))
    title: Mapped[str] = mapped_column(String(300))
    statement: Mapped[str] = mapped_column(Text, default="")
    ledger: Mapped[str] = mapped_column(String(120), default="", index=True)
