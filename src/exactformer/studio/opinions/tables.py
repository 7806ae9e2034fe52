"""What readers think: votes, reactions, saves, collections, reviews and comments."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from exactformer.studio.accounts.tables import User
from exactformer.studio.library.tables import Claim, Paper
from exactformer.studio.storage.base import Base, now, to

REACTIONS = ("surprising", "useful", "unclear", "well-written", "needs-replication", "foundational")
COMMENT_KINDS = ("note", "caveat", "replication", "question")
REVIEW_PARTS = ("summary", "strengths", "concerns", "questions", "conflict")


class Vote(Base):
    """Like (1) or dislike (−1), one for each reader and paper."""

    __tablename__ = "votes"
    __table_args__ = (CheckConstraint("value IN (-1, 1)", name="value"),)

    paper_id: Mapped[int] = to("papers", primary_key=True)
    user_id: Mapped[int] = to("users", primary_key=True, index=True)
    value: Mapped[int]
    created_at: Mapped[datetime] = mapped_column(default=now)


class Reaction(Base):
    """A specific reaction; a reader may have several to one paper."""

    __tablename__ = "reactions"

    paper_id: Mapped[int] = to("papers", primary_key=True)
    user_id: Mapped[int] = to("users", primary_key=True, index=True)
    kind: Mapped[str] = mapped_column(String(30), primary_key=True)
    created_at: Mapped[datetime] = mapped_column(default=now)


class Save(Base):
    """A paper kept for later."""

    __tablename__ = "saves"

    paper_id: Mapped[int] = to("papers", primary_key=True)
    user_id: Mapped[int] = to("users", primary_key=True, index=True)
    created_at: Mapped[datetime] = mapped_column(default=now)


class Collection(Base):
    """Papers in an order, with notes; private, or readable by whoever has the link.

    The link holds ``token``, which cannot be guessed; a new one takes the old link back.
    """

    __tablename__ = "collections"
    __table_args__ = (CheckConstraint("visibility IN ('private', 'link')", name="visibility"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    owner_id: Mapped[int] = to("users", index=True)
    title: Mapped[str] = mapped_column(String(200))
    description: Mapped[str] = mapped_column(Text, default="")
    visibility: Mapped[str] = mapped_column(String(10), default="private")
    token: Mapped[str] = mapped_column(String(64), unique=True)
    created_at: Mapped[datetime] = mapped_column(default=now)
    updated_at: Mapped[datetime] = mapped_column(default=now, onupdate=now)

    owner: Mapped[User] = relationship()
    items: Mapped[list[CollectionItem]] = relationship(
        order_by="CollectionItem.position", cascade="all, delete-orphan", passive_deletes=True
    )


class CollectionItem(Base):
    """A paper in a collection."""

    __tablename__ = "collection_items"

    collection_id: Mapped[int] = to("collections", primary_key=True)
    paper_id: Mapped[int] = to("papers", primary_key=True, index=True)
    position: Mapped[int]
    note: Mapped[str] = mapped_column(Text, default="")

    paper: Mapped[Paper] = relationship()


class Review(Base):
    """A structured review as it now stands; earlier states are in ``review_versions``."""

    __tablename__ = "reviews"
    __table_args__ = (
        UniqueConstraint("paper_id", "author_id"),
        CheckConstraint("confidence BETWEEN 1 AND 5", name="confidence"),
        CheckConstraint("state IN ('visible', 'deleted', 'hidden')", name="state"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    paper_id: Mapped[int] = to("papers")
    author_id: Mapped[int] = to("users", index=True)
    summary: Mapped[str] = mapped_column(Text)
    strengths: Mapped[str] = mapped_column(Text, default="")
    concerns: Mapped[str] = mapped_column(Text, default="")
    questions: Mapped[str] = mapped_column(Text, default="")
    conflict: Mapped[str] = mapped_column(Text, default="")
    confidence: Mapped[int]
    state: Mapped[str] = mapped_column(String(10), default="visible")
    revision: Mapped[int] = mapped_column(default=1)
    created_at: Mapped[datetime] = mapped_column(default=now)
    updated_at: Mapped[datetime] = mapped_column(default=now)

    paper: Mapped[Paper] = relationship()
    author: Mapped[User] = relationship()


class ReviewVersion(Base):
    """A state a review had: written at every change, the first included."""

    __tablename__ = "review_versions"

    review_id: Mapped[int] = to("reviews", primary_key=True)
    revision: Mapped[int] = mapped_column(primary_key=True)
    summary: Mapped[str] = mapped_column(Text)
    strengths: Mapped[str] = mapped_column(Text)
    concerns: Mapped[str] = mapped_column(Text)
    questions: Mapped[str] = mapped_column(Text)
    conflict: Mapped[str] = mapped_column(Text)
    confidence: Mapped[int]
    written_at: Mapped[datetime] = mapped_column(default=now)


class ReviewMark(Base):
    """A reader finds a review useful."""

    __tablename__ = "review_marks"

    text_id: Mapped[int] = to("reviews", primary_key=True)
    user_id: Mapped[int] = to("users", primary_key=True, index=True)
    created_at: Mapped[datetime] = mapped_column(default=now)


class Comment(Base):
    """A contribution to a discussion; deleting leaves its place, so that answers keep theirs."""

    __tablename__ = "comments"
    __table_args__ = (
        CheckConstraint("state IN ('visible', 'deleted', 'hidden')", name="state"),
        Index("ix_comments_paper_id_created_at", "paper_id", "created_at"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    paper_id: Mapped[int] = to("papers")
    author_id: Mapped[int] = to("users", index=True)
    parent_id: Mapped[int | None] = to("comments", index=True)
    kind: Mapped[str] = mapped_column(String(20), default="note")
    body: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(10), default="visible")
    revision: Mapped[int] = mapped_column(default=1)
    created_at: Mapped[datetime] = mapped_column(default=now)
    updated_at: Mapped[datetime] = mapped_column(default=now)

    paper: Mapped[Paper] = relationship()
    author: Mapped[User] = relationship()
    mentions: Mapped[list[Claim]] = relationship(secondary="comment_mentions")


class CommentVersion(Base):
    """A state a comment had: written at every change, the first included."""

    __tablename__ = "comment_versions"

    comment_id: Mapped[int] = to("comments", primary_key=True)
    revision: Mapped[int] = mapped_column(primary_key=True)
    body: Mapped[str] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(String(20), default="note")
    written_at: Mapped[datetime] = mapped_column(default=now)


class CommentMark(Base):
    """A reader finds a comment useful."""

    __tablename__ = "comment_marks"

    text_id: Mapped[int] = to("comments", primary_key=True)
    user_id: Mapped[int] = to("users", primary_key=True, index=True)
    created_at: Mapped[datetime] = mapped_column(default=now)


class CommentMention(Base):
    """A comment speaks of a claim."""

    __tablename__ = "comment_mentions"

    comment_id: Mapped[int] = to("comments", primary_key=True)
    claim_id: Mapped[int] = to("claims", primary_key=True, index=True)


class Flag(Base):
    """Somebody asks moderators to look at a review or a comment; ``note`` is their answer."""

    __tablename__ = "flags"
    __table_args__ = (
        CheckConstraint("state IN ('open', 'upheld', 'dismissed')", name="state"),
        Index("ix_flags_subject_kind_subject_id", "subject_kind", "subject_id"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    subject_kind: Mapped[str] = mapped_column(String(20))
    subject_id: Mapped[int]
    reporter_id: Mapped[int] = to("users")
    reason: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(10), default="open", index=True)
    note: Mapped[str] = mapped_column(Text, default="")
    decided_by_id: Mapped[int | None] = to("users", "SET NULL")
    decided_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(default=now)

    reporter: Mapped[User] = relationship(foreign_keys=[reporter_id])
    decided_by: Mapped[User | None] = relationship(foreign_keys=[decided_by_id])
