"""Serving the studio: take the address, open everything, answer until somebody says stop."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from contextlib import suppress

import uvicorn
from fastapi import FastAPI

from exactformer.studio.app import create_app
from exactformer.studio.errors import AddressError
from exactformer.studio.settings import Settings

GRACE_SECONDS = 5


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
        config = uvicorn.Config(
            app,
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        server = _Server(config, lambda: announce(app, address))
        with suppress(KeyboardInterrupt):  # passed on after what was under way has finished
            server.run(sockets=[door])


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
