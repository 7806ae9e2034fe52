"""Serving the studio: take the address, open everything, answer until somebody says stop."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from exactformer.studio.app import create_app
from exactformer.studio.database import open_database
from exactformer.studio.errors import AddressError, DatabaseError
from exactformer.studio.settings import Settings
from exactformer.studio.storage.engine import Database, parse_address

logger = logging.getLogger(__name__)

GRACE_SECONDS = 5
LOOK_SECONDS = 1
"""How often it is looked whether all serving processes are there."""
HEADER_SECONDS = 10.0
"""How long the head of a request may take to arrive."""
MOST_DESCRIPTORS = 65_536


def serve(settings: Settings, announce: Callable[[Settings, Database, str], None]) -> None:
    """Serve until interrupted; ``announce`` is told the address as soon as pages are answered."""
    if settings.single_user and not is_loopback(settings.host):
        raise AddressError(
            f"--single-user makes everybody who reaches {settings.host} an admin; it needs an "
            "address of this machine alone, such as --host 127.0.0.1"
        )
    if settings.workers > 1 and parse_address(settings.database).get_backend_name() == "sqlite":
        raise DatabaseError(
            f"--workers {settings.workers} needs PostgreSQL; the database is a file of SQLite, which "
            "serves one process. Add --database postgresql://user@host/name, or leave --workers out"
        )
    with listen(settings.host, settings.port) as door:
        address = shown_address(settings.host, door.getsockname()[1])
        _allow_many_connections()
        if settings.workers > 1:
            _serve_together(settings, door, lambda database: announce(settings, database, address))
        else:
            _serve_alone(settings, door, lambda db: announce(settings, db, address))


def _serve_alone(
    settings: Settings, door: socket.socket, ready: Callable[[Database], None]
) -> None:
    app = create_app(settings)
    app.state.playground.start()  # so that the first construction does not wait for torch
    server = _Server(configuration(app, settings), lambda: ready(app.state.database))
    with suppress(KeyboardInterrupt):  # passed on after what was under way has finished
        server.run(sockets=[door])


def _serve_together(
    settings: Settings, door: socket.socket, ready: Callable[[Database], None]
) -> None:
    """Serve by several processes that take connections from one socket; one that ends is replaced."""
    database = open_database(settings.database)
    workers = [_Worker(settings, door) for _ in range(settings.workers)]
    ended = threading.Event()
    with _told_to_end(ended):
        try:
            for worker in workers:
                worker.wait()
            ready(database)
            while not ended.wait(LOOK_SECONDS):
                for k, worker in enumerate(workers):
                    if not worker.is_alive:
                        logger.error("a serving process has ended; another takes its place")
                        workers[k] = _Worker(settings, door)
        finally:
            for worker in workers:
                worker.end()
            for worker in workers:
                worker.wait_for_end()
            database.close()


@contextmanager
def _told_to_end(ended: threading.Event) -> Iterator[None]:
    """Let the usual signals set ``ended`` instead of ending this process at once."""
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {each: signal.signal(each, lambda *_: ended.set()) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


class _Worker:
    """A serving process: told its settings on standard input, since an address may hold a password."""

    def __init__(self, settings: Settings, door: socket.socket) -> None:
        command = [sys.executable, "-P", "-m", __name__, str(door.fileno())]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[door.fileno()],
            start_new_session=True,  # Ctrl-C is passed on by the process that started it
        )
        assert self._process.stdin is not None
        self._process.stdin.write(f"{settings.to_json()}\n".encode())
        self._process.stdin.flush()

    @property
    def is_alive(self) -> bool:
        """Whether the process is still there."""
        return self._process.poll() is None

    def wait(self) -> None:
        """Return when pages are answered."""
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise DatabaseError("a serving process did not start; its messages stand above")

    def end(self) -> None:
        """Ask it to finish what is under way."""
        with suppress(ProcessLookupError):
            self._process.terminate()

    def wait_for_end(self) -> None:
        """Return when it has ended, which has its limit."""
        try:
            self._process.wait(GRACE_SECONDS + LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def _work() -> None:
    """Serve as one of several processes."""
    settings = Settings.from_json(sys.stdin.readline())
    threading.Thread(target=_end_with_the_first_process, daemon=True).start()
    with socket.socket(fileno=int(sys.argv[1])) as door:
        _allow_many_connections()
        _serve_alone(settings, door, lambda database: print("ready", flush=True))


def _end_with_the_first_process() -> None:
    """End when the process that started this one has ended, however it did."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def configuration(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """Return how the server runs: it believes a proxy's headers only where there is a proxy.

    By asyncio's own loop: under uvloop some of many connections wait for seconds while others are
    answered again and again (``benchmarks/studio.md``).
    """
    return uvicorn.Config(
        app,
        loop="asyncio",
        http=Punctual,
        log_level="warning",
        server_header=False,
        proxy_headers=settings.behind_proxy,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )


class Punctual(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Closes connections on which no request gets past its head: they would only take room."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to watch."""
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop watching."""
        self._watching.cancel()
        super().connection_lost(exc)

    def _watch(self) -> None:
        self._watching = self.loop.call_later(HEADER_SECONDS, self._look, self.cycle)

    def _look(self, before: Any) -> None:
        """Close the connection if no request has begun since ``before``, and none is answered."""
        if self.cycle is before and (before is None or before.response_complete):
            self.transport.close()
        else:
            self._watch()


def _allow_many_connections() -> None:
    """Raise this process's limit on open files as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(MOST_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def listen(host: str, port: int) -> socket.socket:
    """Take an address before anything else is done, so that a wrong one costs no time."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        door = socket.socket(family, kind, protocol)
    except OSError as error:
        raise AddressError(f"{host} is no address of this machine: {error.strerror}") from None
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        door.bind(place)
        door.listen(2048)
    except OSError as error:
        door.close()
        raise AddressError(
            f"cannot listen on {host}, port {port}: {error.strerror}; stop what listens there, or "
            f"choose another with --port {min(port + 1, 65535)}"
        ) from None
    return door


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def shown_address(host: str, port: int) -> str:
    """What to type into a browser.

    >>> shown_address("0.0.0.0", 8000), shown_address("::1", 80)
    ('http://127.0.0.1:8000', 'http://[::1]:80')
    """
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """Tells when it is there."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then tell."""
        await super().startup(sockets)
        if self.started:
            self._ready()


if __name__ == "__main__":
    _work()
