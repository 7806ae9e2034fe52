"""Registering, logging in, and one's own account, by the forms people see."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from exactformer.studio.accounts import service as accounts
from exactformer.studio.app import create_app
from exactformer.studio.errors import BusyError
from exactformer.studio.settings import Settings
from tests.studio.support.forms import TOKEN, Forms, form_of, send
from tests.studio.support.people import PASSWORD, People, Person
from tests.studio.support.servers import settings_of


def fill_in(client: Any, path: str, **fields: str) -> Any:
    """Open a form and send it."""
    return send(Person("visitor", client), path, **fields)


@pytest.fixture
def fresh(tmp_path: Path) -> Settings:
    settings: Settings = settings_of(database=f"sqlite:///{tmp_path / 'fresh.db'}")
    return settings


def test_the_first_to_register_is_told_that_she_becomes_admin_and_does(fresh: Settings) -> None:
    from starlette.testclient import TestClient

    with TestClient(create_app(fresh), follow_redirects=False) as client:
        assert "becomes its <strong>admin</strong>" in client.get("/register").text
        answer = fill_in(client, "/register", handle="ada", password=PASSWORD, name="Ada")
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert '<span class="badge badge--accent">admin</span>' in client.get("/account").text
        client.cookies.clear()
        assert "admin</strong>" not in client.get("/register").text
        fill_in(client, "/register", handle="grace", password=PASSWORD)
        assert '<span class="badge badge--accent">reader</span>' in client.get("/account").text


def test_who_logs_in_goes_on_to_where_she_was(client: Any, people: People) -> None:
    handle = people.reader.handle
    page = client.get("/account?done=name")
    assert page.status_code == 401
    assert 'value="/account?done=name"' in page.text
    form = {"handle": handle, "password": PASSWORD, "next": "/account?done=name"}
    answer = client.post("/login", data=form | {"csrf_token": form_of(page, "/login")[TOKEN]})
    assert (answer.status_code, answer.headers["location"]) == (303, "/account?done=name")


@pytest.mark.parametrize(
    ("page", "back"),
    [("http://testserver/papers?q=a b", "/papers%3Fq%3Da%20b"), ("http://[", "/"), ("", "")],
)
def test_htmx_is_sent_to_the_log_in_page_and_back(client: Any, page: str, back: str) -> None:
    answer = client.get("/account", headers={"HX-Request": "true", "HX-Current-URL": page})
    assert answer.status_code == 401
    assert answer.headers["HX-Redirect"] == f"/login?next={back}"


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"handle": "ada", "password": "short"}, 422, "10 to 200"),
        ({"handle": "a b", "password": PASSWORD}, 422, "a handle has"),
        ({"handle": "", "password": PASSWORD}, 422, "a handle has"),
        ({"handle": "TAKEN", "password": PASSWORD}, 409, "taken"),
    ],
)
def test_a_form_with_mistakes_comes_back_with_what_was_typed(
    client: Any, people: People, fields: dict[str, str], status: int, said: str
) -> None:
    people.new(handle="taken")
    answer = fill_in(client, "/register", name='Ada "Countess" <b>', **fields)
    assert answer.status_code == status
    assert said in answer.text
    assert "Ada &#34;Countess&#34; &lt;b&gt;" in answer.text
    assert PASSWORD not in answer.text


def test_wrong_handle_and_wrong_password_are_one_refusal(client: Any, people: People) -> None:
    known = fill_in(client, "/login", handle=people.reader.handle, password="wrong password")
    unknown = fill_in(client, "/login", handle="nobody-here", password="wrong password")
    told = [re.search(r'role="alert">([^<]+)', answer.text) for answer in (known, unknown)]
    assert known.status_code == unknown.status_code == 422
    (kept,) = [fields for action, fields in Forms(unknown.text).found if action == "/login"]
    assert (kept["handle"], kept["password"]) == (["nobody-here"], [""])
    assert [match and match[1] for match in told] == ["the handle or the password is wrong"] * 2


def test_htmx_goes_on_to_any_path_of_this_site(client: Any, people: People) -> None:
    reader = people.reader
    form = {"handle": reader.handle, "password": PASSWORD, "next": "/papers/☃?q=a b"}
    (token,) = form_of(client.get("/login"), "/login")[TOKEN]
    client.headers["HX-Request"] = "true"
    answer = client.post("/login", data=form | {"csrf_token": token})
    assert (answer.status_code, answer.headers["HX-Redirect"]) == (204, "/papers/%E2%98%83?q=a%20b")


def test_fields_of_unreasonable_length_are_refused(client: Any) -> None:
    for field in ("handle", "password", "next", "name"):
        assert fill_in(client, "/register", **{field: "x" * 9000}).status_code == 422


def test_a_disabled_account_cannot_log_in(client: Any, people: People) -> None:
    reader = people.reader
    send(people.admin, "/admin/users", f"/admin/users/{reader.id}/disabled", disabled=True)
    assert fill_in(client, "/login", handle=reader.handle, password=PASSWORD).status_code == 422


def test_a_name_is_changed_and_shown(people: People) -> None:
    client = people.reader.client
    answer = client.post("/account/name", data={"name": "Emmy <Noether>"})
    assert answer.headers["location"] == "/account?done=name"
    page = client.get(answer.headers["location"]).text
    assert "The name is changed." in page
    assert "Emmy &lt;Noether&gt;" in page
    assert "Emmy &lt;Noether&gt;" in client.get(f"/readers/{people.reader.handle}").text
    assert client.post("/account/name", data={"name": " "}).status_code == 422


def test_a_new_password_needs_the_old_one_and_ends_other_sessions(
    client: Any, people: People
) -> None:
    reader = people.reader
    fill_in(client, "/login", handle=reader.handle, password=PASSWORD)
    new = "an entirely new password"
    wrong = reader.client.post("/account/password", data={"present": "x", "password": new})
    assert wrong.status_code == 422
    assert client.get("/account").status_code == 200
    right = reader.client.post("/account/password", data={"present": PASSWORD, "password": new})
    assert right.status_code == 303
    assert client.get("/account").status_code == 401
    assert reader.client.get("/account").status_code == 200
    assert fill_in(client, "/login", handle=reader.handle, password=PASSWORD).status_code == 422
    assert fill_in(client, "/login", handle=reader.handle, password=new).status_code == 303


def test_sessions_are_listed_and_another_one_can_be_ended(client: Any, people: People) -> None:
    reader = people.reader
    client.headers["User-Agent"] = "Mozilla/5.0 (iPhone) Safari/605"
    fill_in(client, "/login", handle=reader.handle, password=PASSWORD)
    page = reader.client.get("/account").text
    assert "Safari on iPhone" in page
    (prefix,) = re.findall(r'name="session" value="(\w+)"', page)
    ended = reader.client.post("/account/sessions/end", data={"session": prefix})
    assert ended.status_code == 303
    assert client.get("/account").status_code == 401
    assert reader.client.get("/account").status_code == 200


def test_sessions_of_others_cannot_be_ended(people: People, app: Any) -> None:
    from exactformer.studio.security import sessions

    with app.state.database.session() as db:
        (foreign,) = sessions.of_account(db, people.other.id or 0)
    for prefix in (foreign.token_hash[:16], foreign.token_hash, "", "0"):
        answer = people.reader.client.post("/account/sessions/end", data={"session": prefix})
        assert answer.status_code == 404
    assert people.other.client.get("/account").status_code == 200


def test_weak_hashes_are_renewed_when_their_owner_logs_in(
    client: Any, people: People, app: Any
) -> None:
    import argon2

    from exactformer.studio.accounts.tables import User
    from exactformer.studio.security.passwords import is_outdated

    weak = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
    reader = people.reader
    with app.state.database.writing() as db:
        db.get_one(User, reader.id).password_hash = weak
    fill_in(client, "/login", handle=reader.handle, password=PASSWORD)
    with app.state.database.session() as db:
        assert not is_outdated(db.get_one(User, reader.id).password_hash)


@pytest.mark.parametrize(("part", "field"), [("name", "name"), ("password", "password")])
def test_nothing_is_stored_where_the_answer_says_so(
    client: Any, people: People, monkeypatch: pytest.MonkeyPatch, part: str, field: str
) -> None:
    def busy(*_: Any, **__: Any) -> None:
        raise BusyError("nothing of this request was stored")

    reader = people.reader
    monkeypatch.setattr(accounts, "rename", busy)
    monkeypatch.setattr(accounts, "change_password", busy)
    fields = {field: "a horse of another name"} | (
        {"present": PASSWORD} if part == "password" else {}
    )
    answer = send(reader, "/account", f"/account/{part}", **fields)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert "a horse of another name" not in reader.client.get("/account").text
    assert fill_in(client, "/login", handle=reader.handle, password=PASSWORD).status_code == 303
