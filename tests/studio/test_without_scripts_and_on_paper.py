"""Pages without scripts, on paper, and on phones: nothing waits in vain, glares or is torn."""

from __future__ import annotations

from itertools import product

from tests.studio.support.browsers import PHONE, Visit, until
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


# What colours of the pages, the playground and the map are, as scripts read them.
COLOURS = """(names) => {
  const looks = getComputedStyle(document.documentElement);
  return names.map((name) => looks.getPropertyValue(name).trim());
}"""
PALETTES = {
    "/playground/polynomial": {"--ink": ("#1b1d29", "#eceef6"), "--pg-1": ("#3b63c9", "#8aa9ff")},
    "/map": {
        "--figure": ("none", "invert(0.9) hue-rotate(180deg)"),
        "--map-edge": ("#b9bdcf", "#525871"),
    },
}


def test_every_palette_follows_the_choice_then_the_system_and_on_paper_neither(
    visit: Visit, live_world: World
) -> None:
    page = visit.page()
    for path, palette in PALETTES.items():
        page.goto(path)
        light, dark = (list(colours) for colours in zip(*palette.values(), strict=True))
        for system, chosen, media in product(
            ("light", "dark"), ("", "light", "dark"), ("screen", "print")
        ):
            page.emulate_media(color_scheme=system, media=media)
            page.evaluate(
                "(chosen) => chosen ? document.documentElement.dataset.scheme = chosen"
                " : delete document.documentElement.dataset.scheme",
                chosen,
            )
            expected = dark if media == "screen" and (chosen or system) == "dark" else light
            found = page.evaluate(COLOURS, list(palette))
            assert found == expected, (path, system, chosen, media)
            shown = page.locator(".icon-moon").evaluate("(icon) => getComputedStyle(icon).display")
            assert (shown == "block") == (expected is dark)


# Numbers with an exponent that stand in two lines.
TORN = r"""() => {
  const torn = [];
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode;
    if (text.parentElement.closest("pre, code, textarea, .katex")) continue;
    for (const found of text.data.matchAll(/[\d.]+e[-−]\d+/g)) {
      const range = document.createRange();
      range.setStart(text, found.index);
      range.setEnd(text, found.index + found[0].length);
      const tops = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
      if (found[0].includes("-") || tops.size > 1) torn.push(found[0]);
    }
  }
  return torn;
}"""


def test_no_number_is_torn_at_its_exponent_on_a_phone(visit: Visit, live_world: World) -> None:
    page = visit.page(size=PHONE)
    page.goto(f"/papers/{live_world.slug}")
    page.get_by_role("button", name="Open all").click()
    assert page.evaluate(TORN) == []
    page.goto("/claims")
    assert page.evaluate(TORN) == []
    page.goto("/playground/polynomial?p=x^3 y - 1/7 y^2&construction=softmax")
    page.locator("#certificate dd").first.wait_for()
    page.locator("#surface canvas").wait_for()
    assert page.evaluate(TORN) == []
