"""Passwords are hashed by argon2id, and an unknown handle costs what a known one does."""

from __future__ import annotations

import argon2
import pytest

from exactformer.studio.errors import InvalidError
from exactformer.studio.security import passwords
from exactformer.studio.security.passwords import NO_PASSWORD, hash_password, is_outdated, verify

PASSWORD = "correct horse battery staple"
STORED = hash_password(PASSWORD)
AS_SERVED = {name: getattr(passwords, name) for name in ("_hasher", "_nobody")}


@pytest.fixture(autouse=True)
def _passwords_have_their_price(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in AS_SERVED.items():
        monkeypatch.setattr(passwords, name, value)


def test_the_parameters_are_those_of_rfc_9106_for_little_memory() -> None:
    parameters = argon2.extract_parameters(STORED)
    assert parameters.type is argon2.Type.ID
    assert parameters == argon2.profiles.RFC_9106_LOW_MEMORY


def test_the_right_password_is_recognised_and_no_other() -> None:
    assert verify(STORED, PASSWORD)
    assert not verify(STORED, PASSWORD + " ")
    assert not verify(STORED, "")


def test_two_people_with_one_password_have_two_hashes() -> None:
    assert hash_password(PASSWORD) != STORED


def test_without_a_stored_hash_nothing_is_right_but_the_work_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    class Recorder:
        def verify(self, stored: str, password: str) -> bool:
            asked.append(stored)
            return True

    monkeypatch.setattr(passwords, "_hasher", Recorder())
    assert not verify(None, "a password that no account has")
    assert not verify(NO_PASSWORD, PASSWORD)
    assert verify(STORED, PASSWORD)
    unknown, without, known = asked
    assert unknown == without
    assert argon2.extract_parameters(unknown) == argon2.extract_parameters(known)


def test_a_damaged_hash_lets_nobody_in() -> None:
    assert not verify("$argon2id$v=19$damaged", PASSWORD)


@pytest.mark.parametrize("length", [0, 9, 201])
def test_passwords_have_a_stated_length(length: int) -> None:
    with pytest.raises(InvalidError, match="10 to 200"):
        hash_password("x" * length)


def test_hashes_of_weaker_parameters_are_renewed() -> None:
    weak = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
    assert is_outdated(weak)
    assert not is_outdated(STORED)
