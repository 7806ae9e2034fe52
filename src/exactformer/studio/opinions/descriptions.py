"""Reviews, comments and reports as programs read them: made from views, never from the tables."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from starlette.responses import JSONResponse

from exactformer.studio.opinions.conflicts import ChangedMeanwhileError
from exactformer.studio.opinions.views import CommentView, ReviewView, Standing
from exactformer.studio.storage.tables import Collection, Flag


def review(view: ReviewView) -> dict[str, Any]:
    """A review, with each part as written and as shown."""
    parts = {part.name: {"text": part.text, "html": part.html} for part in view.parts}
    return _standing(view) | {"confidence": view.confidence, "parts": parts}


def comment(view: CommentView) -> dict[str, Any]:
    """A comment; of one that may not be read, only its place."""
    return _standing(view) | {
        "parent_id": view.parent_id,
        "kind": view.kind,
        "body": view.text,
        "html": view.html,
    }


def flag(flag: Flag) -> dict[str, Any]:
    """A report."""
    return {
        "id": flag.id,
        "subject_kind": flag.subject_kind,
        "subject_id": flag.subject_id,
        "reason": flag.reason,
        "state": flag.state,
        "note": flag.note,
        "created_at": flag.created_at.isoformat(),
        "decided_at": flag.decided_at.isoformat() if flag.decided_at else None,
    }


def collection(collection: Collection, *, owned: bool) -> dict[str, Any]:
    """A collection with its papers; only its owner is told the link."""
    items = [
        {"paper_id": item.paper_id, "slug": item.paper.slug, "title": item.paper.title}
        | {"note": item.note}
        for item in collection.items
    ]
    secret = {"id": collection.id, "visibility": collection.visibility}
    if collection.visibility == "link":
        secret["token"] = collection.token
    return (secret if owned else {}) | {
        "title": collection.title,
        "description": collection.description,
        "owner": collection.owner.name,
        "updated_at": collection.updated_at.isoformat(),
        "items": items,
    }


def conflict(error: ChangedMeanwhileError[Any, Any]) -> JSONResponse:
    """A refused edit: nothing is lost, the text and the present revision are given back."""
    told = {
        "error": {"status": error.status, "message": str(error)},
        "revision": error.current.revision,
        "draft": asdict(error.draft),
    }
    return JSONResponse(told, error.status)


def _standing(view: Standing) -> dict[str, Any]:
    return {
        "id": view.id,
        "author": view.author.handle if view.author else None,
        "state": view.state,
        "mine": view.mine,
        "revision": view.revision,
        "created_at": view.created_at.isoformat(),
        "updated_at": view.updated_at.isoformat(),
        "hidden_because": view.reason,
    }
