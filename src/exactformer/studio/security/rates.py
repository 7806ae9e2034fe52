"""How often something may be asked for, counted in the memory of this process.

Each name and key has a bucket that holds ``count`` drops and refills evenly over ``seconds``; a
request takes one drop. Full buckets are forgotten, so that memory stays small.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Callable
from hashlib import sha256

from starlette.requests import Request

from exactformer.core.words import plural
from exactformer.studio.errors import TooManyError
from exactformer.studio.settings import Rate

FORGET_BEYOND = 10_000
LONGEST_KEY = 80


class Rates:
    """Buckets by name and key."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._full_at: dict[tuple[str, str], float] = {}

    def take(self, name: str, key: str, rate: Rate) -> None:
        """Take a drop, or refuse and say when there will be one."""
        drop, key = rate.seconds / rate.count, _short(key)
        with self._lock:
            present = self._clock()
            full_at = max(self._full_at.get((name, key), present), present) + drop
            if (wait := full_at - present - rate.seconds) > 1e-9:
                raise _refusal(name, rate, wait)
            self._full_at[name, key] = full_at
            if len(self._full_at) > FORGET_BEYOND:
                self._full_at = {k: v for k, v in self._full_at.items() if v > present}


def _short(key: str) -> str:
    return key if len(key) <= LONGEST_KEY else sha256(key.encode(errors="replace")).hexdigest()


def _refusal(name: str, rate: Rate, wait: float) -> TooManyError:
    return TooManyError(
        f"too many requests ({name}: {rate} {'is' if rate.count == 1 else 'are'} allowed); try again "
        f"in {plural(max(1, round(wait)), 'second')}",
        wait,
    )


def limit(request: Request, name: str, rate: Rate, key: str | None = None) -> None:
    """Count this request: by ``key``, else by the account, else by the address it comes from."""
    request.app.state.rates.take(name, asker(request) if key is None else key, rate)


def asker(request: Request) -> str:
    """Return who asks: an account, or the address of a visitor."""
    actor = request.state.actor
    return address(request) if actor.id is None else f"account {actor.id}"


def address(request: Request) -> str:
    """Where a request comes from; of IPv6 the network, as a household has 2⁶⁴ addresses."""
    host = request.client.host if request.client else "unknown"
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return host
    if found.version == 4 or found.ipv4_mapped:
        return host
    return str(ipaddress.ip_network((found, 64), strict=False))
