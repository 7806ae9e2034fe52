"""Discussion: threads, answers, edits with history, deletion; each page beside its JSON route."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from pydantic import Field
from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse, Response

from exactformer.studio.errors import ConflictError, InvalidError, StudioError, TooLargeError
from exactformer.studio.library import papers
from exactformer.studio.library.tables import Paper
from exactformer.studio.opinions import comments, threads
from exactformer.studio.opinions.comments import COMMENTS, LIMIT, CommentDraft
from exactformer.studio.opinions.models import CommentOut, CommentVersionOut
from exactformer.studio.opinions.tables import Comment
from exactformer.studio.opinions.text_routes import TextRoutes
from exactformer.studio.opinions.texts import ChangedMeanwhileError
from exactformer.studio.opinions.views import show_comments
from exactformer.studio.security.actor import Actor
from exactformer.studio.web import markup
from exactformer.studio.web.request import (
    WRITING,
    CurrentActor,
    ReadSession,
    Write,
    counted,
    database_of,
    is_htmx,
    redirect,
    render,
    writing,
)
from exactformer.studio.web.types import (
    LARGEST,
    Clean,
    FormBody,
    Identifier,
    Listing,
    PageNumber,
    Paging,
    Sent,
    Slug,
    listing,
)

pages = APIRouter(include_in_schema=False)
api = APIRouter(prefix="/api/v1", tags=["comments"])

Anchor = Annotated[Clean, Query(max_length=60)]
Kind = Literal["note", "caveat", "replication", "question"]
Filter = Literal["", "note", "caveat", "replication", "question"]


class CommentForm(CommentDraft, FormBody):
    """A comment, what it answers, and the revision from which an edit started, or 0."""

    body: Clean = ""
    parent_id: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    revision: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    claim: Annotated[Clean, Field(max_length=60)] = ""
    """The anchor of the claim in whose discussion the form stands."""

    def draft(self) -> CommentDraft:
        """What the service takes; a comment written under a claim mentions it."""
        body = self.body
        if self.claim and body.strip() and self.claim not in _named(body):
            body = f"#{self.claim} {body}"
        return CommentDraft(body=body, kind=self.kind)


def _named(body: str) -> frozenset[str]:
    return markup.mentions(body[: markup.LIMIT]).anchors


class NewComment(CommentDraft):
    """A comment, or an answer to another."""

    parent_id: Identifier | None = None


class EditedComment(CommentDraft):
    """A comment, and the revision from which the edit started."""

    revision: Identifier


@pages.get("/papers/{slug}/discussion")
def read_all(
    request: Request,
    db: ReadSession,
    actor: CurrentActor,
    slug: Slug,
    kind: Filter = "",
    claim: Anchor = "",
    page: PageNumber = 1,
    sort: Literal["newest", "replies"] = "newest",
) -> HTMLResponse:
    """The discussion of a paper: by threads, of one kind, or about one claim."""
    paper = papers.get(db, slug)
    wanted: dict[str, Any] = {"kind": kind or None, "claim": claim or None}
    found = threads.discussion(db, actor, paper, **wanted, page=page, sort=sort)
    partial = is_htmx(request)
    template = "opinions/_talk.html" if partial else "opinions/discussion.html"
    return render(request, template, paper=paper, discussion=found)


@api.get("/papers/{slug}/comments")
def list_comments(
    db: ReadSession,
    actor: CurrentActor,
    slug: Slug,
    paging: Paging,
    kind: Kind | None = None,
    claim: Anchor | None = None,
) -> Listing[CommentOut]:
    """Comments on a paper, the newest first; answers name what they answer."""
    paper = papers.get(db, slug)
    found = threads.single(db, actor, paper, kind, claim, paging.limit, paging.offset)
    return listing((CommentOut.of(view, slug) for view in found.items), found.total)


@pages.post("/papers/{slug}/comments", dependencies=WRITING)
def write(request: Request, actor: CurrentActor, slug: Slug, form: Sent[CommentForm]) -> Response:
    """Write a comment or an answer."""
    try:
        with writing(request) as db:
            paper = papers.get(db, slug)
            written = comments.write(db, actor, paper, form.draft(), form.parent_id or None)
    except StudioError as refusal:
        return _give_back(request, actor, slug, form, refusal)
    return _written(request, actor, paper, written, form.claim)


@api.post(
    "/papers/{slug}/comments", dependencies=WRITING, status_code=201, response_model=CommentOut
)
def create(write: Write, slug: Slug, comment: NewComment) -> Any:
    """Write a comment."""
    with writing(write.request) as db:
        paper = papers.get(db, slug)
        written = comments.write(db, write.actor, paper, comment, comment.parent_id)
    return _shared.stored(write, written.id)


@pages.get("/comments/{comment_id}")
def read(
    request: Request,
    db: ReadSession,
    actor: CurrentActor,
    comment_id: Identifier,
    reported: bool = False,
) -> HTMLResponse:
    """A comment with its answers; after reporting it, with thanks."""
    comment = comments.get(db, actor, comment_id)
    thread = threads.thread(db, actor, comment.paper, comment)
    return render(
        request, "opinions/comment.html", paper=comment.paper, thread=thread, reported=reported
    )


@pages.get("/comments/{comment_id}/answer")
def answer_form(
    request: Request, db: ReadSession, actor: CurrentActor, comment_id: Identifier
) -> HTMLResponse:
    """The form for an answer."""
    actor.require("reader")
    comment = comments.get(db, actor, comment_id)
    return _form(request, db, actor, comment.paper, CommentForm(parent_id=comment.id))


@pages.get("/comments/{comment_id}/edit")
def edit_form(
    request: Request, db: ReadSession, actor: CurrentActor, comment_id: Identifier
) -> HTMLResponse:
    """The form for a new version of one's comment."""
    actor.require("reader")
    comment = comments.editable(db, actor, comment_id)
    form = CommentForm(body=comment.body, kind=comment.kind, revision=comment.revision)
    return _form(request, db, actor, comment.paper, form, edited=comment)


