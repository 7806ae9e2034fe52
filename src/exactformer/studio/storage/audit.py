"""The audit log: who changed what and when, written in the transaction of the change itself."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session, joinedload

from exactformer.studio.security.actor import Actor
from exactformer.studio.storage.housekeeping import AuditEntry


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
    *,
    action: str = "",
    handle: str = "",
    limit: int = 50,
    offset: int = 0,
) -> tuple[list[AuditEntry], int]:
    """Entries, the newest first, and how many there are; for curators."""
    actor.require("curator")
    chosen = select(AuditEntry)
    if action:
        chosen = chosen.where(AuditEntry.action.startswith(action, autoescape=True))
    if handle:
        chosen = chosen.where(AuditEntry.actor.has(handle=handle.lower()))
    total = db.scalar(select(func.count()).select_from(chosen.subquery())) or 0
    page = chosen.options(joinedload(AuditEntry.actor)).order_by(AuditEntry.id.desc())
    return list(db.scalars(page.limit(limit).offset(offset))), total
