"""The session as programs see it: ask for one, log in, log out."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import JSONResponse

from exactformer.studio.accounts.authentication import log_in, log_out
from exactformer.studio.security.passwords import LONGEST
from exactformer.studio.web.request import Body, Clean, with_cookie, with_session

router = APIRouter(prefix="/api/v1/session", tags=["session"])


class Credentials(Body):
    """Who one says to be, and the proof."""

    handle: Annotated[Clean, Field(min_length=1, max_length=40)]
    password: Annotated[Clean, Field(min_length=1, max_length=LONGEST)]


@router.get("")
def show(request: Request) -> JSONResponse:
    """Say who is logged in, and give the token that changes must carry."""
    with_session(request)
    return _described(request)


@router.post("")
def begin(request: Request, credentials: Credentials) -> JSONResponse:
    """Log in: the session gets a new cookie and a new token."""
    log_in(request, credentials.handle, credentials.password)
    return _described(request)


@router.delete("")
def end(request: Request) -> JSONResponse:
    """Log out."""
    log_out(request)
    return _described(request)


def _described(request: Request) -> JSONResponse:
    browser = with_session(request)
    actor = browser.actor
    known: dict[str, Any] = {
        "csrf_token": browser.csrf_token,
        "id": actor.id,
        "handle": actor.handle,
        "name": actor.name,
        "role": actor.role,
    }
    return with_cookie(request, JSONResponse(known))
