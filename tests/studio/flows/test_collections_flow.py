"""Collections: create, fill, annotate, order with the keyboard, share by link, take the link back."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.studio.support.browsers import Visit
from tests.studio.support.people import People
from tests.studio.support.worlds import shelved, three_papers


@pytest.fixture
def papers(live_people: People) -> list[Any]:
    return three_papers(live_people.database)


def test_collect_from_a_papers_page_and_find_it_on_the_shelf(
    reader_page: Any, papers: list[Any]
) -> None:
    page = reader_page
    page.goto(f"/papers/{papers[0].slug}")
    page.locator("summary", has_text="Collect").click()
    page.get_by_label("Title of a new collection").fill("To read")
    page.get_by_role("button", name="Add", exact=True).click()
    page.locator("button[aria-pressed=true]", has_text="To read").wait_for()
    page.goto("/collections")
    page.get_by_role("link", name="To read").click()
    expect(page.locator("li.item h3")).to_have_text([papers[0].title])


def test_annotate_and_order_with_the_keyboard(
    visit: Visit, live_people: People, papers: list[Any]
) -> None:
    reader = live_people.new()
    shelf = shelved(reader, "Ordered", [paper.slug for paper in papers])
    page = visit.page(reader)
    page.goto(f"/collections/{shelf}")

    def titles() -> list[str]:
        return [str(text) for text in page.locator("li.item h3").all_inner_texts()]

    assert titles() == [paper.title for paper in papers]
    page.get_by_role("button", name=f"Move {papers[2].title} up").focus()
    page.keyboard.press("Enter")
    page.locator("li.item", has_text=papers[2].title).locator("nth=0").wait_for()
    page.locator("li.item:nth-child(2)", has_text=papers[2].title).wait_for()
    focused = page.evaluate("document.activeElement.getAttribute('aria-label') ?? ''")
    assert papers[2].title in focused
    page.keyboard.press("Enter")
    page.locator("li.item:nth-child(1)", has_text=papers[2].title).wait_for()
    first = page.locator("li.item:nth-child(1)")
    first.get_by_text("Add a note").click()
    first.get_by_label("Note on").fill("Read *this* first.")
    first.get_by_role("button", name="Save the note").click()
    page.locator("li.item em", has_text="this").wait_for()
    page.reload()
    assert titles()[0] == papers[2].title


@pytest.mark.slow
def test_a_shared_link_works_for_everybody_until_it_is_taken_back(
    visit: Visit, live_people: People, papers: list[Any]
) -> None:
    reader = live_people.new()
    shelf = shelved(reader, "Shared shelf", [papers[1].slug])
    owner, visitor = visit.page(reader), visit.page()
    owner.goto(f"/collections/{shelf}")
    owner.get_by_role("button", name="Share by link").click()
    link = owner.get_by_label("Link").input_value()
    assert link.startswith("http")
    visitor.goto(link)
    expect(visitor.get_by_role("heading", name="Shared shelf")).to_have_count(1)
    assert visitor.locator("button", has_text="Remove").count() == 0
    with visitor.expect_download() as waiting:
        visitor.get_by_role("link", name="BibTeX").click()
    assert waiting.value.suggested_filename.endswith(".bib")
    owner.get_by_role("button", name="Stop sharing").click()
    owner.get_by_text("Only you see this collection.").wait_for()
    assert visitor.goto(link).status == 404
    visit.expect("status of 404")


def test_a_form_that_is_on_its_way_is_not_sent_again(reader_page: Any) -> None:
    reader_page.goto("/collections")
    reader_page.locator("[name=title]").fill("Once")
    went = reader_page.locator("form:has([name=title])").evaluate(
        """form => {
          const went = [];
          addEventListener("submit", (event) => {
            went.push(!event.defaultPrevented);
            event.preventDefault();
          });
          form.requestSubmit();
          form.requestSubmit();
          return went;
        }"""
    )
    assert went == [True, False]
