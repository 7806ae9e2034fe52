"""The playground of programs: choose one, type an input, step through the heads, be refused."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.studio.support.browsers import PHONE, Visit, accessibility, scrolls_sideways

ADDRESS = "/playground/programs"


def row(page: Any, name: str) -> list[str]:
    """The values of a row of the output."""
    cells = page.locator("#output tr", has_text=name).locator("td")
    return list(cells.all_inner_texts())


def test_a_program_is_chosen_run_and_followed_head_by_head(visit: Visit) -> None:
    page = visit.page()
    page.goto(ADDRESS)
    page.get_by_label("A program of the library").select_option("reverse")
    page.get_by_role("button", name="Show it").click()
    expect(page.locator("#statement")).to_contain_text("from the last token to the first")
    page.get_by_label("Input", exact=True).fill("cab")
    page.get_by_role("button", name="Compile and run").click()
    expect(page.get_by_role("row", name="input c a b")).to_be_visible()
    assert row(page, "the transformer") == row(page, "the program") == ["b", "a", "c"]
    title = page.locator(".pg-player strong")
    expect(title).to_contain_text("Embedding")
    shown = page.locator(".pg-step-card:visible")
    expect(shown).to_have_count(1)
    steps = page.locator(".pg-step-card").count()
    for step in range(2, steps + 1):
        page.get_by_role("button", name="Step").click()
        expect(title).to_contain_text(f"{step} / {steps}")
    expect(page.locator(".pg-words")).to_contain_text("Selects: indices == opposite.")
    expect(shown.get_by_role("img")).to_be_visible()
    shown.get_by_text("As a table").click()
    weights = shown.get_by_role("region", name="Attention weights").get_by_role("row")
    assert weights.nth(2).locator("td").all_inner_texts() == ["0", "0", "0", "1"]
    expect(shown.get_by_role("row", name="reverse (new) b a c")).to_be_visible()
    page.wait_for_url(f"**&step={steps - 1}")
    again = visit.page(size=PHONE, scheme="dark")
    again.goto(page.url)
    expect(again.locator(".pg-player strong")).to_contain_text(f"{steps} / {steps}")
    assert not scrolls_sideways(again)
    assert accessibility(again) == []


@pytest.mark.slow
def test_a_wrong_program_is_refused_where_it_is_wrong_and_can_be_mended(visit: Visit) -> None:
    page = visit.page()
    page.goto(ADDRESS)
    text = page.get_by_label("Program", exact=True)
    text.fill("same = Select(tokens, tokens, EQ)\nopen('/etc/passwd')")
    page.get_by_role("button", name="Compile and run").click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("open cannot be called")
    expect(alert).to_contain_text("line 2, character 1")
    assert page.locator("#result").count() == 0
    assert accessibility(page) == []
    assert "open('/etc/passwd')" in text.input_value()
    text.fill("same = Select(tokens, tokens, EQ)\nSelectorWidth(same)")
    page.get_by_role("button", name="Compile and run").click()
    expect(page.locator("#output")).to_be_visible()
    assert row(page, "the transformer") == ["2", "1", "1", "2"]
    visit.expect("status of 422")


@pytest.mark.slow
def test_without_scripts_every_step_is_there_to_read(visit: Visit) -> None:
    page = visit.page(java_script_enabled=False)
    page.goto(ADDRESS)
    page.get_by_label("A program of the library").select_option("sort")
    page.get_by_role("button", name="Show it").click()
    assert row(page, "the transformer") == ["0", "1", "2", "3"]
    assert all(card.is_visible() for card in page.locator(".pg-step-card").all())
    assert "Selects: place == indices." in page.locator("#steps").inner_text()
