"""What readers say with one press, and the preview of texts.

Every form names the state that it leads to, so that sending it twice changes nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Concatenate, Literal, ParamSpec, TypeVar

from fastapi import APIRouter, Depends, Form
from markupsafe import Markup
from pydantic import Field
from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse, Response

from exactformer.studio import web
from exactformer.studio.library import papers
from exactformer.studio.library.tables import Paper
from exactformer.studio.opinions import collections, panel, quick
from exactformer.studio.opinions.views import renderer
from exactformer.studio.security.actor import Actor
from exactformer.studio.web import markup

router = APIRouter()

SentKind = Annotated[web.Clean, Form(max_length=30)]
Said = TypeVar("Said")
P = ParamSpec("P")


class CollectForm(web.FormBody):
    """A collection to put the paper into or take it out of, or the title of a new one."""

    add: Annotated[int, Field(ge=0, le=web.LARGEST)] = 0
    take_out: Annotated[int, Field(ge=0, le=web.LARGEST)] = 0
    title: Annotated[web.Clean, Field(max_length=collections.TITLE_LIMIT)] = ""


class Text(web.Body):
    """Markdown, and the paper whose claims it may mention."""

    text: Annotated[web.Clean, Field(max_length=markup.LIMIT)]
    paper: Annotated[web.Clean, Field(max_length=120)] | None = None


class TextForm(Text, web.FormBody):
    """The same, from a form."""

    text: Annotated[web.Clean, Field(max_length=markup.LIMIT)] = ""


@dataclass(frozen=True)
class Presser:
    """A reader who says something about a paper with one press."""

    write: web.Writer
    slug: str

    def __call__(
        self,
        say: Callable[Concatenate[Session, Actor, Paper, P], Said],
        *args: P.args,
        **kw: P.kwargs,
    ) -> Said:
        """Say it, and return what that gives."""
        with web.writing(self.write.request) as db:
            return say(db, self.write.actor, papers.get(db, self.slug), *args, **kw)

    def bar(self, **state: bool) -> Response:
        """Answer with the bar as it now stands, or the page it stands on."""
        request = self.write.request
        if not web.is_htmx(request):
            return web.redirect(request, f"/papers/{self.slug}#opinions")
        with web.database_of(request).session() as db:
            bar = panel.bar(db, self.write.actor, papers.get(db, self.slug))
        response = web.render(request, "opinions/_bar.html", opinions=bar, **state)
        return web.counted(response, saves=bar.saves.count)


async def _presser(write: web.Write, slug: web.Slug) -> Presser:
    return Presser(write, slug)


Press = Annotated[Presser, Depends(_presser)]


@router.post("/papers/{slug}/vote")
def vote(press: Press, value: Annotated[Literal["-1", "0", "1"], Form()]) -> Response:
    """Like, dislike, or neither."""
    press(quick.vote, int(value))
    return press.bar()


@router.post("/papers/{slug}/reaction")
def react(press: Press, show: SentKind = "", withdraw: SentKind = "") -> Response:
    """Show a reaction or take it back."""
    press(quick.react, show or withdraw, bool(show))
    return press.bar()


@router.post("/papers/{slug}/save")
def save(press: Press, on: web.Switch) -> Response:
    """Keep the paper, or no longer."""
    press(quick.save, on)
    return press.bar()


@router.post("/papers/{slug}/collect")
def collect(press: Press, form: web.Sent[CollectForm]) -> Response:
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


@router.post("/preview", dependencies=web.PREVIEW)
def preview(read: web.Read, form: web.Sent[TextForm]) -> HTMLResponse:
    """Show a text as it would look."""
    return read.render("opinions/_preview.html", html=read(_html, form))


def _html(db: Session, actor: Actor, text: Text) -> Markup:
    actor.require("reader")
    paper = papers.get(db, text.paper) if text.paper else None
    return renderer(db, paper, [text.text])(text.text)
