"""Pages for visitors, kept in memory: what everybody sees is computed once for each change.

A request without a session is the same for everybody, so its answer can be shared. The request
that computes a page carries nothing of the person who asked (no cookies, no address, no headers
but the host), so that nothing of hers can be in it; an answer that sets a cookie is hers alone.

A page is as old as the version of the data at which it was begun, and is handed out only while that is
still the version, which is asked for at every request: no page is older than a commit, of this
process or another. Of many who ask for the same page at once, one computes and the others wait.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b

from starlette.types import ASGIApp, Message, Receive, Scope, Send

READING = re.compile(
    r"/"
    r"|/(papers|people|institutions|topics|map)(/[^/]+)?|/claims"
    r"|/api/v1/(search|claims|map(/[a-z]+)?|(people|institutions|topics|experiments)(/[^/]+)?)"
    r"|/api/v1/papers(/[^/]+(/(claims|references|cited-by|reviews|comments))?)?"
)
"""Paths whose answers are shared."""

MOST_BYTES = 32 * 2**20
OVERHEAD = 4 * 2**10
"""Bytes that a page takes besides its body and the host's name: address, headers, objects."""

LARGEST_PAGE = 2 * 2**20
LONGEST_QUERY = 500
PERSONAL = frozenset({b"authorization", b"hx-request", b"range"})

Headers = tuple[tuple[bytes, bytes], ...]
Key = tuple[bytes, str, bytes]
Version = tuple[int, ...]


@dataclass(frozen=True)
class Page:
    """An answer as it was given, and the version of the data when its computation began."""

    status: int
    headers: Headers
    body: bytes
    etag: bytes
    version: Version

    @property
    def is_shared(self) -> bool:
        """Whether it may be given to others than the one who asked."""
        return all(name != b"set-cookie" for name, _ in self.headers)

    @property
    def is_kept(self) -> bool:
        """Whether it may be given to those who ask later."""
        return self.status == 200 and self.is_shared and len(self.body) <= LARGEST_PAGE


class PageCache:
    """Stands before the application; ``version`` gives the data's, ``cookie`` is a session's name.

    Bounded in bytes: of pages that nobody asks for, the oldest go first.
    """

    def __init__(
        self,
        app: ASGIApp,
        version: Callable[[], Awaitable[Version]],
        cookie: str,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._app, self._version = app, version
        self._cookie = f"{cookie}=".encode()
        self._most_bytes = most_bytes
        self._pages: OrderedDict[Key, Page] = OrderedDict()
        self._bytes = 0
        self._filling: dict[tuple[Key, Version], asyncio.Task[Page]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        key = self._key(scope)
        if key is None:
            await self._app(scope, receive, send)
            return
        version = await self._version()
        page = self._pages.get(key)
        if page is not None and page.version == version:
            self._pages.move_to_end(key)
        else:
            first = (key, version) not in self._filling
            page = await asyncio.shield(self._computation(key, version, scope))
            if not first and not page.is_shared:
                await self._app(scope, receive, send)
                return
        await _answer(page, scope, send)

    def _key(self, scope: Scope) -> Key | None:
        """Return what the answer depends on; nothing for requests that are not for everybody."""
        if scope["type"] != "http" or scope["method"] != "GET":
            return None
        if len(scope["query_string"]) > LONGEST_QUERY or not READING.fullmatch(scope["path"]):
            return None
        host = b""
        for name, value in scope["headers"]:
            if name == b"host":
                host = value
            elif name in PERSONAL or (name == b"cookie" and self._cookie in value):
                return None
        return host, scope["path"], scope["query_string"]

    def _computation(self, key: Key, version: Version, scope: Scope) -> asyncio.Task[Page]:
        """Return the computation of a page at a version; begin it if needed."""
        flight = key, version
        if flight not in self._filling:
            task = asyncio.create_task(self._fill(scope, key[0], version))
            task.add_done_callback(lambda done: self._landed(flight, done))
            self._filling[flight] = task
        return self._filling[flight]

    def _landed(self, flight: tuple[Key, Version], task: asyncio.Task[Page]) -> None:
        del self._filling[flight]
        if task.cancelled() or task.exception() is not None:
            return
        key, page = flight[0], task.result()
        known = self._pages.get(key)
        if page.is_kept and (known is None or known.version <= page.version):
            self._drop(key)
            self._pages[key] = page
            self._bytes += _size(key, page)
            while self._bytes > self._most_bytes:
                self._drop(next(iter(self._pages)))

    def _drop(self, key: Key) -> None:
        page = self._pages.pop(key, None)
        self._bytes -= 0 if page is None else _size(key, page)

    async def _fill(self, scope: Scope, host: bytes, version: Version) -> Page:
        """Ask the application as nobody in particular, and collect its answer."""
        nobody = {**scope, "headers": [(b"host", host)], "client": None}
        asked = False
        status, headers, body = 500, [], bytearray()

        async def receive() -> Message:
            nonlocal asked
            if asked:
                await asyncio.Event().wait()
            asked = True
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status, headers = message["status"], list(message["headers"])
            else:
                body.extend(message.get("body", b""))

        await self._app(nobody, receive, send)
        etag = b'"%s"' % blake2b(body, digest_size=12).hexdigest().encode()
        page = Page(status, tuple(headers), bytes(body), etag, version)
        return replace(page, headers=_shared(headers, etag)) if page.is_kept else page


def _size(key: Key, page: Page) -> int:
    """Bytes that keeping a page takes: of a short answer, most are not its body."""
    return OVERHEAD + len(key[0]) + len(page.body)


def _shared(headers: Iterable[tuple[bytes, bytes]], etag: bytes) -> Headers:
    """Let browsers keep the page, but ask each time whether it is still the one."""
    kept = [(name, value) for name, value in headers if name not in (b"cache-control", b"etag")]
    return (*kept, (b"cache-control", b"no-cache"), (b"vary", b"Cookie"), (b"etag", etag))


async def _answer(page: Page, scope: Scope, send: Send) -> None:
    known = next((value for name, value in scope["headers"] if name == b"if-none-match"), None)
    status, headers, body = page.status, page.headers, page.body
    if known is not None and page.is_kept and _knows(known, page.etag):
        status, body = 304, b""
        headers = tuple((name, value) for name, value in headers if name != b"content-length")
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _knows(sent: bytes, etag: bytes) -> bool:
    tags = [tag.strip().removeprefix(b"W/") for tag in sent.split(b",")]
    return etag in tags or b"*" in tags
