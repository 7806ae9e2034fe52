"""What surrounds every request: HEAD, headers on every answer, and how large a body may be.

HEAD is answered wherever GET is: the same headers, and nothing behind them.

Scripts, styles and pictures come from here and from nowhere else. No other site may frame a page,
except a playground with ``?embed=1``: it changes nothing, and a session's cookie is not sent to frames
of other sites, so that it is a visitor's page there. A redirect within the site names a path only: the
host is what the request claims, true or not.

A body is counted while it is read: no length is believed, none is needed.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qs

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "object-src 'none'",
    ]
)

HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


EMBEDDED = HEADERS | {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY.replace("ancestors 'none'", "ancestors *"),
    "Cross-Origin-Resource-Policy": "cross-origin",
}
del EMBEDDED["X-Frame-Options"]
_PLAYGROUND = re.compile(r"/playground/[a-z]+")


class StrictHeaders:
    """Adds the headers to whatever the application answers."""

    def __init__(self, app: ASGIApp, secure: bool = False, embeds: bool = False) -> None:
        self._app = app
        self._embeds = embeds
        self._more = {"Strict-Transport-Security": "max-age=31536000"} if secure else {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                chosen = EMBEDDED if self._embeds and _is_embedded(scope) else HEADERS
                for name, value in (chosen | self._more).items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
                if "location" in headers:
                    headers["location"] = _path_only(headers["location"], scope)
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)


def _is_embedded(scope: Scope) -> bool:
    asked = parse_qs(scope["query_string"].decode("latin-1"))
    return _PLAYGROUND.fullmatch(scope["path"]) is not None and asked.get("embed") == ["1"]


def _path_only(target: str, scope: Scope) -> str:
    """Return an address of this site without the host; others as they are."""
    host = next((value for name, value in scope["headers"] if name == b"host"), b"")
    path = target.removeprefix(f"{scope['scheme']}://{host.decode('latin-1')}")
    return path if path.startswith("/") and path[1:2] not in ("/", "\\") else target


class Heads:
    """Lets the application see a GET, and keeps the body of what it answers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def without_body(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self._app({**scope, "method": "GET"}, receive, without_body)


class BodyLimit:
    """Refuses bodies over ``limit`` bytes."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app, self._limit = app, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limit
        announced = _announced(scope)
        read = 0

        async def bounded() -> Message:
            nonlocal read
            if announced > limit:
                raise _too_large(limit)
            message = await receive()
            read += len(message.get("body", b""))
            if read > limit:
                raise _too_large(limit)
            return message

        await self._app(scope, bounded, send)


def _announced(scope: Scope) -> int:
    length = dict(scope["headers"]).get(b"content-length", b"0")
    return int(length[:20]) if length.isdigit() else 0


def _too_large(limit: int) -> HTTPException:
    return HTTPException(
        413,
        f"the request is larger than {limit:,} bytes; send less at a time",
        {"Connection": "close"},
    )
