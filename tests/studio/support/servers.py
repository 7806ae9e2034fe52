"""A studio in a process of its own, as people run it, that tests can talk to and kill.

`python -m tests.studio.support.servers '{"database": …, "port": …}'` is that process.
"""

from __future__ import annotations

import atexit
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.studio.support.people import People
from tests.waiting import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parents[3]
# So many requests come from one address in the tests that the limits for people would be in the way,
# and so would those on time where a machine is busy.
GENEROUS = (100_000, 1)
_held: list[socket.socket] = []


def own_port() -> int:
    """A port of the loopback interface that no other process is given while this one lives.

    A server may take seconds to start, and the system gives a port that is merely free to the next
    connection. It keeps a bound one, on which servers may listen, as they allow for reuse.
    """
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", 0))
    _held.append(probe)
    port: int = probe.getsockname()[1]
    return port


@atexit.register
def _release() -> None:
    for probe in _held:
        probe.close()


def settings_of(*, generous: bool = True, **asked: Any) -> Any:
    """Settings as asked, with one worker of each kind; rates and times stop nobody unless told to."""
    from exactformer.studio.settings import Rate, Settings

    limited = [each.name for each in fields(Settings) if each.name.endswith("_rate")]
    usual = dict.fromkeys(limited, Rate(*GENEROUS)) | {"compile_seconds": PATIENCE}
    alone = {"workers": 1, "playground_workers": 1}
    return Settings(**alone | (usual if generous else {}) | asked)


def hash_at_little_cost(patch: Callable[[Any, str, Any], None] = setattr) -> None:
    """Let passwords cost next to nothing; tests/studio/security/test_passwords.py sees their price."""
    from argon2 import PasswordHasher

    from exactformer.studio.security import passwords

    quick = PasswordHasher(time_cost=1, memory_cost=16, parallelism=1)
    patch(passwords, "_hasher", quick)
    patch(passwords, "_nobody", quick.hash("a password that no account has"))


@dataclass
class Server:
    """The process, its address, and the people who use it."""

    database: str
    log: Path
    settings: dict[str, Any] = field(default_factory=dict)
    port: int = field(default_factory=own_port)
    process: subprocess.Popen[bytes] = field(init=False, repr=False)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Server:
        """Start, or start again; returns when pages are answered."""
        settings = {"database": self.database, "host": "127.0.0.1", "port": self.port}
        settings |= self.settings
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.studio.support.servers", json.dumps(settings)],
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )
        try:
            with self.client() as client:
                wait_until(lambda: self._answers(client))
        except BaseException:
            self.kill()
            raise
        return self

    def _answers(self, client: httpx.Client) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return client.get("/login").status_code == 200
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self) -> None:
        """Ask to stop, as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()

    def client(self) -> httpx.Client:
        """A program that talks to it."""
        return httpx.Client(base_url=self.url, timeout=PATIENCE, trust_env=False)

    @contextmanager
    def people(self) -> Iterator[People]:
        """People of this server, who enter through its database, however long it is busy."""
        from exactformer.studio.storage import engine

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine, "BUSY_SECONDS", PATIENCE)
            database = engine.Database(self.database)
        people = People(self.client, database, settings_of(database=self.database))
        try:
            yield people
        finally:
            people.close()
            database.close()


def main() -> None:
    """Serve what the argument asks for; the playground's workers start when they are needed."""
    import uvicorn

    from exactformer.studio.app import create_app
    from exactformer.studio.playground import workers
    from exactformer.studio.storage import engine

    engine.BUSY_SECONDS = workers.START_SECONDS = PATIENCE
    hash_at_little_cost()
    settings = settings_of(**json.loads(sys.argv[1]))
    uvicorn.run(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        log_level="warning",
        timeout_graceful_shutdown=2,
    )


if __name__ == "__main__":
    main()
