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

from exactformer.studio.accounts import authentication
from exactformer.studio.accounts import service as accounts
from exactformer.studio.accounts.tables import ROLES
from exactformer.studio.errors import StudioError
from exactformer.studio.security import passwords, sessions
from exactformer.studio.security.passwords import LONGEST, SHORTEST
from exactformer.studio.storage import audit
from exactformer.studio.web.request import (
    CurrentActor,
    ReadSession,
    Write,
    Writer,
    database_of,
    redirect,
    render,
    with_cookie,
    writing,
)
from exactformer.studio.web.types import (
    Body,
    Clean,
    FormBody,
    HandleOf,
    Identifier,
    Listing,
    Out,
    Paging,
    Sent,
    listing,
)

pages = APIRouter(include_in_schema=False)
api = APIRouter(prefix="/api/v1", tags=["accounts"])

EACH = 50
Words = Annotated[Clean, Query(max_length=120)]
PageNumber = Annotated[int, Query(ge=1, le=1_000_000)]
Password = Annotated[Clean, Field(min_length=SHORTEST, max_length=LONGEST)]
Name = Annotated[Clean, Field(min_length=1, max_length=accounts.NAME_LENGTH)]

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


class RoleForm(FormBody):
    """A new role."""

    role: Clean = ""


class DisabledForm(FormBody):
    """Shut out, or let in."""

    disabled: bool


class Registration(Body):
    """What an account needs."""

    handle: Annotated[Clean, Field(min_length=1, max_length=40)]
    password: Password
    name: Annotated[Clean, Field(max_length=accounts.NAME_LENGTH)] = ""


class OwnChanges(Body):
    """What one may change of one's own account; a new password needs the present one."""

    name: Name | None = None
    password: Password | None = None
    present_password: Annotated[Clean, Field(max_length=LONGEST)] = ""


class AccountChanges(Body):
    """What an admin may change of any account."""

    role: Literal["reader", "curator", "admin"] | None = None
    disabled: bool | None = None


class AccountOut(Out):
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


class EntryOut(Out):
    """A change: who made it, when, and of what; ``detail`` depends on the action."""

    id: int
    at: datetime
    actor: HandleOf
    action: str
    subject_kind: str
    subject_id: int | None
    detail: dict[str, JsonValue]


@pages.get("/account")
def show(request: Request, actor: CurrentActor, done: str = "") -> HTMLResponse:
    """Show the account."""
    return _page(request, actor.require("reader"), done=DONE.get(done, ""))


@api.get("/account")
def api_show(db: ReadSession, actor: CurrentActor) -> AccountOut:
    """One's own account."""
    return AccountOut.model_validate(accounts.get(db, actor.require("reader")))


@api.post("/account", status_code=201)
def register(request: Request, response: Response, registration: Registration) -> NewAccountOut:
    """Make an account and log in; the first of an installation becomes its admin."""
    authentication.register(request, registration.handle, registration.name, registration.password)
    with database_of(request).session() as db:
        user = accounts.get(db, request.state.actor.require("reader"))
    with_cookie(request, response)
    known = AccountOut.model_validate(user).model_dump()
    return NewAccountOut(**known, csrf_token=request.state.browser.csrf_token)


@pages.post("/account/name")
def rename(write: Write, form: Sent[NameForm]) -> Response:
    """Change what others see."""
    return _changed(write, "name", partial(write, accounts.rename, form.name))


@pages.post("/account/password")
def change_password(write: Write, form: Sent[PasswordForm]) -> Response:
    """Change the password; the other sessions end."""
    change = partial(authentication.change_password, write.request, form.present, form.password)
    return _changed(write, "password", change)


@api.patch("/account")
def change(write: Write, changes: OwnChanges) -> AccountOut:
    """Change one's name or password; with a new password all other sessions end."""
    user_id = write.actor.require("reader")
    if changes.password is not None:
        authentication.change_password(
            write.request, changes.present_password, changes.password, changes.name
        )
    elif changes.name is not None:
        write(accounts.rename, changes.name)
    with database_of(write.request).session() as db:
        return AccountOut.model_validate(accounts.get(db, user_id))


