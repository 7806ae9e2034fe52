"""What readers follow, and what they are told."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, Index, String
from sqlalchemy.orm import Mapped, mapped_column, relationship

from exactformer.studio.accounts.tables import User
from exactformer.studio.library.tables import Paper
from exactformer.studio.storage.base import Base, now, to

KINDS = ("answer", "mention", "comment", "review", "decision")


class Follow(Base):
    """A paper that a reader follows; with an ``anchor``, one claim of it."""

    __tablename__ = "follows"

    paper_id: Mapped[int] = to("papers", primary_key=True)
    user_id: Mapped[int] = to("users", primary_key=True, index=True)
    anchor: Mapped[str] = mapped_column(String(60), primary_key=True, default="")
    created_at: Mapped[datetime] = mapped_column(default=now)


class Notice(Base):
    """Something a reader should hear of: who did what, and where. It holds no text of others.

    ``word`` is the outcome of a decision; ``title`` names what is not in the library.
    """

    __tablename__ = "notices"
    __table_args__ = (
        CheckConstraint(
            "kind IN ('answer', 'mention', 'comment', 'review', 'decision')", name="kind"
        ),
        Index("ix_notices_user_id_read_at", "user_id", "read_at"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int] = to("users")
    kind: Mapped[str] = mapped_column(String(10))
    by_id: Mapped[int | None] = to("users", "SET NULL")
    paper_id: Mapped[int | None] = to("papers")
    comment_id: Mapped[int | None] = to("comments", index=True)
    review_id: Mapped[int | None] = to("reviews", index=True)
    word: Mapped[str] = mapped_column(String(10), default="")
    title: Mapped[str] = mapped_column(String(500), default="")
    created_at: Mapped[datetime] = mapped_column(default=now)
    read_at: Mapped[datetime | None]

    by: Mapped[User | None] = relationship(foreign_keys=[by_id])
    paper: Mapped[Paper | None] = relationship()
