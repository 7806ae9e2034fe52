"""Accounts and the audit log for programs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import JSONResponse

from exactformer.studio.accounts import authentication
from exactformer.studio.accounts import service as accounts
from exactformer.studio.accounts.tables import User
from exactformer.studio.security.passwords import LONGEST, SHORTEST
from exactformer.studio.storage import audit
from exactformer.studio.storage.housekeeping import AuditEntry
from exactformer.studio.web.request import (
    Body,
    Clean,
    CurrentActor,
    Identifier,
    Paging,
    ReadSession,
    database_of,
    listing,
    with_cookie,
    writing,
)

router = APIRouter(prefix="/api/v1", tags=["accounts"])

Words = Annotated[Clean, Query(max_length=120)]
Password = Annotated[Clean, Field(min_length=SHORTEST, max_length=LONGEST)]
Name = Annotated[Clean, Field(min_length=1, max_length=accounts.NAME_LENGTH)]


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


@router.post("/account", status_code=201)
def register(request: Request, registration: Registration) -> JSONResponse:
    """Make an account and log in; the first of an installation becomes its admin."""
    authentication.register(request, registration.handle, registration.name, registration.password)
    with database_of(request).session() as db:
        user = accounts.get(db, request.state.actor.require("reader"))
    known = described(user) | {"csrf_token": request.state.browser.csrf_token}
    return with_cookie(request, JSONResponse(known, 201))


@router.get("/account")
def show(db: ReadSession, actor: CurrentActor) -> dict[str, Any]:
    """One's own account."""
    return described(accounts.get(db, actor.require("reader")))


@router.patch("/account")
def change(request: Request, actor: CurrentActor, changes: OwnChanges) -> dict[str, Any]:
    """Change one's name or password; with a new password all other sessions end."""
    user_id = actor.require("reader")
    if changes.password is not None:
        authentication.change_password(
            request, changes.present_password, changes.password, changes.name
        )
    elif changes.name is not None:
        with writing(request) as db:
            accounts.rename(db, actor, changes.name)
    with database_of(request).session() as db:
        return described(accounts.get(db, user_id))


@router.get("/users")
def users(db: ReadSession, actor: CurrentActor, paging: Paging, q: Words = "") -> dict[str, Any]:
    """All accounts; for admins."""
    found, total = accounts.listed(db, actor, q=q, limit=paging.limit, offset=paging.offset)
    return listing(map(described, found), total)


@router.patch("/users/{user_id}")
def administer(
    request: Request, actor: CurrentActor, user_id: Identifier, changes: AccountChanges
) -> dict[str, Any]:
    """Give a role, shut out, let in; for admins."""
    with writing(request) as db:
        user = accounts.administered(db, actor, user_id)
        if changes.role is not None:
            accounts.set_role(db, actor, user_id, changes.role)
        if changes.disabled is not None:
            accounts.set_disabled(db, actor, user_id, changes.disabled)
    return described(user)


@router.get("/audit")
def audit_log(
    db: ReadSession, actor: CurrentActor, paging: Paging, action: Words = "", handle: Words = ""
) -> dict[str, Any]:
    """What was changed, by whom and when; for curators."""
    found, total = audit.entries(
        db, actor, action=action, handle=handle, limit=paging.limit, offset=paging.offset
    )
    return listing(map(_entry, found), total)


def described(user: User) -> dict[str, Any]:
    """An account, as programs read it."""
    return {
        "id": user.id,
        "handle": user.handle,
        "name": user.name,
        "role": user.role,
        "disabled": user.disabled,
        "created_at": user.created_at.isoformat(),
    }


def _entry(entry: AuditEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "at": entry.at.isoformat(),
        "actor": entry.actor.handle if entry.actor else None,
        "action": entry.action,
        "subject_kind": entry.subject_kind,
        "subject_id": entry.subject_id,
        "detail": entry.detail,
    }
