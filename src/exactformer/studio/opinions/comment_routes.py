"""Discussion: threads, answers, edits with history, deletion."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import HTMLResponse, Response

from exactformer.studio import web
from exactformer.studio.errors import ConflictError, InvalidError, StudioError, TooLargeError
from exactformer.studio.library import papers
from exactformer.studio.library.tables import Paper
from exactformer.studio.opinions import comments, threads
from exactformer.studio.opinions.comments import COMMENTS, LIMIT, CommentDraft
from exactformer.studio.opinions.tables import Comment
from exactformer.studio.opinions.text_routes import TextRoutes
from exactformer.studio.opinions.texts import ChangedMeanwhileError
from exactformer.studio.opinions.views import show_comments
from exactformer.studio.security.actor import Actor
from exactformer.studio.web import markup

pages = APIRouter()

Anchor = Annotated[web.Clean, Query(max_length=60)]
Filter = Literal["", "note", "caveat", "replication", "question"]


class CommentForm(CommentDraft, web.FormBody):
    """A comment, what it answers, and the revision from which an edit started, or 0."""

    body: web.Clean = ""
    parent_id: Annotated[int, Field(ge=0, le=web.LARGEST)] = 0
    revision: Annotated[int, Field(ge=0, le=web.LARGEST)] = 0
    claim: Annotated[web.Clean, Field(max_length=60)] = ""
    """The anchor of the claim in whose discussion the form stands."""

    def draft(self) -> CommentDraft:
        """What the service takes; a comment written under a claim mentions it."""
        body = self.body
        named = markup.mentions(body[: markup.LIMIT]).anchors if self.claim else frozenset()
        if self.claim and body.strip() and self.claim not in named:
            body = f"#{self.claim} {body}"
        return CommentDraft(body=body, kind=self.kind)


@pages.get("/papers/{slug}/discussion")
def read_all(
    read: web.Read,
    slug: web.Slug,
    kind: Filter = "",
    claim: Anchor = "",
    page: web.PageNumber = 1,
    sort: threads.Sort = "newest",
) -> HTMLResponse:
    """The discussion of a paper: by threads, of one kind, or about one claim."""
    paper = papers.get(read.db, slug)
    wanted: dict[str, Any] = {"kind": kind or None, "claim": claim or None}
    found = read(threads.discussion, paper, **wanted, page=page, sort=sort)
    partial = web.is_htmx(read.request)
    template = "opinions/_talk.html" if partial else "opinions/discussion.html"
    return read.render(template, paper=paper, discussion=found)


@pages.post("/papers/{slug}/comments", dependencies=web.WRITING)
def write(
    request: Request, actor: web.CurrentActor, slug: web.Slug, form: web.Sent[CommentForm]
) -> Response:
    """Write a comment or an answer."""
    try:
        with web.writing(request) as db:
            paper = papers.get(db, slug)
            written = comments.write(db, actor, paper, form.draft(), form.parent_id or None)
    except StudioError as refusal:
        return _give_back(request, actor, slug, form, refusal)
    return _written(request, actor, paper, written, form.claim)


@pages.get("/comments/{comment_id}")
def read_one(read: web.Read, comment_id: web.Identifier, reported: bool = False) -> HTMLResponse:
    """A comment with its answers; after reporting it, with thanks."""
    comment = read(comments.get, comment_id)
    thread = read(threads.thread, comment.paper, comment)
    return read.render(
        "opinions/comment.html", paper=comment.paper, thread=thread, reported=reported
    )


@pages.get("/comments/{comment_id}/answer")
def answer_form(read: web.Read, comment_id: web.Identifier) -> HTMLResponse:
    """The form for an answer."""
    read.actor.require("reader")
    comment = read(comments.get, comment_id)
    return _form(read, comment.paper, CommentForm(parent_id=comment.id))


@pages.get("/comments/{comment_id}/edit")
def edit_form(read: web.Read, comment_id: web.Identifier) -> HTMLResponse:
    """The form for a new version of one's comment."""
    read.actor.require("reader")
    comment = read(comments.editable, comment_id)
    form = CommentForm(body=comment.body, kind=comment.kind, revision=comment.revision)
    return _form(read, comment.paper, form, edited=comment)


