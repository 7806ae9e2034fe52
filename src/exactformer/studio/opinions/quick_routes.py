"""What readers say with one press, and the preview of texts; pages, then the same for programs.

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
from exactformer.studio.opinions.tables import REACTIONS
from exactformer.studio.opinions.views import renderer
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage.tables import Paper
from exactformer.studio.web import markup
from exactformer.studio.web.rate_limits import PREVIEW
from exactformer.studio.web.request import (
    CurrentActor,
    ReadSession,
    counted,
    is_htmx,
    redirect,
    render,
    writing,
)
from exactformer.studio.web.types import (
    LARGEST,
    Body,
    Clean,
    FormBody,
    Listing,
    Out,
    Paging,
    Slug,
    listing,
)

pages = APIRouter(include_in_schema=False)


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


@pages.post("/papers/{slug}/vote")
def vote(
    request: Request, actor: CurrentActor, slug: Slug, form: Annotated[VoteForm, Form()]
) -> Response:
    """Like, dislike, or neither."""
    with writing(request) as db:
        paper = papers.get(db, slug)
        votes.cast(db, actor, paper, int(form.value))
        return _bar(request, panel.bar(db, actor, paper))


@pages.post("/papers/{slug}/reaction")
def react(
    request: Request, actor: CurrentActor, slug: Slug, form: Annotated[ReactionForm, Form()]
) -> Response:
    """Show a reaction or take it back."""
    with writing(request) as db:
        paper = papers.get(db, slug)
        reactions.react(db, actor, paper, form.show or form.withdraw, bool(form.show))
        return _bar(request, panel.bar(db, actor, paper))


@pages.post("/papers/{slug}/save")
def save(
    request: Request, actor: CurrentActor, slug: Slug, form: Annotated[SaveForm, Form()]
) -> Response:
    """Keep the paper, or no longer."""
    with writing(request) as db:
        paper = papers.get(db, slug)
        saves.save(db, actor, paper, form.on)
        return _bar(request, panel.bar(db, actor, paper))


@pages.post("/papers/{slug}/collect")
def collect(
    request: Request, actor: CurrentActor, slug: Slug, form: Annotated[CollectForm, Form()]
) -> Response:
    """Put the paper into a collection (a new one, if a title is given), or take it out."""
    with writing(request) as db:
        paper = papers.get(db, slug)
        _collect(db, actor, paper, form)
        return _bar(request, panel.bar(db, actor, paper), collecting=True)


@pages.post("/preview", dependencies=PREVIEW)
def preview(
    request: Request, actor: CurrentActor, db: ReadSession, form: Annotated[PreviewForm, Form()]
) -> HTMLResponse:
    """Show a text as it would look."""
    actor.require("reader")
    paper = papers.get(db, form.paper) if form.paper else None
    html = renderer(db, paper, [form.text])(form.text)
    return render(request, "opinions/_preview.html", html=html)


@pages.get("/readers/{handle}")
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


api = APIRouter(prefix="/api/v1", tags=["opinions"])

Kind = Annotated[Clean, Path(max_length=30, description=f"One of {', '.join(REACTIONS)}.")]


ReactionsOut = Listing[reactions.ReactionCount]


class SavedOut(Out):
    """A paper that a reader keeps."""

    slug: str
    title: str


class HtmlOut(Out):
    """A text as it would be shown."""

    html: str


class NewVote(Body):
    """Like (1), dislike (-1) or neither (0)."""

    value: Literal[-1, 0, 1]


class Text(Body):
    """Markdown, and the paper whose claims it may mention."""

    text: Annotated[Clean, Field(max_length=markup.LIMIT)]
    paper: Annotated[Clean, Field(max_length=120)] | None = None


@api.get("/papers/{slug}/votes")
def read_votes(db: ReadSession, actor: CurrentActor, slug: Slug) -> votes.Tally:
    """How a paper is liked."""
    return votes.tally(db, actor, papers.get(db, slug))


@api.put("/papers/{slug}/votes")
def api_vote(request: Request, actor: CurrentActor, slug: Slug, vote: NewVote) -> votes.Tally:
    """Set one's vote; the same again changes nothing."""
    with writing(request) as db:
        return votes.cast(db, actor, papers.get(db, slug), vote.value)


@api.get("/papers/{slug}/reactions")
def read_reactions(db: ReadSession, actor: CurrentActor, slug: Slug) -> ReactionsOut:
    """How many react in each way."""
    return _reactions(reactions.tally(db, actor, papers.get(db, slug)))


@api.put("/papers/{slug}/reactions/{kind}")
def api_react(request: Request, actor: CurrentActor, slug: Slug, kind: Kind) -> ReactionsOut:
    """Show a reaction; the same again changes nothing."""
    with writing(request) as db:
        return _reactions(reactions.react(db, actor, papers.get(db, slug), kind, True))


@api.delete("/papers/{slug}/reactions/{kind}")
def withdraw(request: Request, actor: CurrentActor, slug: Slug, kind: Kind) -> ReactionsOut:
    """Take a reaction back."""
    with writing(request) as db:
        return _reactions(reactions.react(db, actor, papers.get(db, slug), kind, False))


@api.get("/papers/{slug}/saves")
def read_saves(db: ReadSession, actor: CurrentActor, slug: Slug) -> saves.SaveCount:
    """How many readers keep a paper."""
    return saves.tally(db, actor, papers.get(db, slug))


@api.put("/papers/{slug}/saves")
def api_save(request: Request, actor: CurrentActor, slug: Slug) -> saves.SaveCount:
    """Keep a paper for later."""
    with writing(request) as db:
        return saves.save(db, actor, papers.get(db, slug), True)


@api.delete("/papers/{slug}/saves")
def forget(request: Request, actor: CurrentActor, slug: Slug) -> saves.SaveCount:
    """Keep a paper no longer."""
    with writing(request) as db:
        return saves.save(db, actor, papers.get(db, slug), False)


@api.get("/saves")
def saved(db: ReadSession, actor: CurrentActor, paging: Paging) -> Listing[SavedOut]:
    """The papers one keeps."""
    found = saves.saved(db, actor, paging.limit, paging.offset)
    return listing(map(SavedOut.model_validate, found.items), found.total)


@api.post("/markup", dependencies=PREVIEW)
def api_preview(db: ReadSession, actor: CurrentActor, text: Text) -> HtmlOut:
    """Render a text as it would be shown."""
    actor.require("reader")
    paper = papers.get(db, text.paper) if text.paper else None
    return HtmlOut(html=str(renderer(db, paper, [text.text])(text.text)))


def _reactions(counts: tuple[reactions.ReactionCount, ...]) -> ReactionsOut:
    return listing(counts, len(counts))


routers = (pages, api)
