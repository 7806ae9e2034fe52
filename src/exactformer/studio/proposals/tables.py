"""Papers that readers propose."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, CheckConstraint, String
from sqlalchemy.orm import Mapped, mapped_column, relationship

from exactformer.studio.accounts.tables import User
from exactformer.studio.library.tables import Paper
from exactformer.studio.storage.base import Base, now, to


class Proposal(Base):
    """A record that a reader proposes; once accepted, ``paper`` is what became of it."""

    __tablename__ = "proposals"
    __table_args__ = (CheckConstraint("state IN ('open', 'accepted', 'declined')", name="state"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    proposer_id: Mapped[int] = to("users", index=True)
    record: Mapped[dict[str, Any]] = mapped_column(JSON)
    state: Mapped[str] = mapped_column(String(10), default="open", index=True)
    paper_id: Mapped[int | None] = to("papers", "SET NULL")
    decided_by_id: Mapped[int | None] = to("users", "SET NULL")
    created_at: Mapped[datetime] = mapped_column(default=now)

    proposer: Mapped[User] = relationship(foreign_keys=[proposer_id])
    paper: Mapped[Paper | None] = relationship()
