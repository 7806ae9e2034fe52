"""The playground of polynomials: type, see the error, move x, turn, download, come back by address."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.studio.support.browsers import (
    PHONE,
    Visit,
    scrolls_sideways,
    until,
    until_it_looks_different,
)
from tests.waiting import PATIENCE

ADDRESS = "/playground/polynomial"


def is_built(page: Any, words: str) -> None:
    """Wait until the facts of a construction are shown."""
    page.locator("#facts", has_text=words).wait_for()


def shown(page: Any, name: str) -> str:
    """The value beside a name, at the present x."""
    pair = page.locator("#output dl > div", has=page.get_by_text(name))
    return str(pair.locator("dd").inner_text()).replace("\N{MINUS SIGN}", "-")


def test_type_a_polynomial_and_its_transformer_appears(page: Any) -> None:
    page.goto(f"{ADDRESS}?p=x")
    page.get_by_label("Polynomial").fill("x^2 + 3 x y - 1")
    page.locator("#said .katex").wait_for()
    page.get_by_label("y", exact=True).wait_for()
    is_built(page, "error zero, proven")
    value = page.locator("#output dl > div", has=page.get_by_text("the transformer")).locator("dd")
    expect(value).to_have_text(
        re.compile(r"^0\.0(8|79999)")
    )  # at (0.6, 0.4), and no longer that of x
    assert parse_qs(urlsplit(page.url).query)["p"] == ["x^2 + 3 x y - 1"]


def test_an_error_stands_under_its_character(page: Any) -> None:
    page.goto(f"{ADDRESS}?p=x")
    page.get_by_label("Polynomial").fill("x^2 + $ y")
    error = page.locator("#said .field__error")
    error.wait_for()
    assert "character 7" in error.inner_text()
    assert page.locator("#caret").text_content() == " " * 6 + "^"
    caret = page.locator("#caret").bounding_box()
    assert caret["y"] > page.get_by_label("Polynomial").bounding_box()["y"]
    assert page.get_by_label("Polynomial").get_attribute("aria-invalid") == "true"


@pytest.mark.slow
def test_moving_x_moves_output_and_address_with_the_keyboard_alone(page: Any) -> None:
    page.goto(f"{ADDRESS}?p=x^2&radius=2&x=0")
    slider = page.get_by_role("slider", name="x")
    slider.focus()
    page.keyboard.press("End")
    words = page.locator(".pg-words")
    expect(words).to_contain_text("·2 =")  # the walk of x = 2, and of no other x
    assert shown(page, "the transformer") == "4"
    until(page, "new URLSearchParams(location.search).get('x') === '2'")
    page.keyboard.press("Home")
    expect(words).to_contain_text("·−2 =")
    until(page, "new URLSearchParams(location.search).get('x') === '-2'")
    page.get_by_role("tab", name="Embedding").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tab", name="Block 1").get_attribute("aria-selected") == "true"
    assert page.get_by_role("tabpanel").locator("canvas, svg, table").count() > 0


@pytest.mark.slow
def test_the_address_holds_the_whole_state(visit: Visit) -> None:
    page = visit.page()
    page.goto(f"{ADDRESS}?p=x^2%2By&radius=2&construction=paper&x=0.5,0.25")
    is_built(page, "tokens")
    page.get_by_label("y", exact=True).wait_for()
    assert shown(page, "the transformer") == "0.5"
    again = visit.page()
    again.goto(page.url)
    again.get_by_label("y", exact=True).wait_for()
    assert shown(again, "the transformer") == "0.5"
    assert again.get_by_label("Radius").input_value() == "2"
    assert again.get_by_label("Construction").input_value() == "paper"


@pytest.mark.slow
def test_the_downloads_are_a_model_and_a_script_that_builds_it_again(
    page: Any, tmp_path: Path
) -> None:
    from safetensors.numpy import load

    page.goto(f"{ADDRESS}?p=x^2-1")
    is_built(page, "1 token")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download the model").click()
    model = waiting.value
    assert model.suggested_filename.endswith(".safetensors")
    assert load(Path(model.path()).read_bytes())
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download the script").click()
    script = tmp_path / "build.py"
    waiting.value.save_as(script)
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    assert "error zero" in done.stdout or "proven" in done.stdout


@pytest.mark.slow
def test_the_surface_of_two_variables_turns_with_the_arrow_keys(page: Any) -> None:
    page.goto(f"{ADDRESS}?p=x^2%2By")
    surface = page.locator("#surface [tabindex='0']", has=page.locator("canvas"))
    surface.wait_for()
    before = surface.screenshot()
    surface.focus()
    page.keyboard.press("ArrowRight")
    until_it_looks_different(surface, before)


@pytest.mark.slow
def test_without_scripts_the_form_still_builds(visit: Visit) -> None:
    page = visit.page(java_script_enabled=False)
    page.goto(ADDRESS)
    page.get_by_label("Polynomial").fill("x^3")
    page.get_by_role("button", name="Build").click()
    is_built(page, "error zero, proven")
    assert page.get_by_role("row", name="W_Q").count() > 0


@pytest.mark.slow
def test_it_fits_a_phone(visit: Visit) -> None:
    page = visit.page(size=PHONE)
    page.goto(f"{ADDRESS}?p=x^2%2By%2B3x^2y^2")
    is_built(page, "tokens")
    page.locator("#surface canvas").wait_for()
    assert not scrolls_sideways(page)


@pytest.mark.slow
def test_a_request_beyond_the_limits_is_refused_in_words(visit: Visit) -> None:
    page = visit.page()
    page.goto(f"{ADDRESS}?p=x^1000")
    message = page.get_by_role("alert").or_(page.locator("#said .field__error")).first
    message.wait_for()
    assert any(word in message.inner_text() for word in ("limit", "at most", "more than"))
    visit.expect("status of 4")
