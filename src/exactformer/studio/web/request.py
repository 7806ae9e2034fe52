"""What routes share: who asks, reading and writing, answering with a page, and careful types."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

from fastapi import Depends, Request
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response

from exactformer.studio.errors import InvalidError, StudioError
from exactformer.studio.security import csrf, sessions
from exactformer.studio.security.actor import VISITOR, Actor
from exactformer.studio.security.rates import address, limit
from exactformer.studio.security.sessions import Browser, NewBrowser
from exactformer.studio.settings import Rate, Settings
from exactformer.studio.storage.engine import Database
from exactformer.studio.web.rendering import fill

Answer = TypeVar("Answer", bound=Response)
Given = TypeVar("Given")
P = ParamSpec("P")


async def guard(request: Request) -> AsyncIterator[None]:
    """Before every route: find out who asks, and refuse changes that may be forged."""
    if _token(request) or settings_of(request).single_user:
        await near(request, recognise, request)
    else:
        request.state.browser, request.state.actor = None, VISITOR
    try:
        await csrf.check(request, request.state.browser)
        await _check_fields(request)
        yield
    finally:
        await request.close()  # a form's files


async def _check_fields(request: Request) -> None:
    """Refuse a form with a field that its route does not have: what it holds would be lost."""
    if request.method in csrf.SAFE:
        return
    body = request.scope["route"].body_field  # a model of all that the route reads
    known = {csrf.FIELD, *(body.field_info.annotation.model_fields if body else ())}
    if unknown := sorted((await request.form()).keys() - known):
        raise InvalidError(f"{unknown[0]}: no such field is known; open the page again")


def recognise(request: Request) -> None:
    """Find out whose session a request belongs to."""
    request.state.browser, request.state.actor = None, VISITOR
    token, single_user = _token(request), settings_of(request).single_user
    with database_of(request).connection() as connection:
        browser = sessions.find(connection, token) if token else None
    actor = browser.actor if browser else VISITOR
    if single_user:
        with database_of(request).session() as db:
            actor = sessions.actor_of(sessions.desk(db))
        browser = browser if browser and browser.actor == actor else None
    request.state.browser, request.state.actor = browser, actor


async def near(request: Request, read: Callable[P, Given], *args: P.args, **kw: P.kwargs) -> Given:
    """Read a few rows by their keys: at once from a file, in a thread where a server is asked."""
    if database_of(request).is_sqlite:
        return read(*args, **kw)
    return await run_in_threadpool(read, *args, **kw)


def _token(request: Request) -> str | None:
    return request.cookies.get(sessions.cookie_name(settings_of(request)))


def settings_of(request: Request) -> Settings:
    """What the studio was asked for."""
    settings: Settings = request.app.state.settings
    return settings


def database_of(request: Request) -> Database:
    """The open database."""
    database: Database = request.app.state.database
    return database


async def _actor(request: Request) -> Actor:
    actor: Actor = request.state.actor
    return actor


async def _reading(request: Request) -> AsyncIterator[Session]:
    """A session that is opened by its first query, in the thread of the route."""
    database = database_of(request)
    with database.session() as db:
        yield db
        if not database.is_sqlite:
            await run_in_threadpool(db.close)  # a message to the server: not in everybody's way


CurrentActor = Annotated[Actor, Depends(_actor)]
ReadSession = Annotated[Session, Depends(_reading)]


def writing(request: Request) -> AbstractContextManager[Session]:
    """One transaction, kept when its block ends: before the answer is made."""
    return database_of(request).writing()


@dataclass(frozen=True)
class Writer:
    """Somebody who changes something: what a service does for her, it does in one transaction."""

    request: Request
    actor: Actor

    def __call__(
        self,
        change: Callable[Concatenate[Session, Actor, P], Given],
        *args: P.args,
        **kw: P.kwargs,
    ) -> Given:
        """Call ``change`` with the transaction, the actor, and the rest; return what it returns."""
        with writing(self.request) as db:
            return change(db, self.actor, *args, **kw)


async def _writer(request: Request) -> Writer:
    return Writer(request, request.state.actor)


Write = Annotated[Writer, Depends(_writer)]


def with_session(request: Request) -> Browser:
    """Make sure that the browser has a session, so that its forms can carry a token."""
    browser: Browser | None = request.state.browser
    if browser is None:
        settings = settings_of(request)
        if not settings.single_user:
            limit(request, "new sessions", settings.visit_rate, address(request))
        with writing(request) as db:
            user = sessions.desk(db) if settings.single_user else None
            browser = sessions.begin(db, settings, user, agent(request))
        request.state.browser = browser
    return browser


def agent(request: Request) -> str:
    """What a browser calls itself."""
    return request.headers.get("User-Agent", "")


def render(request: Request, template: str, *, status: int = 200, **context: Any) -> HTMLResponse:
    """Answer with a page; a session made meanwhile is sent along.

    At a desk of one every page has a session; where something has failed, none is begun.
    """
    known = _known(request, begins=status < 500)
    return with_cookie(request, HTMLResponse(fill(template, known | context), status))


def render_form(
    request: Request, template: str, refusal: StudioError | None = None, **context: Any
) -> HTMLResponse:
    """Answer with a form; after a ``refusal`` with its status, and its words as ``problem``."""
    status, problem = (refusal.status, str(refusal)) if refusal else (200, "")
    response = render(request, template, status=status, problem=problem, **context)
    response.headers.update(refusal.headers if refusal else {})
    return response


@dataclass(frozen=True)
class Reader:
    """Somebody who reads: what services find for her, they find in one session."""

    request: Request
    db: Session
    actor: Actor

    def __call__(
        self,
        find: Callable[Concatenate[Session, Actor, P], Given],
        *args: P.args,
        **kw: P.kwargs,
    ) -> Given:
        """Call ``find`` with the session, the actor, and the rest; return what it returns."""
        return find(self.db, self.actor, *args, **kw)

    def render(self, template: str, **context: Any) -> HTMLResponse:
        """Answer with a page."""
        return render(self.request, template, **context)


async def _reader(request: Request, db: ReadSession) -> Reader:
    return Reader(request, db, request.state.actor)


Read = Annotated[Reader, Depends(_reader)]


def _known(request: Request, begins: bool) -> dict[str, Any]:
    """Return what all templates know, with a session for the single user."""
    settings = settings_of(request)
    begins = settings.single_user and begins
    browser = with_session(request) if begins else request.state.browser
    return {
        "actor": request.state.actor,
        "csrf_token": browser.csrf_token if browser else "",
        "settings": settings,
        "single_user": settings.single_user,
        "path": request.url.path,
        "origin_url": str(request.base_url).rstrip("/"),
    }


def with_cookie(request: Request, response: Answer) -> Answer:
    """Send the cookie of a session that this request has made."""
    if isinstance(request.state.browser, NewBrowser):
        sessions.send_cookie(response, settings_of(request), request.state.browser)
    return response


def is_htmx(request: Request) -> bool:
    """Whether a part of a page is asked for, to be put into the one that is open."""
    return request.headers.get("HX-Request") == "true"


def counted(response: Answer, **counts: int) -> Answer:
    """Tell the open page new numbers, which it shows in more than one place."""
    named = {name.replace("_", "-"): number for name, number in counts.items()}
    response.headers["HX-Trigger"] = json.dumps({"studio:counts": named})
    return response


def redirect(request: Request, target: str) -> Response:
    """Go on with another page."""
    if is_htmx(request):
        headers = {"HX-Redirect": quote(target, safe=":/%#?=@[]!$&'()*+,;")}
        return with_cookie(request, Response(status_code=204, headers=headers))
    return with_cookie(request, RedirectResponse(target, 303))


def within(target: str, otherwise: str = "/") -> str:
    """An address to go on with, if it is a path of this site; no other is followed.

    >>> within("/papers/x?q=1"), within("//evil.example"), within("https://evil.example")
    ('/papers/x?q=1', '/', '/')
    """
    plain = target.isprintable() and "\\" not in target
    return target if plain and target.startswith("/") and target[1:2] != "/" else otherwise


def _limited(name: str, rate: Callable[[Settings], Rate]) -> list[Any]:
    """Return the dependency of routes that count against a rate of the settings."""

    def check(request: Request) -> None:
        limit(request, name, rate(settings_of(request)))

    return [Depends(check)]


WRITING = _limited("writing", lambda settings: settings.writing_rate)
"""Dependencies of a route that stores a text or a mark: a flood of comments buries a discussion."""

PREVIEW = _limited("preview", lambda settings: settings.preview_rate)
"""Dependencies of a route that renders a text, which may take a good part of a second."""
