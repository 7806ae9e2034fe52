"""What routes share: who asks, reading and writing, answering with a page, and careful types."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

from fastapi import Depends, Query, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response

from exactformer.studio.accounts import service as accounts
from exactformer.studio.security import csrf, sessions
from exactformer.studio.security.actor import VISITOR, Actor
from exactformer.studio.security.rates import address, limit
from exactformer.studio.security.sessions import Browser, NewBrowser
from exactformer.studio.settings import Settings
from exactformer.studio.storage.engine import Database
from exactformer.studio.web.rendering import fill

LARGEST = 2**31 - 1
UNSTORABLE = re.compile(r"[\0\ud800-\udfff]")
Answer = TypeVar("Answer", bound=Response)


async def guard(request: Request) -> AsyncIterator[None]:
    """Before every route: find out who asks, and refuse changes that may be forged."""
    if _token(request) or settings_of(request).single_user:
        await run_in_threadpool(recognise, request)
    else:
        request.state.browser, request.state.actor = None, VISITOR
    try:
        await csrf.check(request, request.state.browser)
        yield
    finally:
        await request.close()  # a form's files


def recognise(request: Request) -> None:
    """Find out whose session a request belongs to."""
    request.state.browser, request.state.actor = None, VISITOR
    token, single_user = _token(request), settings_of(request).single_user
    with database_of(request).session() as db:
        browser = sessions.find(db, token) if token else None
        actor = browser.actor if browser else VISITOR
        if single_user:
            actor = sessions.actor_of(accounts.desk(db))
            browser = browser if browser and browser.actor == actor else None
    request.state.browser, request.state.actor = browser, actor


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


def _actor(request: Request) -> Actor:
    actor: Actor = request.state.actor
    return actor


def _reading(request: Request) -> Iterator[Session]:
    with database_of(request).session() as db:
        yield db


CurrentActor = Annotated[Actor, Depends(_actor)]
ReadSession = Annotated[Session, Depends(_reading)]


def writing(request: Request) -> AbstractContextManager[Session]:
    """One transaction, kept when its block ends: before the answer is made."""
    return database_of(request).writing()


def with_session(request: Request) -> Browser:
    """Make sure that the browser has a session, so that its forms can carry a token."""
    browser: Browser | None = request.state.browser
    if browser is None:
        settings = settings_of(request)
        if not settings.single_user:
            limit(request, "new sessions", settings.visit_rate, address(request))
        with writing(request) as db:
            user = accounts.desk(db) if settings.single_user else None
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
    settings = settings_of(request)
    begins = settings.single_user and status < 500
    browser = with_session(request) if begins else request.state.browser
    known = {
        "actor": request.state.actor,
        "csrf_token": browser.csrf_token if browser else "",
        "settings": settings,
        "single_user": settings.single_user,
        "path": request.url.path,
        "origin_url": str(request.base_url).rstrip("/"),
    }
    response = HTMLResponse(fill(template, known | context), status)
    return with_cookie(request, response)


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


def _storable(text: str) -> str:
    if UNSTORABLE.search(text):
        raise ValueError("a text may not contain NUL or half of a character")
    return text


Clean = Annotated[str, AfterValidator(_storable)]
Identifier = Annotated[int, Field(ge=1, le=LARGEST)]


class Body(BaseModel):
    """Parent of what programs send: nothing unknown, nothing silently turned into another type."""

    model_config = ConfigDict(extra="forbid")


class FormBody(Body):
    """Parent of what forms send: they carry their token as a field."""

    csrf_token: str = ""


@dataclass(frozen=True)
class Window:
    """The part of a list that is asked for."""

    limit: int
    offset: int


def _window(
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    offset: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
) -> Window:
    return Window(limit, offset)


Paging = Annotated[Window, Depends(_window)]


def listing(items: Iterable[Any], total: int) -> dict[str, Any]:
    """The form all lists have."""
    return {"items": list(items), "total": total}
