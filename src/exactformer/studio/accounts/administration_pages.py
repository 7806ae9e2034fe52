"""For those who keep order: accounts and their roles, and the audit log."""

from __future__ import annotations

import secrets
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import HTMLResponse, Response

from exactformer.studio.accounts import service as accounts
from exactformer.studio.accounts.tables import ROLES
from exactformer.studio.security import passwords
from exactformer.studio.storage import audit
from exactformer.studio.web.request import (
    Clean,
    CurrentActor,
    FormBody,
    Identifier,
    ReadSession,
    redirect,
    render,
    writing,
)

router = APIRouter(include_in_schema=False)

EACH = 50
Words = Annotated[Clean, Query(max_length=120)]
PageNumber = Annotated[int, Query(ge=1, le=1_000_000)]


class RoleForm(FormBody):
    """A new role."""

    role: Clean = ""


class DisabledForm(FormBody):
    """Shut out, or let in."""

    disabled: bool


@router.get("/admin/users")
def users(
    request: Request, db: ReadSession, actor: CurrentActor, q: Words = "", page: PageNumber = 1
) -> HTMLResponse:
    """All accounts."""
    found, total = accounts.listed(db, actor, q=q, limit=EACH, offset=EACH * (page - 1))
    return render(
        request,
        "accounts/users.html",
        users=found,
        total=total,
        q=q,
        page=page,
        each=EACH,
        roles=ROLES,
    )


@router.post("/admin/users/{user_id}/role")
def set_role(
    request: Request, actor: CurrentActor, user_id: Identifier, form: Annotated[RoleForm, Form()]
) -> Response:
    """Give a role."""
    with writing(request) as db:
        accounts.set_role(db, actor, user_id, form.role)
    return redirect(request, "/admin/users")


@router.post("/admin/users/{user_id}/disabled")
def set_disabled(
    request: Request,
    actor: CurrentActor,
    user_id: Identifier,
    form: Annotated[DisabledForm, Form()],
) -> Response:
    """Shut an account out, or let it in again."""
    with writing(request) as db:
        accounts.set_disabled(db, actor, user_id, form.disabled)
    return redirect(request, "/admin/users")


@router.post("/admin/users/{user_id}/password")
def reset_password(request: Request, actor: CurrentActor, user_id: Identifier) -> HTMLResponse:
    """Make up a new password for somebody who forgot hers, and show it once."""
    actor.require("admin")
    password = secrets.token_urlsafe(12)
    password_hash = passwords.hash_password(password)
    with writing(request) as db:
        user = accounts.reset_password(db, actor, user_id, password_hash)
    return render(request, "accounts/reset.html", user=user, password=password)


@router.get("/audit")
def audit_log(
    request: Request,
    db: ReadSession,
    actor: CurrentActor,
    action: Words = "",
    handle: Words = "",
    page: PageNumber = 1,
) -> HTMLResponse:
    """What was changed, by whom and when."""
    found, total = audit.entries(
        db, actor, action=action, handle=handle, limit=EACH, offset=EACH * (page - 1)
    )
    return render(
        request,
        "accounts/audit.html",
        entries=found,
        total=total,
        action=action,
        handle=handle,
        page=page,
        each=EACH,
    )
