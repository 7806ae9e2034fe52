"""Login, registration and logout."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import HTMLResponse, Response

from exactformer.studio import web
from exactformer.studio.accounts import authentication
from exactformer.studio.accounts import service as accounts
from exactformer.studio.errors import StudioError
from exactformer.studio.security import passwords

router = APIRouter()

Next = Annotated[web.Clean, Query(max_length=2000)]
Line = Annotated[web.Clean, Field(max_length=500)]


class LoginForm(web.FormBody):
    """What the form for logging in sends."""

    handle: Line = ""
    password: Line = ""
    next: Annotated[web.Clean, Field(max_length=2000)] = "/"


class RegisterForm(LoginForm):
    """What the form for registering sends."""

    name: Line = ""


@router.get("/login")
def login_form(request: Request, next: Next = "/") -> HTMLResponse:
    """Ask who it is."""
    web.with_session(request)
    return web.render_form(request, "accounts/login.html", next=web.within(next), handle="")


@router.post("/login")
def log_in(request: Request, form: web.Sent[LoginForm]) -> Response:
    """Log in and go on to where one came from."""
    try:
        authentication.log_in(request, form.handle, form.password)
    except StudioError as refusal:
        back = web.within(form.next)
        return web.render_form(
            request, "accounts/login.html", refusal, next=back, handle=form.handle
        )
    return web.redirect(request, web.within(form.next))


@router.get("/register")
def register_form(request: Request, next: Next = "/") -> HTMLResponse:
    """Ask for what an account needs."""
    web.with_session(request)
    return _register_page(request, RegisterForm(next=next))


@router.post("/register")
def register(request: Request, form: web.Sent[RegisterForm]) -> Response:
    """Make an account, log it in, and go on."""
    try:
        authentication.register(request, form.handle, form.name, form.password)
    except StudioError as refusal:
        return _register_page(request, form, refusal)
    return web.redirect(request, web.within(form.next))


def _register_page(
    request: Request, form: RegisterForm, refusal: StudioError | None = None
) -> HTMLResponse:
    with web.database_of(request).session() as db:
        first = not accounts.is_administered(db)
    return web.render_form(
        request,
        "accounts/register.html",
        refusal,
        first=first,
        next=web.within(form.next),
        handle=form.handle,
        name=form.name,
        shortest=passwords.SHORTEST,
    )


@router.post("/logout")
def log_out(request: Request) -> Response:
    """Log out."""
    authentication.log_out(request)
    return web.redirect(request, "/")
