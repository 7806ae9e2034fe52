"""One's own account: name, password, and where one is logged in."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.responses import HTMLResponse, Response

from exactformer.studio.accounts import authentication
from exactformer.studio.accounts import service as accounts
from exactformer.studio.errors import LoginNeededError, StudioError
from exactformer.studio.security import passwords, sessions
from exactformer.studio.web.request import (
    Clean,
    CurrentActor,
    FormBody,
    database_of,
    redirect,
    render,
    writing,
)

router = APIRouter(include_in_schema=False)

DONE = {
    "name": "The name is changed.",
    "password": "The password is changed, and all other sessions have ended.",
    "session": "The session has ended.",
}


class NameForm(FormBody):
    """A new name."""

    name: Clean = ""


class PasswordForm(FormBody):
    """A new password, and the present one as proof."""

    present: Clean = ""
    password: Clean = ""


class SessionForm(FormBody):
    """The session to end, by the beginning of its hash."""

    session: Clean = ""


@router.get("/account")
def show(request: Request, actor: CurrentActor, done: str = "") -> HTMLResponse:
    """Show the account."""
    return _page(request, actor.require("reader"), done=DONE.get(done, ""))


@router.post("/account/name")
def rename(request: Request, actor: CurrentActor, form: Annotated[NameForm, Form()]) -> Response:
    """Change what others see."""
    try:
        with writing(request) as db:
            accounts.rename(db, actor, form.name)
    except LoginNeededError:
        raise
    except StudioError as refusal:
        return _page(request, actor.require("reader"), refusal, "name")
    return redirect(request, "/account?done=name")


@router.post("/account/password")
def change_password(
    request: Request, actor: CurrentActor, form: Annotated[PasswordForm, Form()]
) -> Response:
    """Change the password; the other sessions end."""
    try:
        authentication.change_password(request, form.present, form.password)
    except LoginNeededError:
        raise
    except StudioError as refusal:
        return _page(request, actor.require("reader"), refusal, "password")
    return redirect(request, "/account?done=password")


@router.post("/account/sessions/end")
def end_session(
    request: Request, actor: CurrentActor, form: Annotated[SessionForm, Form()]
) -> Response:
    """Log out another browser."""
    with writing(request) as db:
        accounts.end_session(db, actor, form.session)
    return redirect(request, "/account?done=session")


def _page(
    request: Request,
    user_id: int,
    refusal: StudioError | None = None,
    part: str = "",
    done: str = "",
) -> HTMLResponse:
    with database_of(request).session() as db:
        user, known = accounts.get(db, user_id), sessions.of_account(db, user_id)
    browser = request.state.browser
    return render(
        request,
        "accounts/account.html",
        status=refusal.status if refusal else 200,
        user=user,
        sessions=known,
        present=browser.token_hash if browser else "",
        problem=str(refusal) if refusal else "",
        part=part,
        done=done,
        shortest=passwords.SHORTEST,
    )
