"""One's own account over the JSON API: name and password change together or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from exactformer.studio.accounts import service as accounts
from exactformer.studio.errors import BusyError
from tests.studio.support.people import PASSWORD, People

NEW = "another horse, another battery"
CHANGES = {"name": "Ada", "password": NEW, "present_password": PASSWORD}


def can_log_in(person: Any, password: str) -> bool:
    credentials = {"handle": person.handle, "password": password}
    with person.unchanged():
        return person.client.post("/api/v1/session", json=credentials).status_code == 200


def test_name_and_password_change_together(people: People) -> None:
    reader, other = people.new("reader"), people.new("reader")
    assert reader.client.patch("/api/v1/account", json=CHANGES).json()["name"] == "Ada"
    assert can_log_in(reader, NEW)
    assert other.client.patch("/api/v1/account", json={"name": "Eve"}).json()["name"] == "Eve"
    assert can_log_in(other, PASSWORD)


@pytest.mark.parametrize("wrong", [{"present_password": NEW}, {"name": "\u202e"}])
def test_a_wrong_one_changes_neither(people: People, wrong: dict[str, str]) -> None:
    reader = people.new("reader")
    before = reader.client.get("/api/v1/account").json()
    assert reader.client.patch("/api/v1/account", json=CHANGES | wrong).status_code == 422
    assert reader.client.get("/api/v1/account").json() == before
    assert can_log_in(reader, PASSWORD)


def test_nothing_is_stored_where_the_answer_says_so(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: Any) -> None:
        raise BusyError("nothing of this request was stored")

    reader = people.new("reader")
    monkeypatch.setattr(accounts, "rename", busy)
    assert reader.client.patch("/api/v1/account", json=CHANGES).status_code == 503
    assert can_log_in(reader, PASSWORD)
