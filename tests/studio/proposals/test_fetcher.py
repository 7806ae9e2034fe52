"""Fetching: only from listed hosts, only from public addresses, within bytes and seconds, never inside.

A server of the test's own stands for the world; the resolver is a table.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from exactformer.studio.errors import BusyError, ForbiddenError, InvalidError
from exactformer.studio.proposals.fetcher import Fetcher, is_public
from tests.waiting import PATIENCE

PUBLIC = "93.184.216.34"
NAMES = {
    "good.example": [PUBLIC],
    "inside.example": ["10.0.0.7"],
    "half.example": [PUBLIC, "127.0.0.1"],
    "mapped.example": ["::ffff:127.0.0.1"],
    "none.example": [],
}
PLACES = {
    "/record": (200, {}, b"hello"),
    "/missing": (404, {}, b""),
    "/large": (200, {}, b"x" * 3000),
    "/on": (302, {"Location": "/record"}, b""),
    "/loop": (302, {"Location": "/loop"}, b""),
    "/nowhere": (302, {}, b""),
    "/inside": (302, {"Location": "https://inside.example/record"}, b""),
    "/unlisted": (302, {"Location": "https://evil.example/record"}, b""),
    "/plain": (302, {"Location": "http://good.example/record"}, b""),
    "/file": (302, {"Location": "file:///etc/passwd"}, b""),
    "/address": (302, {"Location": "https://127.0.0.1/record"}, b""),
    "/port": (302, {"Location": "https://good.example:8443/record"}, b""),
}


class World(BaseHTTPRequestHandler):
    """Answers as the table says; one place answers a byte at a time, forever."""

    def do_GET(self) -> None:
        if self.path == "/slow":
            try:
                while True:
                    self.wfile.write(b"H")
                    self.wfile.flush()
                    time.sleep(0.02)
            except OSError:
                return
        status, headers, body = PLACES[self.path.partition("?")[0]]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), World)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture
def asked() -> list[tuple[str, str]]:
    """Hosts that were asked, and the addresses that the connections went to."""
    return []


@pytest.fixture
def fetcher(port: int, asked: list[tuple[str, str]]) -> Fetcher:
    def open_there(host: str, address: str, seconds: float) -> HTTPConnection:
        asked.append((host, address))
        return HTTPConnection("127.0.0.1", port, timeout=seconds)

    listed = tuple(NAMES)
    return Fetcher(listed, PATIENCE, 2000, lambda host: NAMES[host], open_there)


def test_a_record_is_fetched_from_the_address_that_was_checked(fetcher: Any, asked: Any) -> None:
    assert fetcher.fetch("https://good.example/record") == b"hello"
    assert fetcher.fetch("https://GOOD.example/on?q=ä b") == b"hello"
    assert set(asked) == {("good.example", PUBLIC)}


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example/record",
        "https://inside.example/record",
        "https://half.example/record",
        "https://mapped.example/record",
        "https://none.example/record",
        "http://good.example/record",
        "file:///etc/passwd",
        "ftp://good.example/record",
        "https://good.example:8443/record",
        "https://good.example:https/record",
        "https://ada@good.example/record",
        "https://127.0.0.1/record",
        "https://[::1]/record",
        "https:///record",
        "good.example/record",
    ],
)
def test_nothing_is_asked_that_is_not_allowed(fetcher: Any, asked: Any, address: str) -> None:
    with pytest.raises(ForbiddenError):
        fetcher.fetch(address)
    assert asked == []


@pytest.mark.parametrize("place", ["inside", "unlisted", "plain", "file", "address", "port"])
def test_no_redirect_leads_where_a_first_request_may_not(
    fetcher: Any, asked: Any, place: str
) -> None:
    with pytest.raises(ForbiddenError):
        fetcher.fetch(f"https://good.example/{place}")
    assert asked == [("good.example", PUBLIC)]


def test_a_name_that_changes_its_mind_is_looked_up_once_per_connection(port: int) -> None:
    """The second answer of the resolver, an inside one, is never connected to."""
    answers = iter([[PUBLIC], ["127.0.0.1"]])
    places: list[str] = []

    def open_there(host: str, address: str, seconds: float) -> HTTPConnection:
        places.append(address)
        return HTTPConnection("127.0.0.1", port, timeout=seconds)

    fetcher = Fetcher(("good.example",), PATIENCE, 2000, lambda host: next(answers), open_there)
    with pytest.raises(ForbiddenError):
        fetcher.fetch("https://good.example/on")
    assert places == [PUBLIC]


def test_bytes_redirects_and_statuses_are_bounded(fetcher: Any) -> None:
    with pytest.raises(InvalidError, match="more than 2,000 bytes"):
        fetcher.fetch("https://good.example/large")
    with pytest.raises(InvalidError, match="leads on more than 3 times"):
        fetcher.fetch("https://good.example/loop")
    with pytest.raises(InvalidError, match="leads on to nowhere"):
        fetcher.fetch("https://good.example/nowhere")
    with pytest.raises(InvalidError, match="status 404"):
        fetcher.fetch("https://good.example/missing")


def test_an_answer_that_never_ends_is_cut_off(fetcher: Any) -> None:
    short = Fetcher(fetcher.hosts, 0.3, 2000, fetcher.resolve, fetcher.open)
    with pytest.raises((BusyError, InvalidError)):
        short.fetch("https://good.example/slow")
    blocked = threading.Event()

    def resolve(host: str) -> list[str]:
        return [str(blocked.wait(PATIENCE))]

    waiting = Fetcher(fetcher.hosts, 0.1, 2000, resolve, fetcher.open)
    with pytest.raises(BusyError, match="cannot be found"):
        waiting.fetch("https://good.example/record")
    blocked.set()


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0", "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254",
        "100.64.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
        "::", "::1", "fe80::1", "fc00::1", "ff02::1", "2001:db8::1", "::ffff:8.8.8.8",
        "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::", "fe80::1%lo", "localhost", "",
    ],
)  # fmt: skip
def test_inside_addresses_are_known(address: str) -> None:
    assert not is_public(address)


def test_public_addresses_are_known() -> None:
    assert is_public("8.8.8.8")
    assert is_public("2606:4700::1111")
