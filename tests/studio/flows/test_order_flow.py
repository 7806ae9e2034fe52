"""Keeping order: reports and decisions, roles, disabled accounts, the audit log, a desk of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.studio.support.browsers import Visit
from tests.studio.support.people import PASSWORD, People, Person
from tests.studio.support.servers import Server
from tests.studio.support.worlds import commented, three_papers


def test_a_reported_comment_is_hidden_by_a_curator_and_shown_again(
    visit: Visit, live_people: People
) -> None:
    slug = three_papers(live_people.database)[1].slug
    author, reporter = live_people.new(), live_people.new()
    text = f"{author.handle} says something rude."
    number = commented(author, author.client.get(f"/papers/{slug}"), body=text)

    page = visit.page(reporter)
    page.goto(f"/comments/{number}")
    page.get_by_role("link", name="Report").click()
    page.get_by_label("Why should").fill(f"{reporter.handle} finds it rude.")
    with page.expect_navigation():
        page.get_by_role("button", name="Report").click()

    desk = visit.page(live_people.new("curator"))
    desk.goto("/moderation")
    case = desk.locator("article", has_text=text)
    assert f"{reporter.handle} finds it rude." in case.inner_text()
    case.get_by_label("A word to the author").fill("Please be kind.")
    with desk.expect_navigation():
        case.get_by_role("button", name="Hide the comment").click()

    visitor = visit.page()
    visitor.goto(f"/papers/{slug}/discussion")
    assert visitor.get_by_text(text).count() == 0
    own = visit.page(author)
    own.goto(f"/comments/{number}")
    own.get_by_text("Please be kind.").wait_for()

    desk.goto("/moderation?state=upheld")
    with desk.expect_navigation():
        desk.locator("article", has_text=text).get_by_role("button", name="Undo").click()
    visitor.goto(f"/papers/{slug}/discussion?kind=note")
    visitor.get_by_text(text).wait_for()


@pytest.mark.slow
def test_an_admin_gives_a_role_and_shuts_out(visit: Visit, live_people: People) -> None:
    reader = live_people.new()
    admin, theirs = visit.page(live_people.new("admin")), visit.page(reader)
    admin.goto(f"/admin/users?q={reader.handle}")
    admin.get_by_label(f"Role of {reader.handle}").select_option("curator")
    with admin.expect_navigation():
        admin.get_by_role("button", name=f"Set the role of {reader.handle}").click()
    assert theirs.goto("/moderation").status == 200
    admin.goto(f"/admin/users?q={reader.handle}")
    with admin.expect_navigation():
        admin.get_by_role("button", name=f"Disable {reader.handle}").click()
    assert theirs.goto("/moderation").status == 401
    visit.expect("status of 401")


def log_in_with(page: Any, person: Person, statuses: dict[str, int]) -> None:
    """Try passwords one after the other; each has the status of its answer."""
    page.goto("/login")
    for password, status in statuses.items():
        page.get_by_label("Handle").fill(person.handle)
        page.get_by_label("Password").fill(password)
        with page.expect_navigation() as waiting:
            page.get_by_role("button", name="Log in").click()
        assert waiting.value.status == status


@pytest.mark.slow
def test_a_forgotten_password_is_replaced_by_an_admin(visit: Visit, live_people: People) -> None:
    reader = live_people.new()
    admin = visit.page(live_people.new("admin"))
    admin.goto(f"/admin/users?q={reader.handle}")
    admin.get_by_role("button", name=f"New password for {reader.handle}").click()
    password = admin.locator("#new-password").inner_text().strip()
    log_in_with(visit.page(), reader, {PASSWORD: 422, password: 200})
    visit.expect("status of 422")


@pytest.mark.slow
def test_the_audit_log_names_who_did_what(visit: Visit, live_people: People) -> None:
    reader = live_people.new()
    slug = three_papers(live_people.database)[0].slug
    commented(reader, reader.client.get(f"/papers/{slug}"), body="Audited.")
    page = visit.page(live_people.curator)
    page.goto(f"/audit?handle={reader.handle}")
    assert "comment.create" in page.locator("main").inner_text()


@pytest.mark.slow
def test_an_account_changes_its_name_and_password(visit: Visit, live_people: People) -> None:
    reader = live_people.new()
    page = visit.page(reader)
    page.goto("/account")
    page.get_by_label("What others see").fill("Hypatia")
    page.get_by_role("button", name="Change the name").click()
    page.get_by_text("The name is changed.").wait_for()
    page.get_by_label("Current password").fill(PASSWORD)
    page.get_by_label("New password").fill("another long password")
    page.get_by_role("button", name="Change the password").click()
    page.get_by_text("The password is changed").wait_for()
    log_in_with(visit.page(), reader, {PASSWORD: 422, "another long password": 200})
    visit.expect("status of 422")
    visitor = visit.page()
    visitor.goto(f"/readers/{reader.handle}")
    expect(visitor.locator("h1")).to_contain_text("Hypatia")


@pytest.mark.slow
def test_a_desk_of_one_needs_no_account(browser: Any, tmp_path: Path) -> None:
    server = Server(
        f"sqlite:///{tmp_path / 'desk.db'}", tmp_path / "log", {"single_user": True}
    ).start()
    visit = Visit(browser, server.url)
    try:
        page = visit.page()
        page.goto("/papers")
        page.get_by_role("link", name="Attention Enables Zero").first.click()
        page.get_by_role("button", name="Like").first.click()
        page.locator("#vote-like[aria-pressed=true]").wait_for()
        assert page.get_by_role("link", name="Log in").count() == 0
        assert page.goto("/moderation").status == 200
    finally:
        visit.close()
        server.stop()
