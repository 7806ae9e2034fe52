"""Serving the studio: take the address, open everything, answer until somebody says stop."""

from __future__ import annotations

import asyncio
import ipaddress
import resource
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from exactformer.studio.app import create_app
from exactformer.studio.errors import AddressError
from exactformer.studio.settings import Settings

GRACE_SECONDS = 5
HEADER_SECONDS = 10.0
"""How long the head of a request may take to arrive."""
MOST_DESCRIPTORS = 65_536


def serve(settings: Settings, announce: Callable[[FastAPI, str], None]) -> None:
    """Serve until interrupted; ``announce`` is told the address as soon as pages are answered."""
    if settings.single_user and not is_loopback(settings.host):
        raise AddressError(
            f"--single-user makes everybody who reaches {settings.host} an admin; it needs an "
            "address of this machine alone, such as --host 127.0.0.1"
        )
    with listen(settings.host, settings.port) as door:
        app = create_app(settings)
        app.state.playground.start()  # so that the first construction does not wait for torch
        address = shown_address(settings.host, door.getsockname()[1])
        _allow_many_connections()
        config = configuration(app, settings)
        server = _Server(config, lambda: announce(app, address))
        with suppress(KeyboardInterrupt):  # passed on after what was under way has finished
            server.run(sockets=[door])


def configuration(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """Return how the server runs: it believes a proxy's headers only where there is a proxy."""
    return uvicorn.Config(
        app,
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
