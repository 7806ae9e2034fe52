"""Accounts and the audit log, as those who keep order see them."""

from __future__ import annotations

import re
from typing import Any

from tests.studio.support.people import PASSWORD, People


def test_accounts_are_listed_found_and_counted(people: People) -> None:
    people.new(handle="emmy")
    page = people.admin.client.get("/admin/users").text
    assert "emmy" in page
    found = people.admin.client.get("/admin/users?q=EMM").text
    assert "1 account" in found
    assert "No account matches" in people.admin.client.get("/admin/users?q=nobody-here").text


def test_a_role_is_given_and_taken(people: People) -> None:
    admin, reader = people.admin, people.reader
    assert reader.client.get("/audit").status_code == 403
    admin.client.post(f"/admin/users/{reader.id}/role", data={"role": "curator"})
    assert reader.client.get("/audit").status_code == 200
    admin.client.post(f"/admin/users/{reader.id}/role", data={"role": "reader"})
    assert reader.client.get("/audit").status_code == 403


def test_the_last_admin_is_told_why_she_cannot_step_down(people: People) -> None:
    admin = people.admin
    answer = admin.client.post(f"/admin/users/{admin.id}/role", data={"role": "reader"})
    assert answer.status_code == 409
    assert "is the last admin" in answer.text


def test_a_new_password_is_made_up_shown_once_and_works(people: People, client: Any) -> None:
    reader = people.reader
    page = people.admin.client.post(f"/admin/users/{reader.id}/password")
    (password,) = re.findall(r'id="new-password">([\w-]{16})<', page.text)
    assert page.headers["cache-control"] == "no-store"
    assert reader.client.get("/account").status_code == 401
    session = client.get("/api/v1/session").json()
    client.headers["X-CSRF-Token"] = session["csrf_token"]
    credentials = {"handle": reader.handle, "password": PASSWORD}
    assert client.post("/api/v1/session", json=credentials).status_code == 422
    credentials["password"] = password
    assert client.post("/api/v1/session", json=credentials).status_code == 200


def test_programs_may_do_what_the_page_does_and_no_more(people: People) -> None:
    admin, reader = people.admin, people.reader
    path = f"/api/v1/users/{reader.id}"
    assert admin.client.patch(path, json={"role": "curator"}).json()["role"] == "curator"
    assert admin.client.patch(path, json={"role": "owner"}).status_code == 422
    assert admin.client.patch(path, json={"password_hash": "x"}).status_code == 422
    assert admin.client.patch("/api/v1/users/2147483648", json={}).status_code == 422
    assert admin.client.patch("/api/v1/users/2147483647", json={}).status_code == 404
    listed = admin.client.get("/api/v1/users?limit=1&offset=1").json()
    assert (len(listed["items"]), listed["total"]) == (1, 2)
    assert not any("hash" in key for key in listed["items"][0])


def test_a_change_with_two_parts_is_made_whole_or_not_at_all(people: People) -> None:
    admin, other = people.admin, people.new("admin")
    people.reader.client.get("/")
    path = f"/api/v1/users/{admin.id}"
    admin.client.patch(f"/api/v1/users/{other.id}", json={"role": "curator"})
    refused = admin.client.patch(path, json={"role": "admin", "disabled": True})
    assert refused.status_code == 409
    account = admin.client.get("/api/v1/account").json()
    assert (account["role"], account["disabled"]) == ("admin", False)


def test_the_audit_log_shows_who_did_what_and_escapes_it(people: People) -> None:
    people.reader.client.post("/account/name", data={"name": "<img src=x>"})
    page = people.curator.client.get("/audit?action=account.rename").text
    assert people.reader.handle in page
    assert "&lt;img src=x&gt;" in page
    assert "<img" not in page
    entry = people.curator.client.get("/api/v1/audit?action=account.rename").json()["items"][0]
    assert entry["actor"] == people.reader.handle
    assert entry["detail"]["to"] == "<img src=x>"


def test_long_lists_have_pages(people: People, app: Any) -> None:
    from exactformer.studio.security.actor import VISITOR
    from exactformer.studio.storage import audit

    with app.state.database.writing() as db:
        for number in range(120):
            audit.record(db, VISITOR, "test.many", "paper", number)
    first = people.curator.client.get("/audit?action=test.").text
    assert "120 changes, page 1 of 3" in first
    assert "/audit?action=test.&amp;handle=&amp;page=2" in first
    assert 'rel="prev"' not in first
    last = people.curator.client.get("/audit?action=test.&page=3").text
    assert 'rel="next"' not in last
    assert people.curator.client.get("/audit?page=0").status_code == 422
