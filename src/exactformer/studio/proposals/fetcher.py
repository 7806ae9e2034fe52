"""Fetching a record from another host, only where the owner of the server allows it.

Hosts are listed by the owner; none is the default. Only https, on its usual port. A name is looked up
once, every address it has must be a public one, and the connection goes to an address that was checked,
so that a name cannot change its mind meanwhile. Redirects are followed by the same rules. Bytes and
seconds are bounded for all of it together.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooSlow
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import quote, urljoin, urlsplit

from exactformer.studio.errors import BusyError, ForbiddenError, InvalidError

PORT = 443
REDIRECTS = 3
CHUNK = 64 * 1024
_TRANSLATING = [ipaddress.ip_network(text) for text in ("64:ff9b::/96", "64:ff9b:1::/48")]
"""Addresses of version 6 that stand for one of version 4, which may be an inside one."""

Resolve = Callable[[str], list[str]]
Open = Callable[[str, str, float], HTTPConnection]


def resolve(host: str) -> list[str]:
    """Return the addresses of a host."""
    found = socket.getaddrinfo(host, PORT, type=socket.SOCK_STREAM)
    return sorted({str(place[0]) for *_, place in found})


class _Pinned(HTTPSConnection):
    """A connection to an address that was checked, with the certificate of the host's name."""

    def __init__(self, host: str, address: str, seconds: float) -> None:
        self._checked = ssl.create_default_context()
        super().__init__(host, PORT, timeout=seconds, context=self._checked)
        self._address = address

    def connect(self) -> None:
        """Connect, and look up nothing."""
        plain = socket.create_connection((self._address, PORT), self.timeout)
        self.sock = self._checked.wrap_socket(plain, server_hostname=self.host)


@dataclass(frozen=True)
class Fetcher:
    """Fetches from ``hosts``; ``resolve`` and ``open`` are how it reaches the network."""

    hosts: tuple[str, ...] = ()
    seconds: float = 10.0
    most_bytes: int = 1 << 20
    resolve: Resolve = resolve
    open: Open = _Pinned

    def allows(self, host: str) -> bool:
        """Whether the owner of the server has listed this host."""
        return host.lower() in {name.lower() for name in self.hosts}

    def fetch(self, address: str) -> bytes:
        """Return what lies at an address; a refusal says why it is not fetched."""
        deadline = time.monotonic() + self.seconds
        for _ in range(REDIRECTS + 1):
            answer = self._ask(address, deadline)
            if isinstance(answer, bytes):
                return answer
            address = urljoin(address, answer)
        raise InvalidError(f"The address leads on more than {REDIRECTS} times.")

    def _ask(self, address: str, deadline: float) -> bytes | str:
        """Return the body of an answer, or where it leads on to."""
        host, path = self._allowed(address)
        pinned = self._checked_address(host, deadline)
        connection = self.open(host, pinned, _left(deadline))
        clock = threading.Timer(_left(deadline), _cut, [connection])
        clock.start()  # a socket's own limit begins anew with every byte
        try:
            headers = {"Host": host, "User-Agent": "exactformer-studio", "Connection": "close"}
            connection.request("GET", path, headers=headers)
            return self._body(connection.getresponse(), host)
        except (OSError, HTTPException) as error:
            raise BusyError(f"{host} does not answer ({type(error).__name__}).") from None
        finally:
            clock.cancel()
            connection.close()

    def _allowed(self, address: str) -> tuple[str, str]:
        parts = urlsplit(address)
        host = parts.hostname or ""
        try:
            usual = parts.port in (None, PORT)
        except ValueError:
            usual = False
        if parts.scheme != "https" or not usual or parts.username is not None:
            raise ForbiddenError("Only https addresses on the usual port are fetched.")
        if not self.allows(host):
            raise ForbiddenError(f"This server does not fetch from {host[:100]!r}.")
        path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
        return host, path + (
            f"?{quote(parts.query, safe='/%:@!$&()*+,;=?~-._')}" if parts.query else ""
        )

    def _checked_address(self, host: str, deadline: float) -> str:
        pool = ThreadPoolExecutor(1)
        try:
            found = pool.submit(self.resolve, host).result(_left(deadline))
        except (OSError, TooSlow, UnicodeError):
            raise BusyError(f"The address of {host} cannot be found.") from None
        finally:
            pool.shutdown(wait=False)
        if not found or not all(map(is_public, found)):
            raise ForbiddenError(f"{host} leads to an address inside, which is not fetched from.")
        return found[0]

    def _body(self, response: HTTPResponse, host: str) -> bytes | str:
        if response.status in (301, 302, 303, 307, 308):
            if target := response.getheader("Location"):
                return target
            raise InvalidError(f"{host} leads on to nowhere.")
        if response.status != 200:
            raise InvalidError(f"{host} has no such record (status {response.status}).")
        body = bytearray()
        while chunk := response.read(CHUNK):
            body += chunk
            if len(body) > self.most_bytes:
                raise InvalidError(f"{host} answers with more than {self.most_bytes:,} bytes.")
        return bytes(body)


def is_public(address: str) -> bool:
    """Whether an address is one of the public network, and stands for no other.

    >>> [is_public(one) for one in ("93.184.216.34", "10.0.0.1", "::ffff:127.0.0.1", "fe80::1%eth0")]
    [True, False, False, False]
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        if found.scope_id is not None or found.sixtofour or found.teredo:
            return False
        if found.ipv4_mapped is not None or any(found in net for net in _TRANSLATING):
            return False
    return found.is_global and not found.is_multicast and not found.is_reserved


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise BusyError("The other server took too long.")
    return left


def _cut(connection: HTTPConnection) -> None:
    """End a connection whose time is over, whatever it is waiting for."""
    if connection.sock is not None:
        with suppress(OSError):  # closed already
            connection.sock.shutdown(socket.SHUT_RDWR)
