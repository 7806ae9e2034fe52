"""What readers say with one press: votes, reactions, saves, and into which collection a paper goes.

Every form names the state that it leads to, so that sending it twice changes nothing more.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Form, Path, Request
from pydantic import Field
from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse, Response

from exactformer.studio.library import papers
from exactformer.studio.opinions import collections, panel, reactions, readers, saves, votes
from exactformer.studio.opinions.panel import Bar
from exactformer.studio.opinions.views import renderer
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage.tables import Paper
from exactformer.studio.web import markup
from exactformer.studio.web.rate_limits import PREVIEW
from exactformer.studio.web.request import (
    LARGEST,
    Clean,
    CurrentActor,
    FormBody,
    ReadSession,
    counted,
    is_htmx,
    redirect,
    render,
    writing,
)

router = APIRouter(include_in_schema=False)

Slug = Annotated[Clean, Path(max_length=120)]


class VoteForm(FormBody):
    """The vote to have: like (1), dislike (-1) or none (0)."""

    value: Literal["-1", "0", "1"]


class SaveForm(FormBody):
    """Whether to keep the paper."""

    on: bool


class ReactionForm(FormBody):
    """A reaction to show, or one to take back."""

    show: Annotated[Clean, Field(max_length=30)] = ""
    withdraw: Annotated[Clean, Field(max_length=30)] = ""


class CollectForm(FormBody):
    """A collection to put the paper into or take it out of, or the title of a new one."""

    add: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    take_out: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    title: Annotated[Clean, Field(max_length=collections.TITLE_LIMIT)] = ""


class PreviewForm(FormBody):
    """A text, and the paper it is about."""

    text: Annotated[Clean, Field(max_length=markup.LIMIT)] = ""
    paper: Annotated[Clean, Field(max_length=120)] = ""


@router.post("/papers/{slug}/vote")
def vote(
    request: Request, actor: CurrentActor, slug: Slug, form: Annotated[VoteForm, Form()]
) -> Response:
    """Like, dislike, or neither."""
    with writing(request) as db:
        paper = papers.get(db, slug)
        votes.cast(db, actor, paper, int(form.value))
        return _bar(request, panel.bar(db, actor, paper))


@router.post("/papers/{slug}/reaction")
def react(
    request: Request, actor: CurrentActor, slug: Slug, form: Annotated[ReactionForm, Form()]
) -> Response:
    """Show a reaction or take it back."""
    with writing(request) as db:
        paper = papers.get(db, slug)
        reactions.react(db, actor, paper, form.show or form.withdraw, bool(form.show))
        return _bar(request, panel.bar(db, actor, paper))


@router.post("/papers/{slug}/save")
def save(
    request: Request, actor: CurrentActor, slug: Slug, form: Annotated[SaveForm, Form()]
) -> Response:
    """Keep the paper, or no longer."""
    with writing(request) as db:
        paper = papers.get(db, slug)
        saves.save(db, actor, paper, form.on)
        return _bar(request, panel.bar(db, actor, paper))


@router.post("/papers/{slug}/collect")
def collect(
    request: Request, actor: CurrentActor, slug: Slug, form: Annotated[CollectForm, Form()]
) -> Response:
    """Put the paper into a collection (a new one, if a title is given), or take it out."""
    with writing(request) as db:
        paper = papers.get(db, slug)
        _collect(db, actor, paper, form)
        return _bar(request, panel.bar(db, actor, paper), collecting=True)


@router.post("/preview", dependencies=PREVIEW)
def preview(
    request: Request, actor: CurrentActor, db: ReadSession, form: Annotated[PreviewForm, Form()]
) -> HTMLResponse:
    """Show a text as it would look."""
    actor.require("reader")
    paper = papers.get(db, form.paper) if form.paper else None
    html = renderer(db, paper, [form.text])(form.text)
    return render(request, "opinions/_preview.html", html=html)


@router.get("/readers/{handle}")
def reader(
    request: Request, db: ReadSession, handle: Annotated[Clean, Path(max_length=40)]
) -> HTMLResponse:
    """Show what a reader has written."""
    return render(request, "opinions/reader.html", profile=readers.profile(db, handle))


def _collect(db: Session, actor: Actor, paper: Paper, form: CollectForm) -> None:
    if form.take_out:
        collections.take_out(db, actor, form.take_out, paper.id)
        return
    number = form.add or collections.create(db, actor, form.title).id
    holding = collections.papers(collections.get(db, actor, number))
    if paper not in holding:
        collections.add(db, actor, number, paper)


def _bar(request: Request, bar: Bar, **state: bool) -> Response:
    """The bar as it now stands, or the page it stands on."""
    if is_htmx(request):
        response = render(request, "opinions/_bar.html", opinions=bar, **state)
        return counted(response, saves=bar.saves.count)
    return redirect(request, f"/papers/{bar.paper.slug}#opinions")
