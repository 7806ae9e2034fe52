"""How the playgrounds stand on the page: nothing moves, nothing is cut, certificates are set."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.studio.support.browsers import DESK, PHONE, Visit, layout_shift

MOST_SHIFT = 0.05
READY = {"polynomial": "#surface canvas", "sequences": "#scene svg", "couplings": "#modes svg"}
SIZES = pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])

# The width of the chosen option's words against the room that its select has for them.
CUT = """() => [...document.querySelectorAll("select")].filter((select) => {
  if (!select.checkVisibility()) return false;
  const style = getComputedStyle(select);
  const ruler = document.createElement("canvas").getContext("2d");
  ruler.font = style.font;
  const arrow = 20;
  const room = select.clientWidth - parseFloat(style.paddingLeft) - arrow;
  return [...select.options].some((option) => ruler.measureText(option.text).width > room);
}).map((select) => select.id || select.getAttribute("aria-label"))"""


def heights(page: Any) -> list[float]:
    """Where every heading of the page stands, from its top."""
    top = "h => h.getBoundingClientRect().top + scrollY"
    return list(page.evaluate(f"() => [...document.querySelectorAll('h2, h3')].map({top})"))


@SIZES
def test_the_parts_of_a_transformer_fit_into_their_boxes(
    visit: Visit, size: dict[str, int]
) -> None:
    page = visit.page(size=size)
    page.goto("/playground/polynomial")
    page.locator(".pg-box").first.wait_for()
    spilt = "boxes => boxes.filter((box) => box.scrollHeight > box.clientHeight).length"
    assert page.locator(".pg-box").evaluate_all(spilt) == 0


def test_labels_of_a_coupling_stand_on_one_line(page: Any) -> None:
    page.goto("/playground/couplings")
    page.locator("#modes svg").first.wait_for()
    labels = [page.locator(f"label[for='{name}']") for name in ("kernel", "parameter", "m")]
    bottoms = [box["y"] + box["height"] for box in (label.bounding_box() for label in labels)]
    assert max(bottoms) - min(bottoms) < 2
    mode = page.locator("#modes svg").first.locator("text").all_text_contents()
    assert {"0", "1", "u, v"} <= set(mode)
    scales = page.locator("#kernels .pg-scale").all_text_contents()
    assert len(scales) == 3
    assert len(set(scales)) == 1
    page.get_by_label("Kernel", exact=True).select_option("drawn")
    expect(page.locator("#pad-place")).to_contain_text("in between it is interpolated")


@pytest.mark.slow
@SIZES
@pytest.mark.parametrize("name", READY)
def test_loading_a_playground_and_pointing_at_its_maps_moves_nothing(
    visit: Visit, name: str, size: dict[str, int]
) -> None:
    page = visit.page(size=size)
    page.goto(f"/playground/{name}")
    page.locator(READY[name]).first.wait_for()
    page.wait_for_load_state("networkidle")
    assert layout_shift(page) < MOST_SHIFT
    before = heights(page)
    for frame in page.locator(".pg-frame canvas").all()[:4]:
        frame.scroll_into_view_if_needed()
        box = frame.bounding_box()
        for share in (0.2, 0.5, 0.9):
            page.mouse.move(box["x"] + share * box["width"], box["y"] + share * box["height"])
        assert heights(page) == before
    assert layout_shift(page) < MOST_SHIFT


@pytest.mark.slow
@SIZES
@pytest.mark.parametrize(
    "address",
    [
        "/playground/polynomial?p=x+y+z",
        "/playground/sequences",
        "/playground/couplings",
        "/playground/programs",
        "/map",
        "/papers",
        "/claims",
    ],
)
def test_no_choice_of_a_select_is_cut(visit: Visit, address: str, size: dict[str, int]) -> None:
    page = visit.page(size=size)
    page.goto(address)
    page.wait_for_load_state("networkidle")
    assert page.evaluate(CUT) == []


@pytest.mark.slow
@SIZES
def test_the_certificate_of_a_sequence_map_is_set_and_not_dumped(
    visit: Visit, size: dict[str, int]
) -> None:
    page = visit.page(size=size)
    page.goto("/playground/sequences")
    page.locator("#scene svg").first.wait_for()
    certificate = page.locator("#certificate")
    expect(certificate.locator("pre")).to_have_count(0)
    names = certificate.locator("dl dt").all_inner_texts()
    assert names == ["model", "table", "rest", "keys", "distance"]
    assert all(certificate.locator("dl dd").all_inner_texts())
    assert "d_2" not in page.locator("#result").inner_text()
    assert "d₂" in page.locator("#measured").inner_text()
    box = certificate.bounding_box()
    for each in certificate.locator("dd").all():
        place = each.bounding_box()
        assert place["x"] + place["width"] <= box["x"] + box["width"]
