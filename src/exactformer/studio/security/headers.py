"""Headers on every answer: scripts, styles and pictures come from here and from nowhere else.

A redirect within the site names a path only: the host is what the request claims, true or not.
"""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
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


class StrictHeaders:
    """Adds the headers to whatever the application answers."""

    def __init__(self, app: ASGIApp, secure: bool = False) -> None:
        self._app = app
        self._headers = dict(HEADERS)
        if secure:
            self._headers["Strict-Transport-Security"] = "max-age=31536000"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
                if "location" in headers:
                    headers["location"] = _path_only(headers["location"], scope)
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)


def _path_only(target: str, scope: Scope) -> str:
    """Return an address of this site without the host; others as they are."""
    host = next((value for name, value in scope["headers"] if name == b"host"), b"")
    path = target.removeprefix(f"{scope['scheme']}://{host.decode('latin-1')}")
    return path if path.startswith("/") and path[1:2] not in ("/", "\\") else target
