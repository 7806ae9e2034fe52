"""The library: search while typing, a paper's page and its evidence, edits, export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.studio.support.browsers import Visit
from tests.studio.support.people import People
from tests.studio.support.worlds import World, three_papers


def test_search_answers_while_one_types_and_the_address_keeps_it(page: Any) -> None:
    page.goto("/papers")
    page.get_by_role("searchbox").press_sequentially("zero approximation")
    page.get_by_role("link", name="Attention Enables Zero Approximation Error").wait_for()
    page.wait_for_url(lambda url: "approximation" in url)  # all that was typed, not its beginning
    page.locator("#results", has_text="1 paper").wait_for()
    page.reload()
    assert page.get_by_role("searchbox").input_value() == "zero approximation"


@pytest.mark.slow
def test_search_works_without_scripts_and_says_when_nothing_fits(visit: Visit) -> None:
    page = visit.page(java_script_enabled=False)
    page.goto("/papers")
    page.get_by_role("searchbox").fill("zyzzyva")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#results .empty")).to_have_count(1)


@pytest.mark.slow
def test_a_paper_shows_each_claim_with_status_and_the_command_to_rerun(
    page: Any, live_world: World
) -> None:
    page.goto(f"/papers/{live_world.slug}#figure-3")
    claim = page.locator("#figure-3")
    assert claim.locator(".badge").first.inner_text().strip() == "✓ reproduced"
    assert "exactformer reproduce" in claim.locator("code").first.inner_text()
    picture = claim.locator("img")
    picture.scroll_into_view_if_needed()
    picture.evaluate("async image => image.decode()")
    assert picture.evaluate("image => image.naturalWidth") > 100
    for text in ("Open access", "Data", "Code", "cite it here", "reviews", "saves"):
        assert page.get_by_text(text, exact=True).count() >= 1, text


@pytest.mark.slow
def test_a_citation_leads_to_the_cited_paper_and_back(page: Any, live_world: World) -> None:
    page.goto(f"/papers/{live_world.slug}")
    title = page.locator("h1").inner_text()
    reference = page.locator("#references").get_by_role("link").first
    cited = reference.inner_text()
    reference.click()
    expect(page.locator("h1")).to_have_text(cited)
    page.locator("#cited-by").get_by_role("link", name=title).click()
    expect(page.locator("h1")).to_have_text(title)


@pytest.mark.slow
def test_everything_can_be_exported_in_two_forms(page: Any) -> None:
    page.goto("/papers")
    for name, check in (
        ("JSON", lambda text: len(json.loads(text)["papers"]) > 40),
        ("BibTeX", lambda text: text.count("@") > 40),
    ):
        page.locator("summary", has_text="Export the library").click()
        with page.expect_download() as waiting:
            page.get_by_role("link", name=name, exact=True).click()
        assert check(Path(waiting.value.path()).read_text("utf-8"))
        page.keyboard.press("Escape")


@pytest.mark.slow
def test_a_curator_edits_a_paper_and_its_history_tells(visit: Visit, live_people: People) -> None:
    slug = three_papers(live_people.database)[1].slug
    page = visit.page(live_people.new("curator"))
    page.goto(f"/papers/{slug}/edit")
    page.get_by_label("Source").fill("A proceedings of its own")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url(f"**/papers/{slug}")
    expect(page.get_by_text("A proceedings of its own").first).to_be_visible()
    page.goto(f"/papers/{slug}/history")
    expect(page.get_by_text("A proceedings of its own").first).to_be_visible()
