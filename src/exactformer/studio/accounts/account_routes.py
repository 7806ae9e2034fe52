"""Accounts: one's own, those that admins administer, and the audit log; page beside JSON route."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field, JsonValue
from starlette.responses import HTMLResponse, Response

from exactformer.studio import web
from exactformer.studio.accounts import authentication
from exactformer.studio.accounts import service as accounts
from exactformer.studio.accounts.tables import ROLES
from exactformer.studio.errors import StudioError
from exactformer.studio.security import passwords, sessions
from exactformer.studio.security.passwords import LONGEST, SHORTEST
from exactformer.studio.storage import audit

pages = APIRouter(include_in_schema=False)
api = APIRouter(prefix="/api/v1", tags=["accounts"])

EACH = 50
Words = Annotated[web.Clean, Query(max_length=120)]
PageNumber = Annotated[int, Query(ge=1, le=1_000_000)]
Password = Annotated[web.Clean, Field(min_length=SHORTEST, max_length=LONGEST)]
Name = Annotated[web.Clean, Field(min_length=1, max_length=accounts.NAME_LENGTH)]

DONE = {
    "name": "The name is changed.",
    "password": "The password is changed, and all other sessions have ended.",
    "session": "The session has ended.",
}


class Registration(web.Body):
    """What an account needs."""

    handle: Annotated[web.Clean, Field(min_length=1, max_length=40)]
    password: Password
    name: Annotated[web.Clean, Field(max_length=accounts.NAME_LENGTH)] = ""


class OwnChanges(web.Body):
    """What one may change of one's own account; a new password needs the present one."""

    name: Name | None = None
    password: Password | None = None
    present_password: Annotated[web.Clean, Field(max_length=LONGEST)] = ""


class AccountChanges(web.Body):
    """What an admin may change of any account."""

    role: Literal["reader", "curator", "admin"] | None = None
    disabled: bool | None = None


class AccountOut(web.Out):
    """An account."""

    id: int
    handle: str
    name: str
    role: str
    disabled: bool
    created_at: datetime


class NewAccountOut(AccountOut):
    """An account just made, and the token that its changes must carry."""

    csrf_token: str


class EntryOut(web.Out):
    """A change: who made it, when, and of what; ``detail`` depends on the action."""

    id: int
    at: datetime
    actor: web.HandleOf
    action: str
    subject_kind: str
    subject_id: int | None
    detail: dict[str, JsonValue]


@pages.get("/account")
def show(request: Request, actor: web.CurrentActor, done: str = "") -> HTMLResponse:
    """Show the account."""
    return _page(request, actor.require("reader"), done=DONE.get(done, ""))


@api.get("/account")
def api_show(read: web.Read) -> AccountOut:
    """One's own account."""
    return AccountOut.model_validate(accounts.get(read.db, read.actor.require("reader")))


@api.post("/account", status_code=201)
def register(request: Request, response: Response, registration: Registration) -> NewAccountOut:
    """Make an account and log in; the first of an installation becomes its admin."""
    authentication.register(request, registration.handle, registration.name, registration.password)
    with web.database_of(request).session() as db:
        user = accounts.get(db, request.state.actor.require("reader"))
    web.with_cookie(request, response)
    known = AccountOut.model_validate(user).model_dump()
    return NewAccountOut(**known, csrf_token=request.state.browser.csrf_token)


@pages.post("/account/name")
def rename(write: web.Write, name: web.Line = "") -> Response:
    """Change what others see."""
    return _changed(write, "name", partial(write, accounts.rename, name))


@pages.post("/account/password")
def change_password(write: web.Write, present: web.Line = "", password: web.Line = "") -> Response:
    """Change the password; the other sessions end."""
    change = partial(authentication.change_password, write.request, present, password)
    return _changed(write, "password", change)


@api.patch("/account")
def change(write: web.Write, changes: OwnChanges) -> AccountOut:
    """Change one's name or password; with a new password all other sessions end."""
    user_id = write.actor.require("reader")
    if changes.password is not None:
        authentication.change_password(
            write.request, changes.present_password, changes.password, changes.name
        )
    elif changes.name is not None:
        write(accounts.rename, changes.name)
    with web.database_of(write.request).session() as db:
        return AccountOut.model_validate(accounts.get(db, user_id))


@pages.post("/account/sessions/end")
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


@pages.get("/admin/users")
def users(read: web.Read, q: Words = "", page: PageNumber = 1) -> HTMLResponse:
    """All accounts."""
    found = read(accounts.listed, q, EACH, EACH * (page - 1))
    return read.render("accounts/users.html", found=found, q=q, roles=ROLES)


@api.get("/users")
def api_users(read: web.Read, paging: web.Paging, q: Words = "") -> web.Listing[AccountOut]:
    """All accounts; for admins."""
    return AccountOut.listed(read(accounts.listed, q, *paging))


@pages.post("/admin/users/{user_id}/role")
def set_role(write: web.Write, user_id: web.Identifier, role: web.Line = "") -> Response:
    """Give a role."""
    write(accounts.set_role, user_id, role)
    return web.redirect(write.request, "/admin/users")


@pages.post("/admin/users/{user_id}/disabled")
def set_disabled(write: web.Write, user_id: web.Identifier, disabled: web.Switch) -> Response:
    """Shut an account out, or let it in again."""
    write(accounts.set_disabled, user_id, disabled)
    return web.redirect(write.request, "/admin/users")


@api.patch("/users/{user_id}")
def administer(
    request: Request, actor: web.CurrentActor, user_id: web.Identifier, changes: AccountChanges
) -> AccountOut:
    """Give a role, shut out, let in; for admins."""
    with web.writing(request) as db:
        user = accounts.administered(db, actor, user_id)
        if changes.role is not None:
            accounts.set_role(db, actor, user_id, changes.role)
        if changes.disabled is not None:
            accounts.set_disabled(db, actor, user_id, changes.disabled)
    return AccountOut.model_validate(user)


@pages.post("/admin/users/{user_id}/password")
def reset_password(write: web.Write, user_id: web.Identifier) -> HTMLResponse:
    """Make up a new password for somebody who forgot hers, and show it once."""
    write.actor.require("admin")
    password = secrets.token_urlsafe(12)
    user = write(accounts.reset_password, user_id, passwords.hash_password(password))
    return web.render(write.request, "accounts/reset.html", user=user, password=password)


@pages.get("/audit")
def audit_log(
    read: web.Read, action: Words = "", handle: Words = "", page: PageNumber = 1
) -> HTMLResponse:
    """What was changed, by whom and when."""
    found = read(audit.entries, action, handle, EACH, EACH * (page - 1))
    return read.render("accounts/audit.html", found=found, action=action, handle=handle)


@api.get("/audit")
def api_audit_log(
    read: web.Read, paging: web.Paging, action: Words = "", handle: Words = ""
) -> web.Listing[EntryOut]:
    """What was changed, by whom and when; for curators."""
    return EntryOut.listed(read(audit.entries, action, handle, *paging))


routers = (pages, api)
