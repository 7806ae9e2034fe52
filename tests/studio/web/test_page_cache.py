"""Shared pages are computed once, never older than a commit, and never somebody's own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from exactformer.studio.web import page_cache as caching
from exactformer.studio.web.page_cache import PageCache
from tests.studio.support.event_loops import complete

COOKIE = "session"


@dataclass
class Studio:
    """An application that counts what it is asked; ``text`` is what is stored in its database."""

    text: str = "old"
    version: int = 0
    asked: list = field(default_factory=list)
    headers: tuple = ()
    status: int = 200
    read: asyncio.Event | None = None
    finish: asyncio.Event | None = None

    async def __call__(self, scope, receive, send):
        """Read the text, then (if the test wants it) wait before answering."""
        self.asked.append(scope)
        assert (await receive())["body"] == b""
        text = self.text
        if self.read is not None:
            self.read.set()
            await self.finish.wait()
        cookies = [value for name, value in scope["headers"] if name == b"cookie"]
        body = b" ".join([scope["path"].encode(), text.encode(), *cookies])
        headers = [(b"content-length", b"%d" % len(body)), *self.headers]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def write(self, text):
        """Commit, here or in another process."""
        self.text = text
        self.version += 1

    def cache(self, **options):
        return PageCache(self, self.read_version, COOKIE, **options)

    async def read_version(self):
        return (self.version,)


async def ask(cache, path="/papers", method="GET", query=b"", **headers):
    """Return status, headers and body."""
    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "query_string": query}
    messages = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        messages.append(message)

    await cache(scope | {"headers": sent, "client": ("203.0.113.7", 1)}, receive, send)
    start, body = messages
    return start["status"], dict(start["headers"]), body["body"]


def test_a_page_is_computed_once_and_asked_for_by_nobody_in_particular():
    async def run():
        studio = Studio()
        cache = studio.cache()
        first = await ask(cache, host="here", cookie="colour=red", user_agent="me")
        assert await ask(cache, host="here", cookie="colour=blue") == first
        (scope,) = studio.asked
        assert scope["headers"] == [(b"host", b"here")]
        assert scope["client"] is None
        assert first[2] == b"/papers old"

    complete(run())


def test_path_query_and_host_tell_pages_apart():
    async def run():
        studio = Studio()
        cache = studio.cache()
        for kind in ({}, {"query": b"q=1"}, {"host": "there"}, {"path": "/map"}):
            await ask(cache, **kind)
            await ask(cache, **kind)
        assert len(studio.asked) == 4

    complete(run())


def test_sessions_parts_of_pages_changes_and_other_paths_go_straight_to_the_application():
    async def run():
        studio = Studio()
        cache = studio.cache()
        _, _, mine = await ask(cache, cookie="session=mine")
        assert b"session=mine" in mine
        for request in (
            {"cookie": "a=b; session=hers"},
            {"hx_request": "true"},
            {"authorization": "Bearer x"},
            {"method": "POST"},
            {"path": "/account"},
            {"path": "/papers/x/edit"},
            {"path": "/api/v1/papers/x/export"},
            {"query": b"q=" + b"x" * 500},
        ):
            before = len(studio.asked)
            await ask(cache, **request)
            await ask(cache, **request)
            assert len(studio.asked) == before + 2, request
        assert (await ask(cache))[2] == b"/papers old"

    complete(run())


def test_an_answer_that_sets_a_cookie_is_given_to_nobody_else_even_at_once():
    async def run():
        studio = Studio(headers=((b"set-cookie", b"session=new"),))
        cache = studio.cache()
        answers = await asyncio.gather(*(ask(cache) for _ in range(5)))
        assert len(studio.asked) == 5
        assert all(b"set-cookie" in headers for _, headers, _ in answers)
        await ask(cache)
        assert len(studio.asked) == 6

    complete(run())


def test_refusals_are_not_kept():
    async def run():
        studio = Studio(status=404)
        cache = studio.cache()
        await ask(cache)
        status, headers, _ = await ask(cache)
        assert status == 404
        assert b"etag" not in headers
        assert len(studio.asked) == 2

    complete(run())


def test_a_commit_is_seen_by_the_next_request():
    async def run():
        studio = Studio()
        cache = studio.cache()
        await ask(cache)
        studio.write("new")
        assert (await ask(cache))[2] == b"/papers new"

    complete(run())


def test_a_computation_that_read_before_a_commit_and_ends_after_it_leaves_nothing_behind():
    async def run():
        studio = Studio(read=asyncio.Event(), finish=asyncio.Event())
        cache = studio.cache()
        slow = asyncio.create_task(ask(cache))
        await studio.read.wait()
        studio.write("new")
        after = asyncio.create_task(ask(cache))  # must not wait for the old computation's answer
        await asyncio.sleep(0)
        studio.finish.set()
        assert (await slow)[2] == b"/papers old"
        assert (await after)[2] == b"/papers new"
        assert (await ask(cache))[2] == b"/papers new"
        assert len(studio.asked) == 2

    complete(run())


def test_of_many_who_ask_at_once_one_computes_even_if_she_leaves():
    async def run():
        studio = Studio(read=asyncio.Event(), finish=asyncio.Event())
        cache = studio.cache()
        crowd = [asyncio.create_task(ask(cache)) for _ in range(64)]
        await studio.read.wait()
        crowd[0].cancel()
        await asyncio.sleep(0)
        studio.finish.set()
        answers = await asyncio.gather(*crowd[1:])
        assert {body for _, _, body in answers} == {b"/papers old"}
        assert len(studio.asked) == 1

    complete(run())


def test_memory_is_bounded_and_the_page_longest_unused_goes_first():
    async def run():
        studio = Studio(text="x" * 100)
        cache = studio.cache(most_bytes=3 * (caching.OVERHEAD + 120))
        for path in ("/papers/1", "/papers/2", "/papers/3"):
            await ask(cache, path)
        await ask(cache, "/papers/1")
        await ask(cache, "/papers/4")
        assert len(studio.asked) == 4
        await ask(cache, "/papers/1")
        assert len(studio.asked) == 4
        await ask(cache, "/papers/2")
        assert len(studio.asked) == 5

    complete(run())


def test_short_answers_and_long_names_of_hosts_count_for_what_they_take():
    async def run():
        cache = Studio(text="").cache(most_bytes=100 * caching.OVERHEAD)
        for number in range(200):
            await ask(cache, "/api/v1/search", query=b"q=%d" % number)
        assert 50 < len(cache._pages) < 100
        for number in range(200):
            await ask(cache, host=f"{number}." + "long" * 10_000)
        assert len(cache._pages) < 10
        for key in list(cache._pages):
            cache._drop(key)
        assert cache._bytes == 0

    complete(run())


def test_a_page_too_large_is_shared_by_those_who_wait_and_not_kept(monkeypatch):
    monkeypatch.setattr(caching, "LARGEST_PAGE", 50)

    async def run():
        studio = Studio(text="x" * 100)
        cache = studio.cache()
        await asyncio.gather(ask(cache), ask(cache))
        assert len(studio.asked) == 1
        await ask(cache)
        assert len(studio.asked) == 2

    complete(run())


def test_browsers_may_keep_a_page_and_ask_whether_it_changed():
    async def run():
        studio = Studio(headers=((b"cache-control", b"no-store"), (b"x", b"y")))
        cache = studio.cache()
        status, headers, body = await ask(cache)
        assert headers[b"cache-control"] == b"no-cache"
        assert (headers[b"x"], headers[b"vary"]) == (b"y", b"Cookie")
        etag = headers[b"etag"].decode()
        for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
            status, again, nothing = await ask(cache, if_none_match=known)
            assert (status, again[b"etag"], nothing) == (304, etag.encode(), b"")
        studio.write("new")
        status, _, body = await ask(cache, if_none_match=etag)
        assert (status, body) == (200, b"/papers new")

    complete(run())


def test_an_error_reaches_everybody_who_waited_and_nothing_is_kept():
    async def run():
        asked = []

        async def broken(scope, receive, send):
            asked.append(scope)
            await asyncio.sleep(0)
            raise OSError("the disk is gone")

        cache = PageCache(broken, Studio().read_version, COOKIE)
        answers = await asyncio.gather(ask(cache), ask(cache), return_exceptions=True)
        assert [type(answer) for answer in answers] == [OSError, OSError]
        assert len(asked) == 1
        assert not cache._filling

    complete(run())
