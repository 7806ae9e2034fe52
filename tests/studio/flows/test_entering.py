"""Registering, logging in and out, with and without scripts, and the colour scheme one prefers."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.studio.support.browsers import Visit, tab_to
from tests.studio.support.people import PASSWORD, People

_numbers = itertools.count(1)


def fill_in(page: Any, **values: str) -> None:
    """Fill the fields of a form by their labels."""
    for label, value in values.items():
        page.get_by_label(label).fill(value)


def register(page: Any) -> str:
    """Make an account by the form; its handle."""
    handle = f"newcomer{next(_numbers)}"
    page.goto("/")
    page.get_by_role("link", name="Register").first.click()
    fill_in(page, Handle=handle, Name="A Newcomer", Password=PASSWORD)
    page.get_by_role("button", name="Create account").click()
    return handle


def knows_somebody(page: Any) -> None:
    """Wait for a page that offers nobody to log in."""
    expect(page.locator("[action='/logout']")).to_have_count(1)
    expect(page.get_by_role("link", name="Log in")).to_have_count(0)


def test_register_log_out_and_log_in_again(page: Any) -> None:
    handle = register(page)
    page.wait_for_url("**/")
    knows_somebody(page)
    page.get_by_text("A Newcomer").first.click()
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("link", name="Log in").first.click()
    expect(page.locator("[action='/logout']")).to_have_count(0)
    fill_in(page, Handle=handle, Password=PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("A Newcomer").first.wait_for()
    knows_somebody(page)


def test_registering_works_without_scripts(visit: Visit) -> None:
    page = visit.page(java_script_enabled=False)
    register(page)
    page.wait_for_url("**/")
    expect(page.get_by_text("A Newcomer").first).to_be_visible()
    knows_somebody(page)


def test_one_can_log_in_with_the_keyboard_alone(visit: Visit, live_people: People) -> None:
    reader = live_people.new()
    page = visit.page()
    page.goto("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent").startswith("Skip")
    tab_to(page, "document.activeElement.textContent.trim()", "Log in")
    page.keyboard.press("Enter")
    page.wait_for_url("**/login**")
    if page.evaluate("document.activeElement.id") != "handle":
        tab_to(page, "document.activeElement.id", "handle")
    page.keyboard.type(reader.handle)
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    page.get_by_text(reader.handle.capitalize()).first.wait_for()
    knows_somebody(page)


@pytest.mark.slow
def test_the_scheme_follows_the_system_until_one_chooses(visit: Visit) -> None:
    def background(page: Any) -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light, dark = visit.page(scheme="light"), visit.page(scheme="dark")
    light.goto("/")
    dark.goto("/")
    assert background(light) != background(dark)
    night = background(dark)
    light.get_by_role("button", name="scheme").click()
    light.reload()
    for _ in range(3):
        if background(light) == night:
            return
        light.get_by_role("button", name="scheme").click()
    raise AssertionError("no choice of the scheme is dark")
