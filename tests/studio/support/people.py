"""The people of the tests: one for every role, each with a browser of her own.

Accounts and sessions are written into the database directly; logging in has tests of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tests.studio.support.forms import TOKEN, form_of

PASSWORD = "correct horse battery staple"
ROLES = ("reader", "curator", "admin")
_counter = itertools.count(1)


@cache
def password_hash() -> str:
    """A hash of the password, computed once."""
    from exactformer.studio.security.passwords import hash_password

    return hash_password(PASSWORD)


@dataclass
class Person:
    """Somebody with a client; ``csrf`` is the token of her session, and her client sends it."""

    role: str
    client: Any
    handle: str = ""
    id: int | None = None
    csrf: str = ""

    def take_session(self) -> Person:
        """Open a form that begins a session, as a visitor's forms need one, too."""
        (self.csrf,) = form_of(self.client.get("/login"), "/login")[TOKEN]
        self.client.headers["X-CSRF-Token"] = self.csrf
        return self

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Ask something, and forget the cookies that the answer brought."""
        before = self.cookies
        yield
        self.client.cookies.clear()
        for name, value in before.items():
            self.client.cookies.set(name, value)

    @property
    def cookies(self) -> dict[str, str]:
        """What her browser holds."""
        return {cookie.name: cookie.value or "" for cookie in self.client.cookies.jar}


def enter(database: Any, settings: Any, handle: str, role: str, client: Any) -> Person:
    """Write an account and its session into the database, and give the client its cookie."""
    from exactformer.studio.accounts.tables import User
    from exactformer.studio.security import sessions

    with database.writing() as db:
        user = User(
            handle=handle, name=handle.capitalize(), password_hash=password_hash(), role=role
        )
        db.add(user)
        db.flush()
        browser = sessions.begin(db, settings, user, "tests")
    client.cookies.set(sessions.cookie_name(settings), browser.token)
    client.headers["X-CSRF-Token"] = browser.csrf_token
    return Person(role, client, handle, user.id, browser.csrf_token)


@dataclass
class People:
    """Visitor, reader, another reader, curator and admin, there when first asked for."""

    new_client: Callable[[], Any]
    database: Any
    settings: Any
    known: dict[str, Person] = field(default_factory=dict)
    clients: list[Any] = field(default_factory=list)

    def new(self, role: str = "reader", handle: str = "") -> Person:
        """Somebody nobody has met, logged in."""
        handle = handle or f"{role}{next(_counter)}"
        return enter(self.database, self.settings, handle, role, self._client())

    def _client(self) -> Any:
        self.clients.append(self.new_client())
        return self.clients[-1]

    def _the(self, key: str, role: str) -> Person:
        if key not in self.known:
            self.known[key] = self.new(role)
        return self.known[key]

    @property
    def visitor(self) -> Person:
        """Somebody without an account, each time with a fresh browser."""
        return Person("visitor", self._client())

    @property
    def reader(self) -> Person:
        """The reader."""
        return self._the("reader", "reader")

    @property
    def other(self) -> Person:
        """Another reader."""
        return self._the("other", "reader")

    @property
    def curator(self) -> Person:
        """The curator."""
        return self._the("curator", "curator")

    @property
    def admin(self) -> Person:
        """The admin."""
        return self._the("admin", "admin")

    def close(self) -> None:
        """Close all clients."""
        for client in self.clients:
            client.close()
