"""On a paper's page figures open in place by keyboard, and commands are copied by a button."""

from __future__ import annotations

from typing import Any

import pytest

FANG = "/papers/fang-2022-attention-enables-zero-approximation-error"


def test_a_figure_opens_by_keyboard_and_gives_the_focus_back(page: Any) -> None:
    page.goto(FANG)
    thumbnail = page.locator("#table-1 a[data-figure]")
    thumbnail.focus()
    page.keyboard.press("Enter")
    viewer = page.get_by_role("dialog")
    assert viewer.is_visible()
    viewer.get_by_role("img").wait_for()
    size = viewer.get_by_role("img").evaluate(
        "image => image.decode().then(() => image.naturalWidth)"
    )
    assert size > 400
    page.keyboard.press("Escape")
    viewer.wait_for(state="hidden")
    assert thumbnail.evaluate("link => link === document.activeElement")


@pytest.mark.slow
def test_a_command_is_copied_by_its_button(page: Any) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(FANG)
    button = page.locator("#table-1 [data-command]")
    button.click()
    page.get_by_text("Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("exactformer reproduce fang-table-1")


@pytest.mark.slow
def test_a_link_to_a_claim_leads_to_its_card(page: Any) -> None:
    page.goto(FANG)
    page.get_by_role("navigation", name="Claims at a glance").get_by_role(
        "link", name="Table 1"
    ).click()
    assert page.url.endswith("#table-1")
    assert page.locator("#table-1").evaluate("card => card.matches(':target')")
