"""Register, log in, log out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from pydantic import Field
from starlette.responses import HTMLResponse, Response

from exactformer.studio.accounts import authentication
from exactformer.studio.accounts import service as accounts
from exactformer.studio.errors import StudioError
from exactformer.studio.security import passwords
from exactformer.studio.web.request import (
    Clean,
    FormBody,
    database_of,
    redirect,
    render,
    with_session,
    within,
)

router = APIRouter(include_in_schema=False)

Next = Annotated[Clean, Query(max_length=2000)]
Line = Annotated[Clean, Field(max_length=500)]


class LoginForm(FormBody):
    """What the form for logging in sends."""

    handle: Line = ""
    password: Line = ""
    next: Annotated[Clean, Field(max_length=2000)] = "/"


class RegisterForm(LoginForm):
    """What the form for registering sends."""

    name: Line = ""


@router.get("/login")
def login_form(request: Request, next: Next = "/") -> HTMLResponse:
    """Ask who it is."""
    with_session(request)
    return render(request, "accounts/login.html", next=within(next), problem="", handle="")


@router.post("/login")
def log_in(request: Request, form: Annotated[LoginForm, Form()]) -> Response:
    """Log in and go on to where one came from."""
    try:
        authentication.log_in(request, form.handle, form.password)
    except StudioError as refusal:
        return render(
            request,
            "accounts/login.html",
            status=refusal.status,
            next=within(form.next),
            problem=str(refusal),
            handle=form.handle,
        )
    return redirect(request, within(form.next))


@router.get("/register")
def register_form(request: Request, next: Next = "/") -> HTMLResponse:
    """Ask for what an account needs."""
    with_session(request)
    return _register_page(request, RegisterForm(next=next))


@router.post("/register")
def register(request: Request, form: Annotated[RegisterForm, Form()]) -> Response:
    """Make an account, log it in, and go on."""
    try:
        authentication.register(request, form.handle, form.name, form.password)
    except StudioError as refusal:
        return _register_page(request, form, refusal)
    return redirect(request, within(form.next))


def _register_page(
    request: Request, form: RegisterForm, refusal: StudioError | None = None
) -> HTMLResponse:
    with database_of(request).session() as db:
        first = not accounts.is_administered(db)
    return render(
        request,
        "accounts/register.html",
        status=refusal.status if refusal else 200,
        first=first,
        problem=str(refusal) if refusal else "",
        next=within(form.next),
        handle=form.handle,
        name=form.name,
        shortest=passwords.SHORTEST,
    )


@router.post("/logout")
def log_out(request: Request) -> Response:
    """Log out."""
    authentication.log_out(request)
    return redirect(request, "/")
