"""How often something may be asked for: counted in memory, or in the database that processes share.

Each name and key has a bucket that holds ``count`` drops and refills evenly over ``seconds``; a
request takes one drop. Full buckets are forgotten, so that memory stays small.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Callable
from hashlib import sha256

from sqlalchemy import text
from starlette.requests import Request

from exactformer.core.words import plural
from exactformer.studio.errors import TooManyError
from exactformer.studio.settings import Rate
from exactformer.studio.storage.engine import Database

__all__ = ["Rate", "Rates", "SharedRates", "limit"]

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


class SharedRates:
    """Buckets in PostgreSQL, by its clock: all processes of a studio take from the same ones."""

    def __init__(self, database: Database) -> None:
        self._engine = database.engine.execution_options(isolation_level="AUTOCOMMIT")
        self._taken = 0

    def take(self, name: str, key: str, rate: Rate) -> None:
        """Take a drop, or refuse and say when there will be one."""
        bucket, drop = {"name": name, "key": _short(key)}, rate.seconds / rate.count
        asked = {**bucket, "drop": drop, "seconds": rate.seconds}
        with self._engine.connect() as connection:
            if connection.execute(_TAKE, asked).first() is None:
                full_in = connection.scalar(_FULL_IN, bucket) or 0.0
                raise _refusal(name, rate, float(full_in) + drop - rate.seconds)
            self._taken += 1
            if self._taken % FORGET_BEYOND == 0:
                connection.execute(_FORGET)


_NOW = "extract(epoch FROM clock_timestamp())"
_TAKE = text(
    f"INSERT INTO rates AS known (name, key, full_at) VALUES (:name, :key, {_NOW} + :drop) "
    f"ON CONFLICT (name, key) DO UPDATE SET full_at = greatest(known.full_at, {_NOW}) + :drop "
    f"WHERE greatest(known.full_at, {_NOW}) + :drop - {_NOW} - :seconds <= 1e-9 RETURNING full_at"
)
_FULL_IN = text(f"SELECT full_at - {_NOW} FROM rates WHERE name = :name AND key = :key")
_FORGET = text(f"DELETE FROM rates WHERE full_at < {_NOW}")


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
