"""Cookies, sessions and limits, as a browser and an attacker meet them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.studio.support.forms import TOKEN, form_of, send
from tests.studio.support.people import PASSWORD, People, Person

ACCOUNT = "/account"
WRONG = "a wrong password"


def log_in(person: Person, handle: str, password: str = PASSWORD) -> Any:
    """Log in by the form; the answer."""
    return send(person, "/login", handle=handle, password=password)


def holder(person: Person) -> str:
    """The handle of the account that a browser is logged in to; empty for a visitor."""
    page = person.client.get(ACCOUNT)
    return re.findall(r'class="mono">([^<]+)', page.text)[0] if page.status_code == 200 else ""


def cookie_of(answer: Any) -> tuple[str, set[str]]:
    """Name and value, and the flags, of the one cookie an answer sets."""
    (line,) = answer.headers.get_list("set-cookie")
    pair, *flags = line.split("; ")
    return pair, {flag.lower() for flag in flags}


def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites(people: People) -> None:
    pair, flags = cookie_of(people.visitor.client.get("/login"))
    assert len(pair.split("=", 1)[1]) >= 43  # 256 bits
    assert {"httponly", "samesite=lax", "path=/"} <= flags
    assert not any(flag.startswith("domain") for flag in flags)


def test_behind_https_the_cookie_never_travels_in_the_open(settings: Any) -> None:
    from starlette.testclient import TestClient

    from exactformer.studio.app import create_app

    app = create_app(replace(settings, secure_cookies=True))
    with TestClient(app, base_url="https://testserver") as client:
        answer = client.get("/login")
    pair, flags = cookie_of(answer)
    assert pair.startswith("__Host-")
    assert "secure" in flags
    assert "strict-transport-security" in answer.headers


def test_a_session_planted_before_log_in_is_worth_nothing_after_it(people: People) -> None:
    handle, victim = people.reader.handle, people.visitor.take_session()
    planted, old_token = victim.cookies, victim.csrf
    assert log_in(victim, handle).status_code == 303
    assert holder(victim) == handle
    assert victim.cookies != planted
    (new_token,) = form_of(victim.client.get(ACCOUNT), "/account/name")[TOKEN]
    assert new_token != old_token
    attacker = people.visitor
    for name, value in planted.items():
        attacker.client.cookies.set(name, value)
    assert holder(attacker) == ""


def test_a_session_is_over_after_logging_out(people: People) -> None:
    reader = people.reader
    stolen = reader.cookies
    assert send(reader, ACCOUNT, "/logout").status_code == 303
    thief = people.visitor
    for name, value in stolen.items():
        thief.client.cookies.set(name, value)
    assert holder(thief) == ""


def test_the_database_does_not_hold_what_a_cookie_holds(app: Any, people: People) -> None:
    from sqlalchemy import text

    (value,) = people.reader.cookies.values()
    with app.state.database.session() as db:
        rows = db.execute(text("SELECT * FROM sessions")).all()
    assert rows
    assert value not in repr(rows)


def test_a_token_of_another_session_is_refused(people: People) -> None:
    reader, other = people.reader, people.other
    for token, status in ((other.csrf, 403), ("", 403), (reader.csrf, 303)):
        del reader.client.headers["X-CSRF-Token"]
        assert reader.client.post("/logout", data={TOKEN: token}).status_code == status
        reader.client.headers["X-CSRF-Token"] = token
    reader = people.new()
    for token, status in ((other.csrf, 403), ("", 403), (reader.csrf, 303)):
        reader.client.headers["X-CSRF-Token"] = token
        assert reader.client.post("/logout").status_code == status


def test_guessing_passwords_is_slowed_down_and_locks_nobody_else_out(settings: Any) -> None:
    from starlette.testclient import TestClient

    from exactformer.studio.app import create_app
    from exactformer.studio.settings import Rate

    app = create_app(replace(settings, login_rate=Rate(3, 60)))
    with TestClient(app, follow_redirects=False) as client:
        people = People(lambda: client, app.state.database, settings)
        victim, other = people.new().handle, people.new().handle
        client.cookies.clear()
        visitor = Person("visitor", client)
        statuses = [log_in(visitor, victim, WRONG).status_code for _ in range(5)]
        assert statuses == [422, 422, 422, 429, 429]
        answer = log_in(visitor, victim, WRONG)
        assert int(answer.headers["Retry-After"]) > 0
        assert log_in(visitor, other).status_code == 303


def test_wrong_passwords_from_elsewhere_do_not_lock_the_owner_out(settings: Any) -> None:
    from starlette.testclient import TestClient

    from exactformer.studio.app import create_app
    from exactformer.studio.settings import Rate

    rates = {"login_rate": Rate(3, 60), "login_handle_rate": Rate(10, 60)}
    app = create_app(replace(settings, **rates))
    with TestClient(app) as client:
        people = People(lambda: client, app.state.database, settings)
        victim = people.new().handle
        statuses = []
        for host in ("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"):
            elsewhere = Person("visitor", TestClient(app, client=(host, 1)))
            statuses += [log_in(elsewhere, victim, WRONG).status_code for _ in range(3)]
            if host == "192.0.2.1":
                far = TestClient(app, client=("198.51.100.1", 1), follow_redirects=False)
                assert log_in(elsewhere, victim, WRONG).status_code == 429
                assert log_in(Person("visitor", far), victim).status_code == 303
        assert statuses == [422] * 9 + [429] * 3  # many addresses together are slowed down, too


@pytest.mark.parametrize(
    "kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=b"]
)
def test_a_large_body_is_refused_whether_it_says_so_or_not(people: People, kind: str) -> None:
    client = people.visitor.take_session().client
    mebibyte = b"x" * (1 << 20)
    sent = {"headers": {"Content-Type": kind}}
    assert client.post("/login", content=mebibyte + b"x", **sent).status_code == 413
    pieces = client.post("/login", content=(mebibyte for _ in range(3)), **sent)
    assert pieces.status_code == 413


def test_a_redirect_never_leaves_the_site(people: People) -> None:
    handle = people.reader.handle
    for target in ("https://evil.example", "//evil.example", "/\\evil.example", "\t//evil.example"):
        visitor = people.visitor.take_session()
        form = {"handle": handle, "password": PASSWORD, "next": target}
        answer = visitor.client.post("/login", data=form)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
