"""Accounts: one's own, those that admins administer, and the audit log."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, Response

from exactformer.studio import web
from exactformer.studio.accounts import authentication
from exactformer.studio.accounts import service as accounts
from exactformer.studio.accounts.tables import ROLES
from exactformer.studio.errors import StudioError
from exactformer.studio.security import passwords, sessions
from exactformer.studio.storage import audit

router = APIRouter()

EACH = 50
Words = Annotated[web.Clean, Query(max_length=120)]
PageNumber = Annotated[int, Query(ge=1, le=1_000_000)]

DONE = {
    "name": "The name is changed.",
    "password": "The password is changed, and all other sessions have ended.",
    "session": "The session has ended.",
}


@router.get("/account")
def show(request: Request, actor: web.CurrentActor, done: str = "") -> HTMLResponse:
    """Show the account."""
    return _page(request, actor.require("reader"), done=DONE.get(done, ""))


@router.post("/account/name")
def rename(write: web.Write, name: web.Line = "") -> Response:
    """Change what others see."""
    return _changed(write, "name", partial(write, accounts.rename, name))


@router.post("/account/password")
def change_password(write: web.Write, present: web.Line = "", password: web.Line = "") -> Response:
    """Change the password; the other sessions end."""
    change = partial(authentication.change_password, write.request, present, password)
    return _changed(write, "password", change)


@router.post("/account/sessions/end")
def end_session(write: web.Write, session: web.Line = "") -> Response:
    """Log out another browser."""
    write(accounts.end_session, session)
    return web.redirect(write.request, "/account?done=session")


def _changed(write: web.Writer, part: str, change: Callable[[], object]) -> Response:
    """Change a part of the account, or show the account with what stands against it."""
    user_id = write.actor.require("reader")
    try:
        change()
    except StudioError as refusal:
        return _page(write.request, user_id, refusal, part)
    return web.redirect(write.request, f"/account?done={part}")


def _page(
    request: Request,
    user_id: int,
    refusal: StudioError | None = None,
    part: str = "",
    done: str = "",
) -> HTMLResponse:
    with web.database_of(request).session() as db:
        user, known = accounts.get(db, user_id), sessions.of_account(db, user_id)
    browser = request.state.browser
    return web.render_form(
        request,
        "accounts/account.html",
        refusal,
        user=user,
        sessions=known,
        present=browser.token_hash if browser else "",
        part=part,
        done=done,
        shortest=passwords.SHORTEST,
    )


@router.get("/admin/users")
def users(read: web.Read, q: Words = "", page: PageNumber = 1) -> HTMLResponse:
    """All accounts."""
    found = read(accounts.listed, q, EACH, EACH * (page - 1))
    return read.render("accounts/users.html", found=found, q=q, roles=ROLES)


@router.post("/admin/users/{user_id}/role")
def set_role(write: web.Write, user_id: web.Identifier, role: web.Line = "") -> Response:
    """Give a role."""
    write(accounts.set_role, user_id, role)
    return web.redirect(write.request, "/admin/users")


@router.post("/admin/users/{user_id}/disabled")
def set_disabled(write: web.Write, user_id: web.Identifier, disabled: web.Switch) -> Response:
    """Shut an account out, or let it in again."""
    write(accounts.set_disabled, user_id, disabled)
    return web.redirect(write.request, "/admin/users")


@router.post("/admin/users/{user_id}/password")
def reset_password(write: web.Write, user_id: web.Identifier) -> HTMLResponse:
    """Make up a new password for somebody who forgot hers, and show it once."""
    write.actor.require("admin")
    password = secrets.token_urlsafe(12)
    user = write(accounts.reset_password, user_id, passwords.hash_password(password))
    return web.render(write.request, "accounts/reset.html", user=user, password=password)


@router.get("/audit")
def audit_log(
    read: web.Read, action: Words = "", handle: Words = "", page: PageNumber = 1
) -> HTMLResponse:
    """What was changed, by whom and when."""
    found = read(audit.entries, action, handle, EACH, EACH * (page - 1))
    return read.render("accounts/audit.html", found=found, action=action, handle=handle)
