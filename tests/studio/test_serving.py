"""Taking an address: which are free, which are ours alone, and what to type."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import uvicorn

from exactformer.studio import serving
from exactformer.studio.errors import AddressError
from exactformer.studio.serving import configuration, is_loopback, listen, serve, shown_address
from exactformer.studio.settings import Settings
from tests.waiting import PATIENCE, wait_until


def test_an_address_that_is_taken_is_said_so_with_the_way_out() -> None:
    with listen("127.0.0.1", 0) as door:
        port = door.getsockname()[1]
        with pytest.raises(AddressError, match=rf"port {port}: .*use.*--port {port + 1}"):
            listen("127.0.0.1", port)
    listen("127.0.0.1", port).close()


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(AddressError, match=host):
        listen(host, 0)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example.org", ""])
def test_a_desk_of_one_is_not_shown_to_others(host: str, tmp_path: Path) -> None:
    settings = Settings(f"sqlite:///{tmp_path / 'studio.db'}", host=host, single_user=True)
    with pytest.raises(AddressError, match="--single-user"):
        serve(settings, lambda settings, database, address: None)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "localhost"])
def test_loopback_addresses_are_ours_alone(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("studio.example", "http://studio.example:80"),
    ],
)
def test_what_is_shown_can_be_opened(host: str, shown: str) -> None:
    assert shown_address(host, 80) == shown


def test_what_is_asked_before_anybody_answers_is_kept() -> None:
    with listen("localhost", 0) as door, socket.create_connection(door.getsockname()[:2]) as early:
        early.sendall(b"early")
        answering, _ = door.accept()
        with answering:
            assert answering.recv(5) == b"early"


async def whereabouts(scope: Any, receive: Any, send: Any) -> None:
    """An application that says from where it is asked, and takes its time over /slow."""
    if scope["type"] != "http":
        return
    if scope["path"] == "/slow":
        await asyncio.sleep(3 * serving.HEADER_SECONDS)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["client"][0].encode()})


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Callable[[], None]]]:
    """The address of a server that waits a tenth of a second for a head, and what lets it begin.

    What was sent before it begins has come in time, however busy the machine is.
    """
    monkeypatch.setattr(serving, "HEADER_SECONDS", 0.1)
    with listen("127.0.0.1", 0) as door:
        config = configuration(whereabouts, Settings("sqlite://"))  # type: ignore[arg-type]
        config.lifespan = "off"
        server = uvicorn.Server(config)
        thread = Thread(target=server.run, kwargs={"sockets": [door]})

        def begin() -> None:
            thread.start()
            wait_until(lambda: server.started)

        yield door.getsockname(), begin
        server.should_exit = True
        thread.join(PATIENCE)


def test_a_request_that_never_gets_past_its_head_is_let_go(impatient: Any) -> None:
    address, begin = impatient
    with socket.create_connection(address, PATIENCE) as second:
        second.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        begin()
        assert second.recv(12) == b"HTTP/1.1 200"
        with suppress(ConnectionError):  # let go before this was sent
            second.sendall(b"GET / HTTP/1.1\r\n")
            while second.recv(4096):
                pass
    for sent in (b"GET / HTTP/1.1\r\nHost: x\r\n", b""):
        with socket.create_connection(address, PATIENCE) as half, suppress(ConnectionError):
            half.sendall(sent)
            assert half.recv(1) == b""


def test_a_long_answer_is_waited_for(impatient: Any) -> None:
    address, begin = impatient
    with socket.create_connection(address, PATIENCE) as slow:
        slow.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        begin()
        assert slow.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize("behind_proxy", [False, True])
def test_a_proxys_word_is_taken_where_there_is_one(behind_proxy: bool) -> None:
    config = configuration(whereabouts, Settings("sqlite://", behind_proxy=behind_proxy))  # type: ignore[arg-type]
    config.load()
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "path": "/",
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        "headers": [(b"x-forwarded-for", b"192.0.2.7")],
    }
    # In a thread of its own: a browser that another test opened keeps a loop running in this one.
    with ThreadPoolExecutor(1) as thread:
        answer: Any = config.loaded_app(scope, None, send)  # type: ignore[arg-type]
        thread.submit(asyncio.run, answer).result()
    assert sent[1]["body"] == (b"192.0.2.7" if behind_proxy else b"127.0.0.1")
