"""Changing what a paper's page says: checked like an import, written with who, what and when."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session

from exactformer.studio.errors import ConflictError
from exactformer.studio.library import catalogue, names, papers
from exactformer.studio.library.matches import resolve
from exactformer.studio.library.paper_records import record
from exactformer.studio.library.records import PaperRecord, checked, to_dict
from exactformer.studio.library.tables import Paper
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage import audit

EDITABLE = ("title", "kind", *catalogue.PLAIN_FIELDS, "authors", "topics")
_IDENTIFIERS = {
    "doi": names.doi,
    "arxiv_id": names.arxiv_id,
    "openalex_id": names.openalex_id,
}
_SHOWN = 300


def edit(
    db: Session, actor: Actor, slug: str, changes: dict[str, Any], version: str | None = None
) -> Paper:
    """Change fields of a paper; ``changes`` are as in a record, and only of ``EDITABLE``.

    ``version`` is what the editor saw (:func:`version_of`): if the paper has changed since, the
    change is refused rather than laid over somebody else's.
    """
    actor.require("curator")
    paper = papers.get(db, slug)
    if version is not None and version != version_of(paper):
        raise ConflictError("the paper has been changed meanwhile; look at it again, then repeat")
    before = record(paper)
    after = checked({**to_dict(before), **with_identifiers(changes)}, "the change")
    changed = [name for name in EDITABLE if getattr(before, name) != getattr(after, name)]
    _refuse_taken(db, paper, after, changed)
    catalogue.overwrite(db, paper, after, changed)
    if changed:
        old, new = to_dict(before), to_dict(after)
        detail = {name: [_shown(old.get(name)), _shown(new.get(name))] for name in changed}
        audit.record(db, actor, "paper.edit", "paper", paper.id, detail)
    return paper


def version_of(paper: Paper) -> str:
    """Return a word that is another one after every change of the paper."""
    return paper.updated_at.isoformat()


def with_identifiers(changes: dict[str, Any]) -> dict[str, Any]:
    """Undress identifiers: people paste addresses. What is none is left for the check to refuse."""
    tidy = {key: value for key, value in changes.items() if value is not None}
    for name, read in _IDENTIFIERS.items():
        if isinstance(given := tidy.get(name), str):
            tidy[name] = (read(given) or given) if given.strip() else None
    return {**{key: None for key in changes if key not in tidy}, **tidy}


def _refuse_taken(db: Session, paper: Paper, after: PaperRecord, changed: list[str]) -> None:
    for name in set(changed) & set(_IDENTIFIERS):
        key = f"{name.removesuffix('_id')}:{getattr(after, name)}"
        if resolve(db, [key]).get(key, paper.id) != paper.id:
            raise ConflictError(f"another paper of the library has {key}; is it the same work?")


def _shown(value: Any) -> Any:
    return value[:_SHOWN] if isinstance(value, str) else value
