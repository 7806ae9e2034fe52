"""What keeps the studio in order: reports to moderators, the audit log, imports that wait."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, CheckConstraint, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from exactformer.studio.accounts.tables import User
from exactformer.studio.storage.base import Base, now

SUBJECTS = ("review", "comment")


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
    reporter_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"))
    reason: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(10), default="open", index=True)
    note: Mapped[str] = mapped_column(Text, default="")
    decided_by_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))
    decided_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(default=now)

    reporter: Mapped[User] = relationship(foreign_keys=[reporter_id])
    decided_by: Mapped[User | None] = relationship(foreign_keys=[decided_by_id])


class AuditEntry(Base):
    """Who changed what and when; written in the transaction of the change itself."""

    __tablename__ = "audit_log"
    __table_args__ = (Index("ix_audit_log_subject_kind_subject_id", "subject_kind", "subject_id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(default=now, index=True)
    actor_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))
    action: Mapped[str] = mapped_column(String(40))
    subject_kind: Mapped[str] = mapped_column(String(20))
    subject_id: Mapped[int | None]
    detail: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)

    actor: Mapped[User | None] = relationship()


class PendingImport(Base):
    """Records read from an uploaded file, shown to their owner before anything is written."""

    __tablename__ = "pending_imports"

    id: Mapped[int] = mapped_column(primary_key=True)
    owner_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    format: Mapped[str] = mapped_column(String(20))
    records: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    created_at: Mapped[datetime] = mapped_column(default=now)
