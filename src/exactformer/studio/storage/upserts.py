"""Insert a row unless it is there, or take it away, in one statement.

Two requests at the same moment then give one row, whichever comes first, without an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete
from sqlalchemy.orm import Session

from exactformer.studio.storage.base import Base
from exactformer.studio.storage.dialects import insert


def add(db: Session, model: type[Base], key: Mapping[str, Any], **values: Any) -> bool:
    """Insert a row with ``key`` and ``values``; return whether there was none with this key."""
    statement = insert(db, model).values(**key, **values)
    nothing = statement.on_conflict_do_nothing(index_elements=list(key))
    return db.execute(nothing.returning(*model.__table__.primary_key)).first() is not None


def put(db: Session, model: type[Base], key: Mapping[str, Any], **values: Any) -> None:
    """Make sure that the row with ``key`` has ``values``."""
    statement = insert(db, model).values(**key, **values)
    db.execute(statement.on_conflict_do_update(index_elements=list(key), set_=values))


def switch(db: Session, model: type[Base], key: Mapping[str, Any], on: bool) -> bool:
    """Add the row with ``key``, or take it away; return whether that changed anything."""
    if on:
        return add(db, model, key)
    gone = delete(model).filter_by(**key).returning(*model.__table__.primary_key)
    return db.execute(gone).first() is not None
