"""Accounts and the audit log, as those who keep order see them."""

from __future__ import annotations

import re
from typing import Any

from tests.studio.support.forms import send
from tests.studio.support.people import PASSWORD, People, Person


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
    visitor = Person("visitor", client)
    assert send(visitor, "/login", handle=reader.handle, password=PASSWORD).status_code == 422
    assert send(visitor, "/login", handle=reader.handle, password=password).status_code == 303


def test_an_admin_may_do_what_the_page_offers_and_no_more(people: People) -> None:
    admin, reader = people.admin, people.reader
    for path, data, status in (
        (f"/admin/users/{reader.id}/role", {"role": "curator"}, 303),
        (f"/admin/users/{reader.id}/role", {"role": "owner"}, 422),
        (f"/admin/users/{reader.id}/role", {"role": "curator", "password_hash": "x"}, 422),
        ("/admin/users/2147483648/role", {"role": "curator"}, 422),
        ("/admin/users/2147483647/role", {"role": "curator"}, 404),
    ):
        assert admin.client.post(path, data=data).status_code == status, (path, data)
    listed = admin.client.get("/admin/users").text
    assert "2 accounts" in listed
    assert "argon2" not in listed


def test_the_last_admin_is_not_shut_out(people: People) -> None:
    admin, other = people.admin, people.new("admin")
    send(admin, "/admin/users", f"/admin/users/{other.id}/role", role="curator")
    refused = admin.client.post(f"/admin/users/{admin.id}/disabled", data={"disabled": "true"})
    assert refused.status_code == 409
    assert '<span class="badge badge--accent">admin</span>' in admin.client.get("/account").text


def test_the_audit_log_shows_who_did_what_and_escapes_it(people: People) -> None:
    people.reader.client.post("/account/name", data={"name": "<img src=x>"})
    page = people.curator.client.get("/audit?action=account.rename").text
    assert people.reader.handle in page
    assert "&lt;img src=x&gt;" in page
    assert "<img" not in page


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
