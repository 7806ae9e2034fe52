"""Answering that nothing has changed: a page that a visitor's browser has is not made again.

A request without a session is the same for everybody, so its answer depends on the address, on the
data and on the stored runs. Its tag is made of the newest change of both, which is read before the
page is made: a page may be newer than its tag, and never older.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable
from hashlib import blake2b

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

READING = re.compile(r"/|/(papers|people|institutions|topics|map)(/[^/]+)?|/claims")
"""Paths whose pages depend on nothing else."""

_PERSONAL = frozenset({b"authorization", b"hx-request", b"range"})


class Freshness:
    """Stands before the application; ``newest`` gives the newest change, ``cookie`` names a session."""

    def __init__(self, app: ASGIApp, newest: Callable[[], Awaitable[object]], cookie: str) -> None:
        self._app, self._newest = app, newest
        self._cookie = f"{cookie}=".encode()
        self._start = secrets.token_hex(8)  # another start may have other templates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if not self._is_everybodys(scope):
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        asked = (headers.get(b"host"), scope["scheme"], scope["path"], scope["query_string"])
        said = repr((self._start, await self._newest(), asked)).encode()
        tag = f'"{blake2b(said, digest_size=12).hexdigest()}"'
        kept = {"etag": tag, "cache-control": "no-cache", "vary": "Cookie"}
        if _knows(headers.get(b"if-none-match", b"").decode("latin-1"), tag):
            raw = [(name.encode(), value.encode()) for name, value in kept.items()]
            await send({"type": "http.response.start", "status": 304, "headers": raw})
            await send({"type": "http.response.body", "body": b""})
            return

        async def with_tag(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                answered = MutableHeaders(scope=message)
                if "set-cookie" not in answered:
                    answered.update(kept)
            await send(message)

        await self._app(scope, receive, with_tag)

    def _is_everybodys(self, scope: Scope) -> bool:
        """Whether a request is for a page, by nobody in particular."""
        if scope["type"] != "http" or scope["method"] != "GET":
            return False
        if not READING.fullmatch(scope["path"]):
            return False
        return not any(
            name in _PERSONAL or (name == b"cookie" and self._cookie in value)
            for name, value in scope["headers"]
        )


def _knows(sent: str, tag: str) -> bool:
    tags = [each.strip().removeprefix("W/") for each in sent.split(",")]
    return tag in tags