@pages.post("/comments/{comment_id}/edit", dependencies=WRITING)
def edit(
    request: Request,
    actor: CurrentActor,
    comment_id: Identifier,
    form: Sent[CommentForm],
) -> Response:
    """Write a new version of one's comment."""
    try:
        with writing(request) as db:
            comments.edit(db, actor, comment_id, form.draft(), form.revision)
    except (ConflictError, InvalidError, TooLargeError) as refusal:
        with database_of(request).session() as db:
            comment = comments.get(db, actor, comment_id)
            form.revision = comment.revision
            return _form(request, db, actor, comment.paper, form, edited=comment, refusal=refusal)
    return _changed(request, actor, comment_id)


def _written(
    request: Request, actor: Actor, paper: Paper, comment: Comment, claim: str
) -> Response:
    """After writing: the discussion with the new comment, or the new reply alone.

    Texts are rendered when others may write again.
    """
    if not is_htmx(request):
        place = f"/comments/{comment.id}" if comment.parent_id else f"/papers/{paper.slug}"
        about = f"/claims/{quote(claim)}" if claim and not comment.parent_id else ""
        return redirect(request, f"{place}{about}#comment-{comment.id}")
    with database_of(request).session() as db:
        known = (
            claim if claim in {each.anchor for each in papers.get(db, paper.slug).claims} else ""
        )
        found = threads.discussion(db, actor, paper, claim=known or None)
        if comment.parent_id is None:
            response = render(request, "opinions/_talk.html", paper=paper, discussion=found)
            response.headers.update({"HX-Retarget": "#discussion", "HX-Reswap": "outerHTML"})
        else:
            answer = threads.thread(db, actor, paper, comment)
            response = render(request, "opinions/_answer.html", paper=paper, thread=answer)
            target = f"#answers-{comment.parent_id}"
            response.headers.update({"HX-Retarget": target, "HX-Reswap": "beforeend"})
    kinds = {f"comments-{kind}": number for kind, number in found.kinds.items()}
    return counted(response, comments=found.total, **kinds)


def _changed(request: Request, actor: Actor, comment_id: int) -> Response:
    """After a change: the comment as it now stands."""
    if not is_htmx(request):
        return redirect(request, f"/comments/{comment_id}#comment-{comment_id}")
    with database_of(request).session() as db:
        comment = comments.get(db, actor, comment_id)
        (view,) = show_comments(db, actor, comment.paper, [comment])
    response = render(request, "opinions/_changed.html", paper=comment.paper, comment=view)
    response.headers.update({"HX-Retarget": f"#comment-{comment_id}", "HX-Reswap": "outerHTML"})
    return response


def _form(
    request: Request,
    db: Session,
    actor: Actor,
    paper: Paper,
    form: CommentForm,
    *,
    edited: Comment | None = None,
    refusal: StudioError | None = None,
) -> HTMLResponse:
    answered = db.get(Comment, form.parent_id) if form.parent_id else None
    shown = show_comments(db, actor, paper, [answered]) if answered else ()
    name = f"edit-{edited.id}" if edited else f"answer-{form.parent_id}"
    conflict = isinstance(refusal, ChangedMeanwhileError)
    response = render(
        request,
        "opinions/_comment_form.html" if is_htmx(request) else "opinions/comment_form.html",
        status=refusal.status if refusal else 200,
        paper=paper,
        form=form,
        name=name,
        edited=edited,
        answered=shown[0] if shown else None,
        standing=edited.body if conflict and edited else None,
        problem=str(refusal) if refusal else "",
        limit=LIMIT,
    )
    if refusal and is_htmx(request):
        response.headers.update({"HX-Retarget": f"#form-{name}", "HX-Reswap": "outerHTML"})
    return response


def _give_back(
    request: Request, actor: Actor, slug: str, form: CommentForm, refusal: StudioError
) -> HTMLResponse:
    """Show the form again with the text and what was wrong."""
    actor.require("reader")
    with database_of(request).session() as db:
        return _form(request, db, actor, papers.get(db, slug), form, refusal=refusal)


def _described(db: Session, actor: Actor, comment: Comment) -> CommentOut:
    (view,) = show_comments(db, actor, comment.paper, [comment])
    return CommentOut.of(view, comment.paper.slug)


def _removed(request: Request, actor: Actor, comment: Comment, slug: str) -> Response:
    if is_htmx(request):
        return _changed(request, actor, comment.id)
    return redirect(request, f"/papers/{slug}#discussion")


LABELS = {"body": "Text", "kind": "Kind"}
_shared = TextRoutes(
    COMMENTS, EditedComment, CommentOut, CommentVersionOut, _described, LABELS, _removed
)


routers = (pages, _shared.pages(), api, _shared.api("comments"))
