"""The research map in a browser: with the mouse, with the keyboard alone, and without scripts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from tests.studio.support.browsers import (
    PHONE,
    accessibility,
    held_back,
    scrolls_sideways,
    until,
    until_it_looks_different,
    wait_for_held,
)
from tests.studio.support.map_library import add_works


@pytest.fixture(scope="module")
def works(live_server):
    engine = create_engine(live_server.database)
    with Session(engine) as db, db.begin():
        names = add_works(db)
    engine.dispose()
    return names


def chosen(page) -> str:
    return page.locator("[data-chosen] .map-entry__name").inner_text()


def open_map(page, **query):
    page.goto("/map?" + "&".join(f"{name}={value}" for name, value in query.items()))
    page.wait_for_selector("[data-chosen] .map-entry__name")
    return page


def test_the_whole_map_is_usable_with_the_keyboard_alone(page, works):
    open_map(page, node=works["person"])
    canvas = page.locator("[data-canvas]")
    canvas.focus()
    assert chosen(page) == "Zuzana Mapová"
    seen = {chosen(page)}
    for key in ("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"):
        for _ in range(2):
            page.keyboard.press(key)
            seen.add(chosen(page))
    assert seen == {"Zuzana Mapová", "The centre of <it>", "Mapping Institute"}
    for key in ("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight") * 3:
        if chosen(page) != "The centre of <it>":
            page.keyboard.press(key)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**expanded={works['paper']}")
    page.wait_for_selector("[data-chosen] [aria-label^=Collapse]")
    assert "Mapping" in page.locator("[data-view]").text_content()
    page.keyboard.press("f")
    page.wait_for_url(re.compile(f"node={works['paper']}$"))
    page.go_back()
    page.wait_for_selector("[data-chosen] [aria-label^=Collapse]")
    page.locator("[data-canvas]").focus()
    page.keyboard.press("o")
    page.wait_for_url(re.compile(r"/(papers|people)/"))


def test_what_is_asked_for_last_is_shown_whatever_is_answered_last(page, works):
    open_map(page, node=works["paper"])
    held = held_back(page, f"**/map/slice?node={works['person']}")
    page.click("#tab-list")
    page.click("#panel-list [aria-label='Focus on Zuzana Mapová']")
    wait_for_held(page, held)
    page.click("#panel-list [aria-label='Focus on Mapping']")
    heading = page.locator("[data-heading]")
    expect(heading).to_have_text("Around Mapping")
    expect(page.locator("[data-chosen] .map-entry__name")).to_have_text("Mapping")
    page.click("#panel-list [aria-label='Focus on The centre of <it>']")
    expect(heading).to_have_text("Around The centre of <it>")
    page.unroute_all()
    page.go_back()
    expect(heading).to_have_text("Around Mapping")
    page.click("#tab-drawing")
    page.locator("[data-canvas]").press("f")  # the centre: nothing to do
    assert chosen(page) == "Mapping"
    assert held[0].request.failure == "net::ERR_ABORTED"


def test_a_filter_joins_the_focus_that_is_still_awaited(page, works):
    open_map(page, node=works["paper"])
    held = held_back(page, f"**/map/slice?node={works['person']}")
    page.click("#tab-list")
    page.click("#panel-list [aria-label='Focus on Zuzana Mapová']")
    wait_for_held(page, held)
    page.uncheck("input[value=claim]")
    page.wait_for_url(f"**node={works['person']}&kinds=paper,person,institution,topic**")
    expect(page.locator("[data-heading]")).to_have_text("Around Zuzana Mapová")
    assert page.locator("[data-map]").get_attribute("aria-busy") is None


def test_names_that_come_late_do_not_open_the_list_again(page, works):
    open_map(page, node=works["paper"])
    page.fill("#map-q", "mapova")
    found = page.locator("[data-found-list]")
    found.get_by_text("Zuzana Mapová").wait_for()
    held = held_back(page, "**/map/found?*")
    page.locator("#map-q").press_sequentially("m")
    wait_for_held(page, held)
    found.get_by_text("Zuzana Mapová").click()
    page.wait_for_url(re.compile(f"node={works['person']}"))
    until(page, "!document.querySelector('[data-map][aria-busy]')")
    assert held[0].request.failure == "net::ERR_ABORTED"
    expect(found).to_be_empty()


def test_the_map_says_when_the_studio_does_not_answer(visit, works):
    page = open_map(visit.page(), node=works["paper"])
    with visit.losing(page, "**/map/*"):
        page.fill("#map-q", "mapova")
        expect(page.locator("[data-found-list]")).to_have_text("The studio does not answer.")
        page.click("#tab-list")
        page.click("#panel-list [aria-label='Focus on Mapping']")
        expect(page.locator("#toasts")).to_have_text("The studio does not answer.")
    page.click("#panel-list [aria-label='Focus on Mapping']")
    expect(page.locator("[data-heading]")).to_have_text("Around Mapping")


@pytest.mark.slow
def test_search_and_focus_need_no_reload(page, works):
    open_map(page, node=works["paper"])
    page.evaluate("window.stayed = true")
    page.fill("#map-q", "mapova")
    page.wait_for_selector("[data-found] >> text=Zuzana Mapová")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(f"node={works['person']}"))
    assert page.evaluate("window.stayed")
    page.go_back()
    expect(page.locator("[data-heading]")).to_have_text("Around The centre of <it>")


@pytest.mark.slow
def test_kinds_are_filtered_and_the_list_says_what_the_drawing_shows(page, works):
    open_map(page, node=works["paper"])
    page.uncheck("input[value=claim]")
    page.wait_for_url("**kinds=paper,person,institution,topic**")
    page.locator("[data-status]", has_text="4 nodes, 3 edges.").wait_for()
    page.click("#tab-list")
    expect(page.locator("#panel-list [data-node]")).to_have_count(4)
    assert not page.locator("[data-canvas]").is_visible()
    page.keyboard.press("ArrowLeft")
    assert page.locator("[data-canvas]").is_visible()
    page.go_back()
    page.wait_for_function("document.querySelector('input[value=claim]').checked")


@pytest.mark.slow
def test_colours_follow_the_scheme_and_nothing_of_the_drawing_is_styled_inline(page, works):
    open_map(page, node=works["paper"])
    picture = page.locator("[data-canvas]").screenshot()
    page.evaluate("document.documentElement.dataset.scheme = 'dark'")
    until_it_looks_different(page.locator("[data-canvas]"), picture)
    assert page.locator("style").count() == 0


@pytest.mark.spread(1)
@pytest.mark.parametrize(
    ("size", "scheme"), [(None, "light"), (PHONE, "dark")], ids=["desk", "phone"]
)
def test_the_map_is_accessible_and_fits(visit, works, size, scheme):
    page = open_map(visit.page(size=size, scheme=scheme), node=works["paper"])
    for tab in ("#tab-drawing", "#tab-list"):
        page.click(tab)
        assert accessibility(page) == []
        assert not scrolls_sideways(page)


def test_without_scripts_the_list_leads_everywhere(visit, works):
    page = visit.page(java_script_enabled=False)
    page.goto(f"/map?node={works['person']}")
    assert not page.locator("[data-canvas]").is_visible()
    page.click("[aria-label^='Expand The centre']")
    expect(page.locator("[data-node]").nth(3)).to_be_attached()
    page.uncheck("input[value=claim]")
    page.click("[data-filter] button")
    expect(page.locator("[data-node^=claim]")).to_have_count(0)
    page.fill("#map-q", "the end of")
    page.click("button:text('Find')")
    page.click("[data-found]")
    expect(page.locator("[data-heading]")).to_have_text("Around The end of <it>")
