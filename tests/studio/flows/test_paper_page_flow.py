"""A paper's page: claims folded to a line, tabs that stay, figures in place, commands to copy."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from PIL import Image, ImageStat
from playwright.sync_api import expect

from tests.studio.support.browsers import DESK, PHONE, Visit, layout_shift, until

FANG = "/papers/fang-2022-attention-enables-zero-approximation-error"


def test_a_figure_opens_by_keyboard_and_gives_the_focus_back(page: Any) -> None:
    page.goto(f"{FANG}#table-1")
    thumbnail = page.locator("#table-1 a[data-figure]")
    thumbnail.focus()
    page.keyboard.press("Enter")
    viewer = page.get_by_role("dialog")
    expect(viewer).to_be_visible()
    viewer.get_by_role("img").wait_for()
    size = viewer.get_by_role("img").evaluate(
        "image => image.decode().then(() => image.naturalWidth)"
    )
    assert size > 400
    page.keyboard.press("Escape")
    viewer.wait_for(state="hidden")
    assert thumbnail.evaluate("link => link === document.activeElement")


@pytest.mark.slow
def test_in_the_dark_figures_are_dark_and_on_a_phone_one_can_register(visit: Visit) -> None:
    page = visit.page(scheme="dark", size=PHONE)
    page.goto(f"{FANG}/claims/table-1")
    figure = page.locator(".claim__figure img")
    figure.scroll_into_view_if_needed()
    figure.evaluate("image => image.decode()")
    shown = Image.open(BytesIO(figure.screenshot())).convert("L")
    assert ImageStat.Stat(shown).median[0] < 60
    register, name = page.get_by_role("link", name="Register"), page.locator(".brand")
    assert abs(register.bounding_box()["y"] - name.bounding_box()["y"]) < 20
    page.goto("/papers")
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()


@pytest.mark.slow
def test_verdicts_are_seen_on_a_phone(visit: Visit) -> None:
    page = visit.page(size=PHONE)
    for anchor in ("table-1", "figure-2"):
        page.goto(f"{FANG}/claims/{anchor}")
        frame = page.locator(".table-frame").first
        assert frame.evaluate("frame => frame.scrollWidth - frame.clientWidth") <= 0
    page.goto("/claims")
    widths = [badge.bounding_box()["width"] for badge in page.locator(".claim-row .status").all()]
    assert max(widths) < 0.8 * PHONE["width"]


def test_a_command_is_copied_by_its_button(page: Any) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{FANG}#table-1")
    button = page.locator("#table-1 [data-command]")
    button.click()
    page.get_by_text("Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("exactformer reproduce fang-table-1")


@pytest.mark.spread(1)
@pytest.mark.parametrize(("size", "reach"), [(DESK, 3000), (PHONE, 4500)], ids=["desk", "phone"])
def test_claims_are_folded_and_what_readers_say_is_within_reach(
    visit: Visit, size: dict[str, int], reach: int
) -> None:
    """A fresh window on the page, a claim opened by keyboard, a tab that stays and leads."""
    page = visit.page(size=size)
    page.goto(FANG)
    places = page.evaluate(
        "['claims', 'reviews', 'discussion', 'map'].map("
        "id => document.getElementById(id).getBoundingClientRect().top)"
    )
    assert places == sorted(places)
    assert places[2] < reach
    inside = page.locator("#table-1 .claim__inside")
    expect(inside).to_be_hidden()
    page.locator("#table-1 summary").first.press("Enter")
    expect(inside).to_be_visible()
    tabs = page.get_by_role("navigation", name="On this page")
    tabs.get_by_role("link", name="Discussion").click()
    until(page, "scrollY > 500")
    assert tabs.bounding_box()["y"] < 70
    current = tabs.locator("[aria-current]")
    expect(current).to_contain_text("Discussion")
    heading = page.locator("#discussion-heading").bounding_box()["y"]
    assert tabs.bounding_box()["y"] + tabs.bounding_box()["height"] <= heading


@pytest.mark.slow
def test_a_link_to_a_claim_opens_its_card_and_all_are_opened_at_once(visit: Visit) -> None:
    page = visit.page(size=PHONE)
    page.goto(f"{FANG}#table-1")
    expect(page.locator("#table-1 .claim__inside")).to_be_visible()
    assert page.locator("#table-1").evaluate("card => card.matches(':target')")
    until(
        page,
        "(y => 0 <= y && y < 200)(document.getElementById('table-1').getBoundingClientRect().y)",
    )
    page.get_by_role("button", name="Open all").click()
    expect(page.locator(".claim__inside:visible")).to_have_count(page.locator(".fold").count())
    page.goto(f"{FANG}/claims/table-1")  # formulas and their letters were there from the first
    page.locator(".katex").first.wait_for()
    page.wait_for_load_state("networkidle")
    assert layout_shift(page) < 0.02


def test_without_scripts_claims_open_by_hand(visit: Visit) -> None:
    page = visit.page(size=PHONE, java_script_enabled=False)
    page.goto(FANG)
    expect(page.get_by_role("button", name="Open all")).to_have_count(0)
    page.locator("#table-1 summary").first.click()
    expect(page.locator("#table-1 .claim__inside")).to_be_visible()
    page.get_by_text("Code, data, links, export").click()
    expect(page.get_by_role("link", name="History of changes")).to_be_visible()


def test_an_institution_leads_to_its_people_and_papers(page: Any) -> None:
    page.goto(FANG)
    title = page.locator("h1").inner_text()
    page.get_by_role("list", name="Institutions").get_by_role("link").first.click()
    page.wait_for_url("**/institutions/*")
    page.get_by_role("link", name=title).wait_for()
    page.get_by_role("link", name="Zhiying Fang").first.click()
    page.wait_for_url("**/people/*")
    page.get_by_role("link", name=title).wait_for()


def test_the_map_of_a_paper_leads_to_the_explorer(page: Any) -> None:
    page.goto(FANG)
    page.locator("#map").scroll_into_view_if_needed()
    page.locator("#map canvas").first.wait_for()
    page.get_by_role("link", name="Explore full screen").click()
    page.wait_for_url("**/map?node=paper:*")
    page.locator("canvas").first.wait_for()
