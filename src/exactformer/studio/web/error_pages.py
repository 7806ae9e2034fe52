"""Refusals and failures, in the form the asker reads: a page, a part of one, or JSON."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import quote, urlsplit

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from exactformer.studio.errors import LoginNeededError, StudioError, TooManyError
from exactformer.studio.security.middleware import HEADERS
from exactformer.studio.web.request import is_htmx, recognise, render, with_cookie, with_session

logger = logging.getLogger(__name__)

TITLES = {
    400: "That cannot be understood",
    401: "Please log in",
    403: "Not allowed",
    404: "Nothing here",
    405: "Not like this",
    409: "Something is in the way",
    413: "Too large",
    422: "Please check what you entered",
    429: "A little slower, please",
    500: "Our mistake",
    503: "Not at the moment",
}


WELCOMES = {
    "/collections": "Collections are papers in your own order, with your own notes. Log in first.",
    "/account": "This is about your account.",
}
"""What a page is for, told to those who have to log in first."""


SCRIPTS = "/api/"
"""What our scripts ask for begins so; they read JSON."""


def install(app: FastAPI) -> None:
    """Register what answers errors."""
    app.add_exception_handler(StudioError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(IntegrityError, _collided)
    app.add_exception_handler(OperationalError, _out_of_reach)
    app.add_exception_handler(NoConnectionError, _out_of_reach)
    app.add_exception_handler(Exception, _failed)


def answer(
    request: Request,
    status: int,
    message: str,
    headers: dict[str, str] | None = None,
    remedy: dict[str, Any] | None = None,
) -> Response:
    """Say what is wrong."""
    if not hasattr(request.state, "browser"):  # no route, so nobody has asked yet who it is
        recognise(request)
    response: Response
    if request.url.path.startswith(SCRIPTS):
        told = {"status": status, "message": message} | ({"remedy": remedy} if remedy else {})
        response = JSONResponse({"error": told}, status)
    elif is_htmx(request):
        response = render(request, "errors/_notice.html", status=status, message=message)
    else:
        title = TITLES.get(status, "That did not work")
        written = getattr(request.state, "written", ())
        words = {"title": title, "message": message, "written": written}
        response = render(request, "errors/page.html", status=status, code=status, **words)
    response.headers.update(headers or {})
    return response


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, StudioError)
    if isinstance(error, LoginNeededError) and not request.url.path.startswith(SCRIPTS):
        try:
            return _log_in_first(request, str(error))
        except TooManyError as too_many:
            error = too_many
    return answer(request, error.status, str(error), error.headers, getattr(error, "remedy", None))


def _log_in_first(request: Request, message: str) -> Response:
    if is_htmx(request):
        login = f"/login?next={quote(_open_page(request))}"
        return with_cookie(request, Response(status_code=401, headers={"HX-Redirect": login}))
    with_session(request)
    path, query = request.url.path, request.url.query
    back = f"{path}?{query}" if query else path
    return render(
        request,
        "accounts/login.html",
        status=401,
        next=back if request.method == "GET" else "/",
        problem="" if request.method == "GET" else message,
        why=WELCOMES.get(path, message) if request.method == "GET" else "",
        handle="",
    )


def _open_page(request: Request) -> str:
    """The page that htmx asks from."""
    try:
        page = urlsplit(request.headers.get("HX-Current-URL", "/"))
    except ValueError:
        return "/"
    return page.path + (f"?{page.query}" if page.query else "")


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    parts = []
    for problem in error.errors()[:5]:
        where = ".".join(str(place) for place in problem["loc"][1:]) or str(problem["loc"][0])
        parts.append(f"{where}: {_words(problem)}")
    return answer(request, 422, "; ".join(parts).encode("ascii", "replace").decode())


def _words(problem: dict[str, Any]) -> str:
    """Say what is wrong with a field, in the words of people."""
    found = problem.get("ctx", {})
    kinds = {
        "less_than_equal": "at most {le}",
        "greater_than_equal": "at least {ge}",
        "string_too_long": "at most {max_length} characters",
        "too_long": "at most {max_length} characters or items",
        "string_too_short": "at least {min_length} characters",
        "literal_error": "one of {expected}",
        "int_parsing": "a whole number",
        "float_parsing": "a number",
        "missing": "this is needed",
        "extra_forbidden": "no such field is known",
    }
    words = kinds.get(problem["type"])
    return words.format(**found) if words else str(problem["msg"])


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = "there is no such page" if error.detail == "Not Found" else str(error.detail)
    return answer(request, error.status_code, message, dict(error.headers or {}))


def _collided(request: Request, error: Exception) -> Response:
    return answer(request, 409, "this contradicts what is stored meanwhile; reload and try again")


def _out_of_reach(request: Request, error: Exception) -> Response:
    logger.error("the database does not answer: %s", error)
    message = "the database does not answer; nothing of this request was stored: try again soon"
    return answer(request, 503, message, {"Retry-After": "5"})


def _failed(request: Request, error: Exception) -> Response:
    message = "the studio made a mistake, which is in its log; nothing of this request was stored"
    return answer(request, 500, message, HEADERS)
