"""The other two playgrounds: what they answer, what they refuse, and whether they fit a phone."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.studio.support.browsers import PHONE, Visit, scrolls_sideways, until

pytestmark = pytest.mark.slow


def test_the_output_of_the_transformer_is_the_sorted_input_up_to_a_cell(page: Any) -> None:
    page.goto("/playground/sequences?map=sort&tokens=3&cells=8&input=0.6,0.2,0.8")
    page.get_by_text("1 / 8").wait_for()
    outputs = map(float, page.locator("#table tbody td:nth-of-type(5)").all_inner_texts())
    assert list(outputs) == pytest.approx([0.2, 0.6, 0.8], abs=1 / 8)


def test_another_map_is_another_journey(page: Any) -> None:
    page.goto("/playground/sequences")
    page.get_by_text("1 / 8").wait_for()
    before = page.locator("#summary").inner_text()
    page.get_by_label("Map", exact=True).select_option("reverse")
    until(page, f"document.querySelector('#summary').textContent !== {before!r}")
    until(page, "new URLSearchParams(location.search).get('map') === 'reverse'")


def test_too_many_tokens_are_refused_in_words(visit: Visit) -> None:
    page = visit.page()
    page.goto("/playground/sequences?tokens=50")
    assert "5" in page.get_by_text("tokens").filter(has_text="5").first.inner_text()
    visit.expect("status of 4")


def test_a_kernel_can_be_typed_and_an_error_is_told(visit: Visit) -> None:
    page = visit.page()
    page.goto("/playground/couplings?kernel=formula&formula=u+v&m=1")
    page.locator("#numbers > div", has_text="0").first.wait_for()
    page.get_by_label("Formula in u and v").fill("u +* v")
    page.get_by_role("button", name="Decompose").click()
    expect(page.get_by_role("alert")).to_contain_text("character 4")
    visit.expect("status of 4")


def test_both_fit_a_phone(visit: Visit) -> None:
    page = visit.page(size=PHONE)
    page.goto("/playground/sequences")
    page.get_by_text("1 / 8").wait_for()
    assert not scrolls_sideways(page)
    page.goto("/playground/couplings")
    page.locator("#chart svg").wait_for()
    assert not scrolls_sideways(page)
