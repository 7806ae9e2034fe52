"""Answers that come late, or in another order than the questions, never undo what came after."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.studio.support.browsers import Visit, held_back, wait_for_held
from tests.studio.support.people import People
from tests.studio.support.worlds import shelved, three_papers


@pytest.fixture
def paper(live_people: People) -> str:
    """The address of a paper."""
    return f"/papers/{three_papers(live_people.database)[2].slug}"


def test_what_is_pressed_while_a_vote_is_on_its_way_is_done_after_it(
    reader_page: Any, paper: str
) -> None:
    page = reader_page
    page.goto(paper)
    held = held_back(page, "**/vote")
    page.locator("#vote-like").click()
    wait_for_held(page, held)
    page.locator("#vote-like").click()  # twice is once: it is a switch
    page.locator("#save").click()
    page.locator("#collect").click()
    page.get_by_label("Title of a new collection").fill("Pressed meanwhile")
    page.get_by_role("button", name="Add", exact=True).click()
    assert len(held) == 1
    held[0].continue_()
    page.locator("#opinions [aria-pressed=true]", has_text="Pressed meanwhile").wait_for()
    for name in ("#vote-like", "#save"):
        expect(page.locator(name)).to_have_attribute("aria-pressed", "true")
    assert len(held) == 1
    page.reload()
    expect(page.locator("#opinions [aria-pressed=true]")).to_have_count(3)


def test_a_vote_that_is_lost_leaves_the_buttons_at_work(
    visit: Visit, live_people: People, paper: str
) -> None:
    page = visit.page(live_people.new())
    page.goto(paper)
    with visit.losing(page, "**/vote"):
        page.locator("#vote-like").click()
        expect(page.locator("#toasts")).to_contain_text("The studio does not answer")
    page.locator("#vote-like").click()
    expect(page.locator("#vote-like")).to_have_attribute("aria-pressed", "true")


def test_of_two_kinds_of_comments_the_one_chosen_last_is_shown(page: Any, live_world: Any) -> None:
    page.goto(f"/papers/{live_world.slug}/discussion")
    held = held_back(page, "**?kind=caveat")
    page.get_by_role("link", name="Caveats").click()
    wait_for_held(page, held)
    page.get_by_role("link", name="Questions").click()
    held[0].continue_()
    expect(page.locator(".kinds [aria-current=true]")).to_contain_text("Questions")


def test_a_shelf_is_ordered_and_annotated_while_it_is_being_ordered(
    visit: Visit, live_people: People
) -> None:
    reader, papers = live_people.new(), three_papers(live_people.database)
    shelf = shelved(reader, "Ordered", [each.slug for each in papers])
    page = visit.page(reader)
    page.goto(f"/collections/{shelf}")
    held = held_back(page, f"**/items/{papers[0].id}/move")
    page.locator(f"#down-{papers[0].id}").click()
    wait_for_held(page, held)
    page.locator(f"#up-{papers[2].id}").click()
    second = page.locator("li.item", has_text=papers[1].title)
    second.get_by_text("Add a note").click()
    second.get_by_label("Note on").fill("Read *this* too.")
    second.get_by_role("button", name="Save the note").click()
    held[0].continue_()
    page.locator("li.item em", has_text="this").wait_for()
    titles = [papers[k].title for k in (1, 2, 0)]
    expect(page.locator("li.item h3")).to_have_text(titles)
    page.reload()
    expect(page.locator("li.item h3")).to_have_text(titles)


def test_a_note_that_is_being_written_outlasts_a_new_order(
    visit: Visit, live_people: People
) -> None:
    reader, papers = live_people.new(), three_papers(live_people.database)
    shelf = shelved(reader, "Annotated", [each.slug for each in papers])
    page = visit.page(reader)
    page.goto(f"/collections/{shelf}")
    first = page.locator("li.item", has_text=papers[0].title)
    first.get_by_text("Add a note").click()
    first.get_by_label("Note on").fill("Half a note")
    page.locator(f"#up-{papers[2].id}").click()
    expect(page.locator("li.item h3")).to_have_text([papers[k].title for k in (0, 2, 1)])
    first.get_by_text("Add a note").click()
    expect(first.get_by_label("Note on")).to_have_value("Half a note")
    first.get_by_role("button", name="Save the note").click()
    expect(first.locator(".item__note")).to_have_text("Half a note")


def test_a_map_that_cannot_be_had_is_told_in_its_place(visit: Visit, paper: str) -> None:
    page = visit.page()
    with visit.losing(page, "**/map/slice?*"):
        page.goto(paper)
        page.locator("[data-map]").scroll_into_view_if_needed()
        expect(page.locator("[data-waiting]")).to_have_text("The studio does not answer.")


@pytest.mark.parametrize("address", ["/papers", "/claims"])
def test_going_back_from_a_search_shows_the_whole_page_and_takes_the_search_back(
    page: Any, address: str
) -> None:
    page.goto(address)
    search = page.locator("#q")
    search.fill("zero")
    page.wait_for_url("**?q=zero*")
    held = held_back(page, f"**{address}?q=sequence*")
    search.fill("sequence")
    wait_for_held(page, held)
    page.go_back()
    expect(search).to_have_value("")
    expect(page.get_by_role("banner")).to_be_visible()
    assert page.url.endswith(address)
    page.wait_for_load_state()  # scripts listen for the way forward, too
    page.go_forward()
    expect(search).to_have_value("zero")


def test_the_address_of_a_coupling_holds_what_was_answered(visit: Visit) -> None:
    page = visit.page()
    page.goto("/playground/couplings?kernel=formula&formula=u%2Bv&m=1")
    page.locator("#chart svg").wait_for()
    held = held_back(page, "**/api/v1/playground/couplings?*formula=u%2Bv&m=2")
    page.clock.install()
    page.clock.pause_at(datetime.now() + timedelta(hours=1))  # nothing typed is asked for meanwhile
    page.get_by_role("slider", name="Head size").press("ArrowRight")
    wait_for_held(page, held)
    page.get_by_label("Formula in u and v").fill("u +")
    held[0].continue_()
    expect(page.locator(".pg-bar--kept")).to_have_count(2)
    assert page.url.endswith("formula=u%2Bv&m=1")
    page.clock.run_for(300)
    expect(page.get_by_role("alert")).to_be_visible()
    assert page.url.endswith("formula=u%2Bv&m=1")
    visit.expect("status of 422")


def test_a_kernel_changed_before_it_is_answered_has_its_own_entry_in_the_history(page: Any) -> None:
    page.goto("/playground/couplings?kernel=minimum&m=1")
    page.locator("#chart svg").wait_for()
    held = held_back(page, "**/api/v1/playground/couplings?kernel=step&m=1")
    page.get_by_label("Kernel", exact=True).select_option("step")
    wait_for_held(page, held)
    page.get_by_role("slider", name="Head size").press("ArrowRight")
    page.wait_for_url("**?kernel=step&m=2")
    page.go_back()
    page.wait_for_url("**?kernel=minimum&m=1")
    expect(page.get_by_label("Kernel", exact=True)).to_have_value("minimum")
