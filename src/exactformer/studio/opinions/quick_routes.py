"""What readers say with one press, and the preview of texts; each page beside its JSON route.

Every form names the state that it leads to, so that sending it twice changes nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Concatenate, Literal, ParamSpec, TypeVar

from fastapi import APIRouter, Depends, Path, Request
from markupsafe import Markup
from pydantic import Field
from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse, Response

from exactformer.studio.library import papers
from exactformer.studio.library.tables import Paper
from exactformer.studio.opinions import collections, panel, quick, readers
from exactformer.studio.opinions.tables import REACTIONS
from exactformer.studio.opinions.views import renderer
from exactformer.studio.security.actor import Actor
from exactformer.studio.web import markup
from exactformer.studio.web.request import (
    PREVIEW,
    CurrentActor,
    ReadSession,
    Write,
    Writer,
    counted,
    database_of,
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
    Sent,
    Slug,
    listing,
)

pages = APIRouter(include_in_schema=False)
api = APIRouter(prefix="/api/v1", tags=["opinions"])

Kind = Annotated[Clean, Path(max_length=30, description=f"One of {', '.join(REACTIONS)}.")]
ReactionsOut = Listing[quick.ReactionCount]
Said = TypeVar("Said")
P = ParamSpec("P")


class VoteForm(FormBody):
    """The vote to have: like (1), dislike (-1) or none (0)."""

    value: Literal["-1", "0", "1"]


class NewVote(Body):
    """Like (1), dislike (-1) or neither (0)."""

    value: Literal[-1, 0, 1]


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


class Text(Body):
    """Markdown, and the paper whose claims it may mention."""

    text: Annotated[Clean, Field(max_length=markup.LIMIT)]
    paper: Annotated[Clean, Field(max_length=120)] | None = None


class TextForm(Text, FormBody):
    """The same, from a form."""

    text: Annotated[Clean, Field(max_length=markup.LIMIT)] = ""


class SavedOut(Out):
    """A paper that a reader keeps."""

    slug: str
    title: str


class HtmlOut(Out):
    """A text as it would be shown."""

    html: str


@dataclass(frozen=True)
class Presser:
    """A reader who says something about a paper with one press."""

    write: Writer
    slug: str

    def __call__(
        self,
        say: Callable[Concatenate[Session, Actor, Paper, P], Said],
        *args: P.args,
        **kw: P.kwargs,
    ) -> Said:
        """Say it, and return what that gives."""
        with writing(self.write.request) as db:
            return say(db, self.write.actor, papers.get(db, self.slug), *args, **kw)

    def bar(self, **state: bool) -> Response:
        """Answer with the bar as it now stands, or the page it stands on."""
        request = self.write.request
        if not is_htmx(request):
            return redirect(request, f"/papers/{self.slug}#opinions")
        with database_of(request).session() as db:
            bar = panel.bar(db, self.write.actor, papers.get(db, self.slug))
        response = render(request, "opinions/_bar.html", opinions=bar, **state)
        return counted(response, saves=bar.saves.count)


async def _presser(write: Write, slug: Slug) -> Presser:
    return Presser(write, slug)


Press = Annotated[Presser, Depends(_presser)]


@pages.post("/papers/{slug}/vote")
def vote(press: Press, form: Sent[VoteForm]) -> Response:
    """Like, dislike, or neither."""
    press(quick.vote, int(form.value))
    return press.bar()


@api.put("/papers/{slug}/votes")
def api_vote(press: Press, vote: NewVote) -> quick.Tally:
    """Set one's vote; the same again changes nothing."""
    return press(quick.vote, vote.value)


@api.get("/papers/{slug}/votes")
def read_votes(db: ReadSession, actor: CurrentActor, slug: Slug) -> quick.Tally:
    """How a paper is liked."""
    return quick.votes(db, actor, papers.get(db, slug))


@pages.post("/papers/{slug}/reaction")
def react(press: Press, form: Sent[ReactionForm]) -> Response:
    """Show a reaction or take it back."""
    press(quick.react, form.show or form.withdraw, bool(form.show))
    return press.bar()


@api.put("/papers/{slug}/reactions/{kind}")
def api_react(press: Press, kind: Kind) -> ReactionsOut:
    """Show a reaction; the same again changes nothing."""
    return _reactions(press(quick.react, kind, True))


@api.delete("/papers/{slug}/reactions/{kind}")
def withdraw(press: Press, kind: Kind) -> ReactionsOut:
    """Take a reaction back."""
    return _reactions(press(quick.react, kind, False))


@api.get("/papers/{slug}/reactions")
def read_reactions(db: ReadSession, actor: CurrentActor, slug: Slug) -> ReactionsOut:
    """How many react in each way."""
    return _reactions(quick.reactions(db, actor, papers.get(db, slug)))


def _reactions(counts: tuple[quick.ReactionCount, ...]) -> ReactionsOut:
    return listing(counts, len(counts))


@pages.post("/papers/{slug}/save")
def save(press: Press, form: Sent[SaveForm]) -> Response:
    """Keep the paper, or no longer."""
    press(quick.save, form.on)
    return press.bar()


@api.put("/papers/{slug}/saves")
def api_save(press: Press) -> quick.SaveCount:
    """Keep a paper for later."""
    return press(quick.save, True)


@api.delete("/papers/{slug}/saves")
def forget(press: Press) -> quick.SaveCount:
    """Keep a paper no longer."""
    return press(quick.save, False)


@api.get("/papers/{slug}/saves")
def read_saves(db: ReadSession, actor: CurrentActor, slug: Slug) -> quick.SaveCount:
    """How many readers keep a paper."""
    return quick.saves(db, actor, papers.get(db, slug))


@api.get("/saves")
def saved(db: ReadSession, actor: CurrentActor, paging: Paging) -> Listing[SavedOut]:
    """The papers one keeps."""
    found = quick.saved(db, actor, paging.limit, paging.offset)
    return listing(map(SavedOut.model_validate, found.items), found.total)


@pages.post("/papers/{slug}/collect")
def collect(press: Press, form: Sent[CollectForm]) -> Response:
    """Put the paper into a collection (a new one, if a title is given), or take it out."""
    press(_collect, form)
    return press.bar(collecting=True)


def _collect(db: Session, actor: Actor, paper: Paper, form: CollectForm) -> None:
    if form.take_out:
        collections.take_out(db, actor, form.take_out, paper.id)
        return
    number = form.add or collections.create(db, actor, form.title).id
    holding = collections.papers(collections.get(db, actor, number))
    if paper not in holding:
        collections.add(db, actor, number, paper)


@pages.post("/preview", dependencies=PREVIEW)
def preview(
    request: Request, actor: CurrentActor, db: ReadSession, form: Sent[TextForm]
) -> HTMLResponse:
    """Show a text as it would look."""
    return render(request, "opinions/_preview.html", html=_html(db, actor, form))


@api.post("/markup", dependencies=PREVIEW)
def api_preview(db: ReadSession, actor: CurrentActor, text: Text) -> HtmlOut:
    """Render a text as it would be shown."""
    return HtmlOut(html=str(_html(db, actor, text)))


def _html(db: Session, actor: Actor, text: Text) -> Markup:
    actor.require("reader")
    paper = papers.get(db, text.paper) if text.paper else None
    return renderer(db, paper, [text.text])(text.text)


@pages.get("/readers/{handle}")
def reader(
    request: Request, db: ReadSession, handle: Annotated[Clean, Path(max_length=40)]
) -> HTMLResponse:
    """Show what a reader has written."""
    return render(request, "opinions/reader.html", profile=readers.profile(db, handle))


routers = (pages, api)
