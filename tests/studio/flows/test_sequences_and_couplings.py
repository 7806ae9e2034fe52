"""The other two playgrounds: step through the journey of tokens; move the head size, draw a kernel."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.studio.browsers import PHONE, Visit, scrolls_sideways, until


def asked(page: Any, name: str) -> str:
    """What the address says of something."""
    return parse_qs(urlsplit(page.url).query).get(name, [""])[0]


def test_one_steps_through_the_journey_of_the_tokens(page: Any) -> None:
    page.goto("/playground/sequences?map=sort&tokens=3&cells=8&input=0.6,0.2,0.8")
    page.get_by_text("1 / 8").wait_for()
    assert page.get_by_role("button", name="Back").is_disabled()
    told = set()
    for station in range(2, 9):
        page.get_by_role("button", name="Step").click()
        page.get_by_text(f"{station} / 8").wait_for()
        told.add(page.locator("#player p").inner_text())
    assert len(told) == 7
    assert page.get_by_role("button", name="Step").is_disabled()
    assert asked(page, "step") == "7"
    page.get_by_role("slider", name="Station").press("Home")
    page.get_by_text("1 / 8").wait_for()


def test_the_output_of_the_transformer_is_the_sorted_input_up_to_a_cell(page: Any) -> None:
    page.goto("/playground/sequences?map=sort&tokens=3&cells=8&input=0.6,0.2,0.8")
    page.get_by_text("1 / 8").wait_for()
    cells = page.locator("#table tbody td:nth-of-type(5)").all_inner_texts()
    assert [
        abs(float(cell) - exact) < 1 / 8 for cell, exact in zip(cells, (0.2, 0.6, 0.8), strict=True)
    ]


def test_a_slider_changes_the_input(page: Any) -> None:
    page.goto("/playground/sequences?input=0.6,0.2,0.8")
    slider = page.get_by_role("slider", name="token 1")
    slider.focus()
    page.keyboard.press("ArrowRight")
    until(page, "new URLSearchParams(location.search).get('input').startsWith('0.605')")


def test_another_map_is_another_journey(page: Any) -> None:
    page.goto("/playground/sequences")
    page.get_by_text("1 / 8").wait_for()
    before = page.locator("#summary").inner_text()
    page.get_by_label("Map", exact=True).select_option(index=1)
    until(page, f"document.querySelector('#summary').textContent !== {before!r}")
    assert asked(page, "map") == page.get_by_label("Map", exact=True).input_value()


def test_too_many_tokens_are_refused_in_words(visit: Visit) -> None:
    page = visit.page()
    page.goto("/playground/sequences?tokens=50")
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert "5" in alert.inner_text()
    visit.expect("status of 4")


def test_a_larger_head_loses_less(page: Any) -> None:
    page.goto("/playground/couplings?m=2")
    lost = page.locator("#numbers > div", has_text="lost of").locator("dd")
    page.locator("#chart svg").wait_for()
    before = float(lost.inner_text().rstrip(" %"))
    slider = page.get_by_label("Head size")
    slider.focus()
    page.keyboard.press("ArrowRight")
    until(page, "new URLSearchParams(location.search).get('m') === '3'")
    page.locator("#m-value", has_text="3").wait_for()
    until(page, f"!document.querySelector('#numbers dd').textContent.startsWith('{before:g}')")
    assert float(lost.inner_text().rstrip(" %")) < before


def test_a_kernel_can_be_drawn_with_the_keyboard(page: Any) -> None:
    page.goto("/playground/couplings")
    page.get_by_label("Kernel", exact=True).select_option("drawn")
    page.get_by_role("button", name="Clear").click()
    cell = page.get_by_role("button", name="row 1, column 1")
    cell.focus()
    page.keyboard.press("Space")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("+")
    until(page, "(new URLSearchParams(location.search).get('drawing') ?? '').startsWith('1,')")
    first = asked(page, "drawing").split(";")[0].split(",")
    assert float(first[0]) == 1
    assert float(first[1]) > 0


def test_a_kernel_can_be_typed_and_an_error_is_told(visit: Visit) -> None:
    page = visit.page()
    page.goto("/playground/couplings?kernel=formula&formula=u+v&m=1")
    page.locator("#numbers > div", has_text="0").first.wait_for()
    page.get_by_label("Polynomial in u and v").fill("u +* v")
    page.get_by_role("button", name="Decompose").click()
    page.get_by_role("alert").wait_for()
    visit.expect("status of 4")


def test_both_fit_a_phone(visit: Visit) -> None:
    page = visit.page(size=PHONE)
    page.goto("/playground/sequences")
    page.get_by_text("1 / 8").wait_for()
    assert not scrolls_sideways(page)
    page.goto("/playground/couplings")
    page.locator("#chart svg").wait_for()
    assert not scrolls_sideways(page)
