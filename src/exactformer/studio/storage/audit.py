"""The audit log: who changed what and when, written in the transaction of the change itself."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Index, String, select
from sqlalchemy.orm import Mapped, Session, joinedload, mapped_column, relationship

from exactformer.studio.accounts.tables import User
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage.base import Base, now, to
from exactformer.studio.storage.slices import Slice, cut


class AuditEntry(Base):
    """Who changed what and when; written in the transaction of the change itself."""

    __tablename__ = "audit_log"
    __table_args__ = (Index("ix_audit_log_subject_kind_subject_id", "subject_kind", "subject_id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(default=now, index=True)
    actor_id: Mapped[int | None] = to("users", "SET NULL")
    action: Mapped[str] = mapped_column(String(40))
    subject_kind: Mapped[str] = mapped_column(String(20))
    subject_id: Mapped[int | None]
    detail: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)

    actor: Mapped[User | None] = relationship()


def record(
    db: Session,
    actor: Actor,
    action: str,
    subject_kind: str,
    subject_id: int | None,
    detail: dict[str, Any] | None = None,
) -> None:
    """Note a change; it is kept if and only if the change is."""
    db.add(
        AuditEntry(
            actor_id=actor.id,
            action=action,
            subject_kind=subject_kind,
            subject_id=subject_id,
            detail=detail or {},
        )
    )


def entries(
    db: Session,
    actor: Actor,
    action: str = "",
    handle: str = "",
    limit: int = 50,
    offset: int = 0,
) -> Slice[AuditEntry]:
    """Entries, the newest first; for curators."""
    actor.require("curator")
    chosen = select(AuditEntry)
    if action:
        chosen = chosen.where(AuditEntry.action.startswith(action, autoescape=True))
    if handle:
        chosen = chosen.where(AuditEntry.actor.has(handle=handle.lower()))
    newest = chosen.order_by(AuditEntry.id.desc())
    return cut(db, newest, limit, offset, joinedload(AuditEntry.actor))
