"""Discussions for programs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field
from sqlalchemy.orm import Session
from starlette.responses import JSONResponse, Response

from exactformer.studio.library import papers
from exactformer.studio.opinions import comments, descriptions, moderation, threads
from exactformer.studio.opinions.comments import LIMIT, CommentDraft
from exactformer.studio.opinions.moderation_api import Reason
from exactformer.studio.opinions.quick_api import Slug
from exactformer.studio.opinions.views import show_comments
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage.tables import Comment, Paper
from exactformer.studio.web.rate_limits import WRITING
from exactformer.studio.web.request import (
    Body,
    Clean,
    CurrentActor,
    Identifier,
    Paging,
    ReadSession,
    database_of,
    listing,
    writing,
)

router = APIRouter(prefix="/api/v1", tags=["comments"])

Kind = Literal["note", "caveat", "replication", "question"]
Anchor = Annotated[Clean, Query(max_length=60)]


class EditedComment(Body):
    """A comment in markdown, and the revision from which the edit started."""

    body: Annotated[Clean, Field(min_length=1, max_length=LIMIT)]
    kind: Kind = "note"
    revision: Identifier


class NewComment(Body):
    """A comment in markdown, or an answer to another."""

    body: Annotated[Clean, Field(min_length=1, max_length=LIMIT)]
    kind: Kind = "note"
    parent_id: Identifier | None = None


@router.get("/papers/{slug}/comments")
def read_all(
    db: ReadSession,
    actor: CurrentActor,
    slug: Slug,
    paging: Paging,
    kind: Kind | None = None,
    claim: Anchor | None = None,
) -> dict[str, Any]:
    """Comments on a paper, the newest first; answers name what they answer."""
    paper = papers.get(db, slug)
    found = threads.single(db, actor, paper, kind, claim, paging.limit, paging.offset)
    return listing(map(descriptions.comment, found.items), found.total)


@router.post("/papers/{slug}/comments", dependencies=WRITING, status_code=201)
def write(request: Request, actor: CurrentActor, slug: Slug, comment: NewComment) -> dict[str, Any]:
    """Write a comment."""
    draft = CommentDraft(comment.body, comment.kind)
    with writing(request) as db:
        paper = papers.get(db, slug)
        written = comments.write(db, actor, paper, draft, comment.parent_id)
    return _stored(request, actor, written.id)


@router.get("/comments/{comment_id}")
def read(db: ReadSession, actor: CurrentActor, comment_id: Identifier) -> dict[str, Any]:
    """One comment."""
    return _shown(db, actor, comments.get(db, actor, comment_id))


@router.put(
    "/comments/{comment_id}",
    dependencies=WRITING,
    responses={409: {"description": "Changed meanwhile; the answer gives the draft back."}},
)
def edit(
    request: Request, actor: CurrentActor, comment_id: Identifier, comment: EditedComment
) -> Any:
    """Change one's comment, from the revision one has read."""
    draft = CommentDraft(comment.body, comment.kind)
    try:
        with writing(request) as db:
            comments.edit(db, actor, comment_id, draft, comment.revision)
    except comments.CommentConflictError as error:
        return descriptions.conflict(error)
    return _stored(request, actor, comment_id)


@router.delete("/comments/{comment_id}", status_code=204)
def remove(request: Request, actor: CurrentActor, comment_id: Identifier) -> Response:
    """Delete one's comment; answers keep their place."""
    with writing(request) as db:
        comments.remove(db, actor, comment_id)
    return Response(status_code=204)


@router.get("/comments/{comment_id}/versions")
def versions(db: ReadSession, actor: CurrentActor, comment_id: Identifier) -> dict[str, Any]:
    """Every version a comment had, the first first."""
    items = [
        {
            "revision": version.revision,
            "written_at": version.written_at.isoformat(),
            "body": version.body,
        }
        for version in comments.versions(db, actor, comment_id)
    ]
    return listing(items, len(items))


@router.post("/comments/{comment_id}/flags", dependencies=WRITING, status_code=201)
def report(
    request: Request, actor: CurrentActor, comment_id: Identifier, reason: Reason
) -> JSONResponse:
    """Ask moderators to look at a comment."""
    with writing(request) as db:
        flag = moderation.report(db, actor, "comment", comment_id, reason.reason)
    return JSONResponse(descriptions.flag(flag), 201)


def _stored(request: Request, actor: Actor, comment_id: int) -> dict[str, Any]:
    """A comment just written, rendered when others may write again."""
    with database_of(request).session() as db:
        return _shown(db, actor, comments.get(db, actor, comment_id))


def _shown(db: Session, actor: Actor, comment: Comment) -> dict[str, Any]:
    paper = db.get_one(Paper, comment.paper_id)
    (view,) = show_comments(db, actor, paper, [comment])
    return descriptions.comment(view) | {"paper": paper.slug}
