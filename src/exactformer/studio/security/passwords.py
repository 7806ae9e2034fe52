"""Passwords: argon2id with the second set of parameters that RFC 9106 recommends.

Whether a handle exists cannot be told from the time a log-in takes: an unknown one costs the same
work. At most a few hashes (64 MiB each) are computed at once, so that a crowd at the door does not
take all memory.
"""

from __future__ import annotations

import threading

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from exactformer.studio.errors import InvalidError

SHORTEST, LONGEST = 10, 200
NO_PASSWORD = "!"  # no hash looks like this, so nobody logs in with it

_hasher = PasswordHasher(time_cost=3, memory_cost=64 * 1024, parallelism=4)
_at_once = threading.BoundedSemaphore(4)
_nobody = _hasher.hash("a password that no account has")


def hash_password(password: str) -> str:
    """Hash a password that somebody chose, unless it is too short or too long."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise InvalidError(
            f"a password has {SHORTEST} to {LONGEST} characters; this one has {len(password)}"
        )
    with _at_once:
        return _hasher.hash(password)


def verify(stored: str | None, password: str) -> bool:
    """Whether the password is the stored one; with nothing stored the work is the same."""
    usable = stored is not None and stored != NO_PASSWORD
    with _at_once:
        try:
            return _hasher.verify(stored if usable and stored else _nobody, password) and usable
        except (Argon2Error, InvalidHashError):
            return False


def is_outdated(stored: str) -> bool:
    """Whether a stored hash has other parameters than new ones get."""
    return _hasher.check_needs_rehash(stored)
