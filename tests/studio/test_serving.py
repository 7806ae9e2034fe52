"""Taking an address: which are free, which are ours alone, and what to type."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from exactformer.studio.errors import AddressError
from exactformer.studio.serving import is_loopback, listen, serve, shown_address
from exactformer.studio.settings import Settings


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
        serve(settings, lambda app, address: None)
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
