"""The people of the tests: one for every role, each with a browser of her own.

Accounts are written into the database directly, with a hash that is cheap to verify; logging in
goes through the same door as everybody's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

PASSWORD = "correct horse battery staple"
ROLES = ("reader", "curator", "admin")
_counter = itertools.count(1)


@cache
def cheap_hash() -> str:
    """An argon2id hash of the password that costs nothing to check."""
    from argon2 import PasswordHasher

    return PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)


def add_account(db: Any, handle: str, role: str = "reader", name: str = "") -> int:
    """Write an account into the database of a session; its number."""
    from exactformer.studio.database.tables import User

    user = User(
        handle=handle, name=name or handle.capitalize(), password_hash=cheap_hash(), role=role
    )
    db.add(user)
    db.flush()
    return user.id


@dataclass
class Person:
    """Somebody with a client; ``csrf`` is the token of her session, and her client sends it."""

    role: str
    client: Any
    handle: str = ""
    id: int | None = None
    csrf: str = ""

    def log_in(self) -> Person:
        """Take a session, then an account."""
        before = self.client.get("/api/v1/session")
        assert before.status_code == 200, before.text
        answer = self.client.post(
            "/api/v1/session",
            json={"handle": self.handle, "password": PASSWORD},
            headers={"X-CSRF-Token": before.json()["csrf_token"]},
        )
        assert answer.status_code < 300, answer.text
        self.csrf = answer.json()["csrf_token"]
        self.client.headers["X-CSRF-Token"] = self.csrf
        return self

    @property
    def cookies(self) -> dict[str, str]:
        """What her browser holds."""
        return {cookie.name: cookie.value or "" for cookie in self.client.cookies.jar}


@dataclass
class People:
    """Visitor, reader, another reader, curator and admin, logged in when first asked for."""

    new_client: Callable[[], Any]
    add: Callable[[str, str], int]
    known: dict[str, Person] = field(default_factory=dict)

    def new(self, role: str = "reader") -> Person:
        """Somebody nobody has met, logged in."""
        handle = f"{role}{next(_counter)}"
        person = Person(role, self.new_client(), handle, self.add(handle, role))
        return person.log_in()

    def _the(self, key: str, role: str) -> Person:
        if key not in self.known:
            self.known[key] = self.new(role)
        return self.known[key]

    @property
    def visitor(self) -> Person:
        """Somebody without an account, each time with a fresh browser."""
        return Person("visitor", self.new_client())

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
        """Close the clients of the people met."""
        for person in self.known.values():
            person.client.close()
