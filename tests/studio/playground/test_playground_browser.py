"""The playground in a browser: matrices by keyboard, journeys, kernels, and the way back."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from exactformer.studio.playground.couplings import CouplingRequest, decompose
from exactformer.studio.playground.sequences import SequenceRequest, journey
from tests.studio.support.browsers import (
    PHONE,
    Visit,
    held_back,
    scrolls_sideways,
    until,
    wait_for_held,
)


def state_of(page: Any) -> dict[str, str]:
    asked = page.evaluate("location.search.slice(1)")  # page.url is told later
    return {name: values[0] for name, values in parse_qs(asked).items()}


def wait_for_state(page: Any, name: str, value: str) -> None:
    page.wait_for_url(lambda url: parse_qs(urlsplit(url).query).get(name) == [value])


def matrix(page: Any, name: str) -> Any:
    return page.get_by_role("group", name=f"{name}, ")


def test_a_matrix_says_its_exact_entries_by_keyboard_and_as_a_table(page: Any) -> None:
    page.goto("/playground/polynomial?p=1/3 x^2&radius=7/5&part=embedding")
    features = matrix(page, "F")
    features.focus()
    page.keyboard.press("ArrowDown")
    figure = page.locator("figure", has=features)
    assert figure.locator(".pg-readout").inner_text() == "token 1 ← x = 5/7"
    figure.get_by_text("As a table").click()
    expect(figure.get_by_role("row", name="token 1 x 5/7")).to_have_count(1)
    page.get_by_role("tab", name="Readout").click()
    beta = matrix(page, "β")
    beta.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    words = page.locator("figure", has=beta).locator(".pg-readout").inner_text()
    assert words == "token 1 ← power 2 = 49/75"
    canvas = beta.locator("canvas")
    width = canvas.bounding_box()["width"]
    page.keyboard.press("+")
    expect(canvas).not_to_have_css("width", f"{width:g}px")
    assert canvas.bounding_box()["width"] > width


def test_scripts_never_print_a_bound_below_itself(page: Any) -> None:
    page.goto("/help")
    digits = "import('/static/playground/format.js').then((m) => [%s].map((v) => m.atMost(v, 2)))"
    shown = page.evaluate(digits % "0, 0.1, 1.04e-12, 9.91e-16, 1000.1, 1.25e7, 0.00012001")
    assert shown == ["0", "0.1", "1.1·10⁻¹²", "1·10⁻¹⁵", "1100", "1.3·10⁷", "0.00013"]


def test_what_is_typed_before_the_first_answer_is_what_is_traced(page: Any) -> None:
    page.clock.install()
    held = held_back(page, "**/api/v1/playground/polynomial?p=x&*")
    page.goto("/playground/polynomial?p=x")
    wait_for_held(page, held)
    page.clock.pause_at(datetime.now() + timedelta(hours=1))  # nothing typed is read meanwhile
    page.get_by_label("Polynomial").fill("x^2 + 3 x y - 1")
    with page.expect_response("**/api/v1/playground/polynomial?p=x&*") as late:
        held[0].continue_()
    assert late.value.ok
    until(page, "!document.body.hasAttribute('aria-busy')")
    page.clock.resume()
    page.get_by_label("y", exact=True).wait_for()
    expect(page.locator("#output dd").first).to_have_text(re.compile(r"^0\.0(8|79999)"))
    wait_for_state(page, "x", "0.6,0.4")


def test_moving_x_asks_about_the_model_that_is_shown(page: Any) -> None:
    page.goto("/playground/polynomial?p=x^2&x=0.5&axes=x")
    slider = page.get_by_role("slider", name="x")
    slider.wait_for()
    held = held_back(page, "**/api/v1/playground/polynomial/parse?*")
    page.get_by_label("Polynomial").fill("a b c")
    wait_for_held(page, held)
    slider.press("Home")
    expect(page.locator("#output dd").first).to_have_text("1")  # (−1)², and nothing about a b c
    assert "p=x%5E2&" in page.locator("#download-model").get_attribute("href")
    held[0].continue_()
    page.get_by_label("c", exact=True).wait_for()
    page.locator("#surface svg, #surface canvas").first.wait_for()
    assert "axes" not in state_of(page)


def test_a_journey_is_that_of_the_model_that_is_shown(page: Any) -> None:
    page.goto("/playground/sequences?map=identity&tokens=2&cells=4&input=0.3,0.6")
    token = page.get_by_role("slider", name="token 1")
    token.wait_for()
    held = held_back(page, "**/api/v1/playground/sequences?*tokens=3*")
    page.get_by_label("Tokens").fill("3")
    token.press("End")  # of two, while three are built
    wait_for_held(page, held)
    token.press("Home")
    held[0].continue_()
    page.get_by_role("slider", name="token 3").wait_for()
    expect(page.locator("#table tbody tr")).to_have_count(3)
    wait_for_state(page, "tokens", "3")


@pytest.mark.slow
def test_the_way_back_leads_through_what_was_built(page: Any) -> None:
    page.goto("/playground/polynomial?p=x")
    page.locator("#facts", has_text="1 token").wait_for()
    page.get_by_label("Polynomial").fill("x y")
    page.get_by_label("y", exact=True).wait_for()
    page.get_by_label("Construction").select_option("paper")
    page.get_by_role("tab", name="Block 2").wait_for()
    page.go_back()
    page.get_by_role("tab", name="Block 2").wait_for(state="detached")
    assert page.get_by_label("Construction").input_value() == "scaled"
    assert page.get_by_label("Polynomial").input_value() == "x y"
    page.go_back()
    page.get_by_label("y", exact=True).wait_for(state="detached")
    assert page.get_by_label("Polynomial").input_value() == "x"
    page.go_forward()
    page.get_by_label("y", exact=True).wait_for()


def norm(page: Any) -> float:
    """The distance of the point in the address from 0."""
    return math.hypot(*map(float, state_of(page)["x"].split(",")))


@pytest.mark.slow
def test_x_never_leaves_the_ball(page: Any) -> None:
    page.goto("/playground/polynomial?p=x y&x=1,1")
    page.get_by_text("where nothing is proven. It was moved inside").wait_for()
    assert 0.9 < norm(page) <= 1
    page.get_by_label("x", exact=True).press("End")
    page.get_by_label("y", exact=True).press("End")
    assert 0.9 < norm(page) <= 1
    page.get_by_label("Radius of the ball").fill("1/3")
    until(page, "Number(document.getElementById('x-x').max) < 0.34")
    assert norm(page) <= 1 / 3


@pytest.mark.slow
def test_one_of_many_heads_is_shown_at_a_time(page: Any) -> None:
    page.goto("/playground/polynomial?p=x^2&construction=softmax&x=0.5&head=2")
    choice = page.get_by_label("Head", exact=True)
    choice.wait_for()
    assert choice.input_value() == "2"
    expect(page.get_by_role("tabpanel").locator("figure")).to_have_count(7)
    choice.select_option("5")
    assert state_of(page)["head"] == "5"


@pytest.mark.slow
def test_a_journey_can_be_stepped_through_and_shared(visit: Visit) -> None:
    page = visit.page()
    page.goto("/playground/sequences?map=sort&input=0.1,0.7,0.4")
    words = page.locator(".pg-words")
    words.wait_for()
    assert "3 tokens come in: 0.1; 0.7; 0.4" in words.inner_text()
    assert page.get_by_role("button", name="Back").is_disabled()
    page.get_by_role("button", name="Step").click()
    assert "falls into a cell: 0; 5; 3" in words.inner_text()
    slider = page.get_by_role("slider", name="Step")
    slider.focus()
    page.keyboard.press("End")
    way = journey(SequenceRequest(input="0.1,0.7,0.4"))
    assert way["output"] == [[0.0625], [0.4375], [0.6875]]
    assert "Looked up: 0.0625; 0.4375; 0.6875." in words.inner_text()
    key = f"{way['keys'][0]['key']:,}"
    expect(page.get_by_role("row", name="0.1", exact=False).first.get_by_text(key)).to_have_count(1)
    again = visit.page(size=PHONE, scheme="dark")
    again.goto(page.url)
    again.locator(".pg-words", has_text="Looked up").wait_for()
    assert not scrolls_sideways(again)


@pytest.mark.slow
def test_a_wrong_address_is_told_until_something_else_is_asked_for(visit: Visit) -> None:
    page = visit.page()
    page.goto("/playground/sequences?tokens=50")
    alert = page.get_by_role("alert")
    page.locator(".pg-words").wait_for()
    assert "is 1 to 5 in the playground, not 50" in alert.inner_text()
    assert state_of(page)["tokens"] == "3"
    page.get_by_label("Map", exact=True).select_option("reverse")
    alert.wait_for(state="hidden")
    visit.expect("status of 422")


@pytest.mark.slow
def test_a_journey_plays_and_pauses(page: Any) -> None:
    page.goto("/playground/sequences?map=identity&tokens=1&cells=2")
    title = page.locator(".pg-player strong")
    expect(title).to_contain_text("1 / ")
    page.clock.install()
    page.clock.pause_at(datetime.now() + timedelta(hours=1))  # or the journey might end by itself
    page.get_by_role("button", name="Play").click()
    page.clock.run_for(1300)
    expect(title).to_contain_text("2 / ")
    page.get_by_role("button", name="Pause").click()
    page.clock.run_for(5000)
    expect(title).to_contain_text("2 / ")
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_moving_a_token_changes_its_journey(page: Any) -> None:
    page.goto("/playground/sequences?map=identity&tokens=2&cells=4&input=0.3,0.6&step=1")
    token = page.get_by_role("slider", name="token 1")
    token.wait_for()
    token.focus()
    page.keyboard.press("End")
    page.locator("#table", has_text="outside").wait_for()
    assert state_of(page)["input"] == "1.1,0.6"
    page.keyboard.press("Home")
    wait_for_state(page, "input", "-0.1,0.6")


def test_a_kernel_can_be_drawn_with_the_keyboard_and_with_the_pointer(page: Any) -> None:
    page.goto("/playground/couplings?kernel=drawn&m=1")
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("button", name="row 1, column 1: 0").focus()
    page.keyboard.press("ArrowRight")
    for _ in range(4):
        page.keyboard.press("+")
    page.get_by_role("button", name="row 1, column 2: 1").wait_for()
    page.get_by_role("button", name="row 3, column 3: 0").click()
    drawing = "0,1,0,0;0,0,0,0;0,0,1,0;0,0,0,0"
    wait_for_state(page, "drawing", drawing)
    found = decompose(CouplingRequest("drawn", drawing=drawing, head_dim=1))
    lost = f"{100 * found['energy']:.3g} %"
    expect(page.locator("#numbers")).to_contain_text(lost)
    page.get_by_role("button", name="6 × 6").click()
    expect(page.get_by_role("button", name="row 6, column 6: 0")).to_be_visible()


@pytest.mark.slow
def test_a_larger_head_loses_less(page: Any) -> None:
    page.goto("/playground/couplings?kernel=gaussian&parameter=20&m=3")
    page.locator("#chart svg").wait_for()
    head = page.get_by_role("slider", name="Head size")
    head.focus()
    page.keyboard.press("ArrowRight")
    found = decompose(CouplingRequest("gaussian", 20.0, head_dim=4))
    page.locator("#numbers", has_text=f"{found['tail']:.4g}").wait_for()
    assert state_of(page)["m"] == "4"
    expect(page.locator(".pg-bar--kept")).to_have_count(4)
    page.get_by_label("Kernel", exact=True).select_option("minimum")
    page.locator("#decay", has_text="power").wait_for()
    assert page.get_by_label("c, from").count() == 0 or not page.locator("#parameter").is_visible()


@pytest.mark.slow
@pytest.mark.parametrize("path", ["polynomial", "sequences", "couplings", "programs"])
def test_pages_say_their_numbers_without_scripts(visit: Visit, path: str) -> None:
    page = visit.page(java_script_enabled=False)
    page.goto(f"/playground/{path}")
    assert page.locator("#result").is_visible()
    assert page.locator("tbody tr").count() >= 3
