"""Serving the studio: take the address, open everything, answer until somebody says stop."""

from __future__ import annotations

import asyncio
import ipaddress
import resource
import socket
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.supervisors import Multiprocess

from exactformer.studio.app import create_app
from exactformer.studio.database import open_database
from exactformer.studio.errors import AddressError, DatabaseError
from exactformer.studio.settings import Settings
from exactformer.studio.storage.dialects import parse_address
from exactformer.studio.storage.engine import Database

GRACE_SECONDS = 5
START_SECONDS = 60
"""How long one of several processes may take to answer before another takes its place."""
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


def _application(settings: Settings) -> FastAPI:
    """Return the application; the first construction does not wait for torch."""
    app = create_app(settings)
    app.state.playground.start()
    return app


def _serve_alone(
    settings: Settings, door: socket.socket, ready: Callable[[Database], None]
) -> None:
    app = _application(settings)
    server = _Server(configuration(app, settings), lambda: ready(app.state.database))
    with suppress(KeyboardInterrupt):  # passed on after what was under way has finished
        server.run(sockets=[door])


def _serve_together(
    settings: Settings, door: socket.socket, ready: Callable[[Database], None]
) -> None:
    """Serve by several processes of uvicorn; who asks before they are there waits for them."""
    with closing(open_database(settings.database)) as database:
        ready(database)
    config = configuration(partial(_application, settings), settings, factory=True)
    Multiprocess(config, [door]).run()


def configuration(app: Any, settings: Settings, factory: bool = False) -> uvicorn.Config:
    """Return how the server runs: it believes a proxy's headers only where there is a proxy.

    By asyncio's own loop: under uvloop some of many connections wait for seconds while others are
    answered again and again (``benchmarks/studio.md``).
    """
    return uvicorn.Config(
        app,
        factory=factory,
        workers=settings.workers,
        timeout_worker_healthcheck=START_SECONDS,
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
