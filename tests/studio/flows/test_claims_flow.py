"""From a claim to its construction and back, its discussion, its run; refusals with a remedy."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.studio.support.browsers import Visit
from tests.studio.support.people import People

FANG = "/papers/fang-2022-attention-enables-zero-approximation-error"


@pytest.mark.slow
def test_a_claim_is_discussed_run_and_tried(visit: Visit, live_people: People) -> None:
    person = live_people.new()
    page = visit.page(person)
    page.goto(f"{FANG}#theorem-3-5-rounding")
    page.locator("#theorem-3-5-rounding").get_by_role("link", name="about").click()
    page.get_by_label("Your comment").fill(f"{person.handle} asks why $\\frac{{1}}{{0$")
    page.get_by_role("button", name="Comment", exact=True).click()
    mine = page.locator("article.comment", has_text=f"{person.handle} asks why")
    expect(mine.get_by_role("link", name="#theorem-3-5-rounding")).to_have_count(1)
    expect(mine.locator(".math--wrong")).to_have_count(1)  # and the policy forbids nothing
    mine.get_by_role("link", name="Reply").click()
    page.get_by_label("Your reply").fill("Never mind.")
    page.get_by_role("link", name="Cancel").click()
    expect(page.locator(".slot form")).to_have_count(0)

    page.get_by_role("button", name="Run it here").click()
    expect(page.get_by_role("columnheader", name="Just now")).to_have_count(1)

    page.get_by_role("link", name="Try it live").click()
    page.locator("#surface canvas").wait_for()
    assert page.get_by_label("Construction").input_value() == "paper"
    page.get_by_role("link", name="Theorem 3.5", exact=True).click()
    page.get_by_role("heading", name="Theorem 3.5: any polynomial").wait_for()


def test_the_page_walks_through_the_blocks_in_words(page: Any) -> None:
    page.goto("/playground/polynomial?p=8 x^2&x=0.5")
    words, title = page.locator(".pg-words"), page.locator(".pg-player strong")
    expect(words).to_contain_text("1·0.5 = 0.5")
    page.get_by_role("button", name="Step").click()
    expect(words).to_contain_text("3.25 − 3 = 0.25, stored as power 2")
    expect(page.get_by_role("tab", name="Block 1")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("img", name="Scores of token 1: 3.25 with token 1")).to_have_count(1)
    page.get_by_role("button", name="Step").click()
    expect(words).to_contain_text("8·0.25 = 2, the transformer's answer")
    expect(title).to_contain_text("3 / 3")
    page.get_by_label("Construction").select_option("paper")
    expect(page.locator("#construction-hint")).to_contain_text("matrix for matrix")
    expect(page.locator("#cost-note")).to_contain_text("exactly the counts")


@pytest.mark.slow
def test_a_refusal_greys_what_is_shown_and_its_button_mends_it(visit: Visit) -> None:
    page = visit.page()
    page.goto("/playground/polynomial?p=x^2")
    result = page.locator("#result")
    page.locator("#facts", has_text="proven").wait_for()
    page.get_by_label("Polynomial").fill("x^2 + 3xy")
    page.get_by_role("button", name="Write x y").wait_for()
    expect(result).to_have_class("stack stack--wide pg-stale")
    page.get_by_role("button", name="Write x y").click()
    page.get_by_label("y", exact=True).wait_for()
    expect(result).not_to_have_class("stack stack--wide pg-stale")
    assert page.get_by_label("Polynomial").input_value() == "x^2 + 3x y"
    page.goto("/playground/sequences?tokens=5&cells=32")
    page.get_by_role("button", name="cells per side").click()
    page.locator("#scene svg").first.wait_for()
    visit.expect("status of 422")


def test_numbers_agree_after_a_change_and_silence_is_told(
    visit: Visit, live_people: People
) -> None:
    page = visit.page(live_people.new())
    page.goto(FANG)
    before = int(page.locator("dd[data-count=saves]").inner_text())
    page.locator("#save").click()
    expect(page.locator("dd[data-count=saves]")).to_have_text(str(before + 1))
    with visit.losing(page, "**/vote"):
        page.locator("#vote-like").click()
        expect(page.locator("#toasts")).to_contain_text("The studio does not answer")
