"""How large a request may be, counted while it is read: no length is believed, none is needed."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class BodyLimit:
    """Refuses bodies over ``limit`` bytes, or over what ``uploads`` allows for a path."""

    def __init__(self, app: ASGIApp, limit: int, uploads: Mapping[str, int]) -> None:
        self._app, self._limit, self._uploads = app, limit, uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._uploads.get(scope["path"].rstrip("/"), self._limit)
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
