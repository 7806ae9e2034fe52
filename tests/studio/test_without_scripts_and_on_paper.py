"""Pages without scripts show no button that needs one, and pages on paper are light."""

from __future__ import annotations

from tests.studio.support.browsers import Visit, until
from tests.studio.support.worlds import World


def test_without_scripts_no_button_waits_for_one(visit: Visit, live_world: World) -> None:
    page = visit.page(live_world.owner, java_script_enabled=False)
    for path in ("/papers/{slug}/review", "/papers/{slug}", "/collections/{collection}"):
        page.goto(path.format(**vars(live_world)))
        assert page.locator("[hidden]:visible").count() == 0, path
        assert page.locator("[data-theme-toggle]:visible").count() == 0, path


def test_paper_is_white_whatever_the_scheme(visit: Visit, live_world: World) -> None:
    page = visit.page(scheme="dark")
    page.goto(f"/papers/{live_world.slug}")
    page.get_by_role("button", name="colour scheme").click()
    page.get_by_role("button", name="colour scheme").click()
    assert page.evaluate("document.documentElement.dataset.scheme") == "dark"
    page.emulate_media(media="print")
    until(page, "getComputedStyle(document.body).backgroundColor === 'rgb(252, 252, 253)'")
    until(page, "getComputedStyle(document.body).color === 'rgb(27, 29, 41)'")
    assert not page.locator("header.site-header").is_visible()
