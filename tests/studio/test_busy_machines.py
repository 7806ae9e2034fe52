"""What tests of the studio set up does not fail because the machine is busy."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.studio.support.servers import Server, own_port
from tests.waiting import PATIENCE


def test_a_port_is_kept_for_the_server_that_starts_later() -> None:
    port = own_port()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    for _ in range(2):  # a server that was killed starts again
        with socket.create_server(("127.0.0.1", port)) as server:  # which allows for reuse
            socket.create_connection(server.getsockname()).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_people_enter_however_long_the_server_writes(
    template_database: Path, tmp_path: Path
) -> None:
    server: Any = Server(f"sqlite:///{template_database}", tmp_path / "log")
    with server.people() as people, people.database.session() as db:
        assert db.execute(text("PRAGMA busy_timeout")).scalar() == 1000 * PATIENCE