@pages.post("/account/sessions/end")
def end_session(write: Write, form: Sent[SessionForm]) -> Response:
    """Log out another browser."""
    write(accounts.end_session, form.session)
    return redirect(write.request, "/account?done=session")


def _changed(write: Writer, part: str, change: Callable[[], object]) -> Response:
    """Change a part of the account, or show the account with what stands against it."""
    user_id = write.actor.require("reader")
    try:
        change()
    except StudioError as refusal:
        return _page(write.request, user_id, refusal, part)
    return redirect(write.request, f"/account?done={part}")


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


@pages.get("/admin/users")
def users(
    request: Request, db: ReadSession, actor: CurrentActor, q: Words = "", page: PageNumber = 1
) -> HTMLResponse:
    """All accounts."""
    found = accounts.listed(db, actor, q=q, limit=EACH, offset=EACH * (page - 1))
    return render(
        request,
        "accounts/users.html",
        users=found.items,
        total=found.total,
        q=q,
        page=page,
        each=EACH,
        roles=ROLES,
    )


@api.get("/users")
def api_users(
    db: ReadSession, actor: CurrentActor, paging: Paging, q: Words = ""
) -> Listing[AccountOut]:
    """All accounts; for admins."""
    found = accounts.listed(db, actor, q=q, limit=paging.limit, offset=paging.offset)
    return listing(map(AccountOut.model_validate, found.items), found.total)


@pages.post("/admin/users/{user_id}/role")
def set_role(write: Write, user_id: Identifier, form: Sent[RoleForm]) -> Response:
    """Give a role."""
    write(accounts.set_role, user_id, form.role)
    return redirect(write.request, "/admin/users")


@pages.post("/admin/users/{user_id}/disabled")
def set_disabled(write: Write, user_id: Identifier, form: Sent[DisabledForm]) -> Response:
    """Shut an account out, or let it in again."""
    write(accounts.set_disabled, user_id, form.disabled)
    return redirect(write.request, "/admin/users")


@api.patch("/users/{user_id}")
def administer(
    request: Request, actor: CurrentActor, user_id: Identifier, changes: AccountChanges
) -> AccountOut:
    """Give a role, shut out, let in; for admins."""
    with writing(request) as db:
        user = accounts.administered(db, actor, user_id)
        if changes.role is not None:
            accounts.set_role(db, actor, user_id, changes.role)
        if changes.disabled is not None:
            accounts.set_disabled(db, actor, user_id, changes.disabled)
    return AccountOut.model_validate(user)


@pages.post("/admin/users/{user_id}/password")
def reset_password(write: Write, user_id: Identifier) -> HTMLResponse:
    """Make up a new password for somebody who forgot hers, and show it once."""
    write.actor.require("admin")
    password = secrets.token_urlsafe(12)
    user = write(accounts.reset_password, user_id, passwords.hash_password(password))
    return render(write.request, "accounts/reset.html", user=user, password=password)


@pages.get("/audit")
def audit_log(
    request: Request,
    db: ReadSession,
    actor: CurrentActor,
    action: Words = "",
    handle: Words = "",
    page: PageNumber = 1,
) -> HTMLResponse:
    """What was changed, by whom and when."""
    found = audit.entries(
        db, actor, action=action, handle=handle, limit=EACH, offset=EACH * (page - 1)
    )
    return render(
        request,
        "accounts/audit.html",
        entries=found.items,
        total=found.total,
        action=action,
        handle=handle,
        page=page,
        each=EACH,
    )


@api.get("/audit")
def api_audit_log(
    db: ReadSession, actor: CurrentActor, paging: Paging, action: Words = "", handle: Words = ""
) -> Listing[EntryOut]:
    """What was changed, by whom and when; for curators."""
    found = audit.entries(
        db, actor, action=action, handle=handle, limit=paging.limit, offset=paging.offset
    )
    return listing(map(EntryOut.model_validate, found.items), found.total)


routers = (pages, api)
