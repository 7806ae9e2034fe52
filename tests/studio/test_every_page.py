"""What holds for every page: nothing inline, strict headers, quiet, accessible, still, and no wider
than a phone.

A page is opened at a desk in the light, looked at, then shrunk to a phone in the dark and looked at
again. The slow tests open it afresh in the other three windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.studio.support.browsers import (
    DESK,
    PHONE,
    Visit,
    accessibility,
    held_back,
    layout_shift,
    scrolls_sideways,
    until,
    wait_for_held,
)
from tests.studio.support.markup_rules import violations
from tests.studio.support.places import PLACES, Place
from tests.studio.support.servers import Server
from tests.studio.support.worlds import World

MOST_SHIFT = 0.05
OTHER_WINDOWS = [("dark", PHONE), ("dark", DESK), ("light", PHONE)]


@pytest.fixture(scope="module")
def pages(browser: Any, live_server: Server) -> Iterator[Any]:
    """Gives the window of a role, a scheme and a size, which is opened once for all pages."""
    visits: dict[tuple[str, str, int], tuple[Visit, Any]] = {}

    def window(world: World, who: str, scheme: str, size: dict[str, int]) -> tuple[Visit, Any]:
        key = (who, scheme, size["width"])
        if key not in visits:
            visit = Visit(browser, live_server.url)
            person = world.person(who)
            visits[key] = visit, visit.page(person, scheme=scheme, size=size)
        return visits[key]

    yield window
    for visit, _ in visits.values():
        visit.close()


def open_page(pages: Any, world: World, place: Place, scheme: str, size: dict[str, int]) -> Any:
    """Open a page and check what it is made of."""
    visit, page = pages(world, place.who, scheme, size)
    answer = page.goto(place.address(world))
    assert answer.status == place.status
    policy = answer.headers["content-security-policy"]
    assert "'unsafe" not in policy
    assert "script-src 'self'" in policy
    assert violations(answer.text()) == []
    page.locator(place.ready).first.wait_for()
    if place.status != 200:
        visit.expect(f"status of {place.status}")
    complaints, visit.complaints = visit.complaints, []
    assert complaints == []
    assert layout_shift(page) < MOST_SHIFT
    return page


def look(page: Any) -> None:
    """Check what can be seen once nothing moves or is dimmed because it is computed."""
    pending = "[aria-busy=true], .awaits-fonts"
    until(page, f"!document.querySelector('{pending}') && !document.getAnimations().length")
    assert not scrolls_sideways(page)
    assert accessibility(page) == []


def test_what_is_wrong_would_be_noticed(visit: Visit) -> None:
    page = visit.page(size=PHONE)
    page.set_content(
        "<h3 style='color: #eee'>pale</h3><img src='data:,'><p style='width: 900px'>wide"
    )
    assert scrolls_sideways(page)
    found = " ".join(accessibility(page))
    assert all(name in found for name in ("image-alt", "color-contrast", "html-has-lang"))
    assert len(violations(page.content())) >= 3
    assert "the page does not load the style of its class card" in violations("<p class=card>")


def test_nothing_moves_when_the_fonts_of_formulas_come_late(
    visit: Visit, live_world: World
) -> None:
    """In another font the lines of this statement break elsewhere; the page waits for its own."""
    page = visit.page(size=PHONE)
    held = held_back(page, "**/*.woff2")
    place = next(place for place in PLACES if str(place) == "claim")
    page.goto(place.address(live_world), wait_until="commit")
    wait_for_held(page, held)
    until(page, "document.documentElement.classList.contains('awaits-fonts')")
    expect(page.locator("main")).to_have_css("opacity", "0")
    page.route("**/*.woff2", lambda route: route.continue_())
    for route in held:
        route.continue_()
    page.locator(place.ready).first.wait_for()
    assert layout_shift(page) < MOST_SHIFT


@pytest.mark.spread(6)
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_page(pages: Any, live_world: World, place: Place) -> None:
    page = open_page(pages, live_world, place, "light", DESK)
    look(page)
    page.set_viewport_size(PHONE)
    page.emulate_media(color_scheme="dark")
    look(page)
    page.set_viewport_size(DESK)
    page.emulate_media(color_scheme="light")


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "size"), OTHER_WINDOWS, ids=["phone-dark", "dark", "phone"])
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_page_in_another_window(
    pages: Any, live_world: World, place: Place, scheme: str, size: dict[str, int]
) -> None:
    look(open_page(pages, live_world, place, scheme, size))