@pages.post("/comments/{comment_id}/edit", dependencies=web.WRITING)
def edit(
    request: Request,
    actor: web.CurrentActor,
    comment_id: web.Identifier,
    form: web.Sent[CommentForm],
) -> Response:
    """Write a new version of one's comment."""
    try:
        with web.writing(request) as db:
            comments.edit(db, actor, comment_id, form.draft(), form.revision)
    except (ConflictError, InvalidError, TooLargeError) as refusal:
        with web.database_of(request).session() as db:
            comment = comments.get(db, actor, comment_id)
            form.revision = comment.revision
            read = web.Reader(request, db, actor)
            return _form(read, comment.paper, form, edited=comment, refusal=refusal)
    return _changed(request, actor, comment_id)


def _written(
    request: Request, actor: Actor, paper: Paper, comment: Comment, claim: str
) -> Response:
    """After writing: the discussion with the new comment, or the new reply alone.

    Texts are rendered when others may write again.
    """
    if not web.is_htmx(request):
        place = f"/comments/{comment.id}" if comment.parent_id else f"/papers/{paper.slug}"
        about = f"/claims/{quote(claim)}" if claim and not comment.parent_id else ""
        return web.redirect(request, f"{place}{about}#comment-{comment.id}")
    with web.database_of(request).session() as db:
        known = (
            claim if claim in {each.anchor for each in papers.get(db, paper.slug).claims} else ""
        )
        found = threads.discussion(db, actor, paper, claim=known or None)
        if comment.parent_id is None:
            response = web.render(request, "opinions/_talk.html", paper=paper, discussion=found)
            response.headers.update({"HX-Retarget": "#discussion", "HX-Reswap": "outerHTML"})
        else:
            answer = threads.thread(db, actor, paper, comment)
            response = web.render(request, "opinions/_answer.html", paper=paper, thread=answer)
            target = f"#answers-{comment.parent_id}"
            response.headers.update({"HX-Retarget": target, "HX-Reswap": "beforeend"})
    kinds = {f"comments-{kind}": number for kind, number in found.kinds.items()}
    return web.counted(response, comments=found.total, **kinds)


def _changed(request: Request, actor: Actor, comment_id: int) -> Response:
    """After a change: the comment as it now stands."""
    if not web.is_htmx(request):
        return web.redirect(request, f"/comments/{comment_id}#comment-{comment_id}")
    with web.database_of(request).session() as db:
        comment = comments.get(db, actor, comment_id)
        (view,) = show_comments(db, actor, comment.paper, [comment])
    response = web.render(request, "opinions/_changed.html", paper=comment.paper, comment=view)
    response.headers.update({"HX-Retarget": f"#comment-{comment_id}", "HX-Reswap": "outerHTML"})
    return response


def _form(
    read: web.Reader,
    paper: Paper,
    form: CommentForm,
    *,
    edited: Comment | None = None,
    refusal: StudioError | None = None,
) -> HTMLResponse:
    request = read.request
    answered = read.db.get(Comment, form.parent_id) if form.parent_id else None
    shown = read(show_comments, paper, [answered]) if answered else ()
    name = f"edit-{edited.id}" if edited else f"answer-{form.parent_id}"
    conflict = isinstance(refusal, ChangedMeanwhileError)
    response = web.render_form(
        request,
        "opinions/_comment_form.html" if web.is_htmx(request) else "opinions/comment_form.html",
        refusal,
        paper=paper,
        form=form,
        name=name,
        edited=edited,
        answered=shown[0] if shown else None,
        standing=edited.body if conflict and edited else None,
        limit=LIMIT,
    )
    if refusal and web.is_htmx(request):
        response.headers.update({"HX-Retarget": f"#form-{name}", "HX-Reswap": "outerHTML"})
    return response


def _give_back(
    request: Request, actor: Actor, slug: str, form: CommentForm, refusal: StudioError
) -> HTMLResponse:
    """Show the form again with the text and what was wrong."""
    actor.require("reader")
    with web.database_of(request).session() as db:
        read = web.Reader(request, db, actor)
        return _form(read, papers.get(db, slug), form, refusal=refusal)


def _removed(request: Request, actor: Actor, comment: Comment, slug: str) -> Response:
    if web.is_htmx(request):
        return _changed(request, actor, comment.id)
    return web.redirect(request, f"/papers/{slug}#discussion")


LABELS = {"body": "Text", "kind": "Kind"}
_shared = TextRoutes(COMMENTS, show_comments, LABELS, _removed)


routers = (pages, _shared.pages())
