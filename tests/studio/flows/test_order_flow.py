"""Keeping order: reports and decisions, roles, disabled accounts, the audit log, a desk of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.studio.support.browsers import Visit
from tests.studio.support.people import People
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
