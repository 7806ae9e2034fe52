"""Pictures of the playground as files: what is on the screen, with axes and what is proven."""

from __future__ import annotations

import re
from base64 import b64decode
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from tests.studio.support.browsers import Visit, until

SVG = "{http://www.w3.org/2000/svg}"


def kept(place: Any, kind: str) -> tuple[str, bytes]:
    """Press a picture's button: the name of the file that comes, and what is in it."""
    with place.page.expect_download() as waiting:
        place.get_by_role("button", name=f"Save as {kind}").first.click()
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()


def vector(place: Any) -> tuple[ElementTree.Element, str]:
    """The picture as SVG, and all its words; it stands alone, without styles, scripts or addresses."""
    name, data = kept(place, "SVG")
    assert name.startswith("exactformer-")
    assert name.endswith(".svg")
    root = ElementTree.fromstring(data)
    assert root.tag == f"{SVG}svg"
    for part in root.iter():
        assert part.tag.removeprefix(SVG) not in (
            "script",
            "style",
            "image",
            "foreignObject",
            "use",
        )
        assert not set(part.attrib) & {"class", "style", "href"}
        assert not any("url(" in value or "var(" in value for value in part.attrib.values())
    return root, " ".join(part.text or "" for part in root.iter(f"{SVG}text"))


def pixels(place: Any) -> Image.Image:
    """The picture as PNG."""
    name, data = kept(place, "PNG")
    assert name.startswith("exactformer-")
    assert name.endswith(".png")
    return Image.open(BytesIO(data)).convert("RGB")


def sides(root: ElementTree.Element) -> tuple[float, float]:
    return float(root.attrib["width"]), float(root.attrib["height"])


def test_a_surface_and_a_heat_map_are_kept_with_axes_and_bound(page: Any) -> None:
    page.goto("/playground/polynomial?p=x^2-3x*y&radius=3/2&show=difference&x=0.5,1")
    surface = page.locator("#surface")
    page.locator("#panels canvas").first.wait_for()
    until(page, "document.querySelector('#surface p').textContent.includes('certified is')")
    root, words = vector(surface)
    bound = re.search(r"certified is (\S+)\. ", surface.inner_text())
    assert bound is not None
    assert words.count(bound[1]) >= 3  # at both ends of the axis, and in words
    for shown in (
        "certified",
        " x ",
        " y ",
        "1.5",
        "−1.5",
        "x^2 - 3 x y on ‖x‖ ≤ 3/2",
        "x = (0.5, 1)",
    ):
        assert shown in words
    picture = pixels(surface)
    assert picture.size == tuple(round(2 * side) for side in sides(root))
    assert len(picture.getcolors(picture.width * picture.height)) > 50
    page.get_by_role("tab", name="Readout").click()
    beta = page.locator("#panels figure", has_text="β")
    root, words = vector(beta)
    assert "power 2" in words
    assert "token 1" in words
    assert "error zero in exact arithmetic" in words
    fills = {part.attrib.get("fill") for part in root.iter(f"{SVG}rect")}
    assert len(fills) >= 4


def test_a_surface_is_seen_whole_however_it_is_turned(page: Any) -> None:
    page.goto("/playground/polynomial?p=(x^2%2By^2)^6&x=0.6,0.3")
    surface = page.locator("#surface .pg-surface").first
    surface.locator("canvas").wait_for()
    until(page, "!document.querySelector('[aria-busy=true]')")
    for keys in ([], ["ArrowDown"] * 6, ["ArrowDown"] * 8, ["ArrowUp"] * 24, ["ArrowRight"] * 3):
        for key in keys:
            surface.press(key)
        data = surface.evaluate("surface => surface.firstChild.toDataURL().split(',')[1]")
        picture = Image.open(BytesIO(b64decode(data)))
        left, top, right, bottom = picture.getchannel("A").getbbox() or (0, 0, 0, 0)
        assert 0 < left < right < picture.width, keys
        assert 0 < top < bottom < picture.height, keys


def test_a_kept_picture_names_what_it_shows_even_if_something_else_is_typed(page: Any) -> None:
    page.goto("/playground/polynomial?p=x^2&x=0.5")
    page.locator("#surface svg").first.wait_for()
    page.get_by_label("Polynomial").fill("x^2 + $")
    page.locator("#said .field__error").wait_for()
    _, words = vector(page.locator("#surface"))
    assert "x^2 on ‖x‖ ≤ 1" in words
    assert "$" not in words


@pytest.mark.slow
def test_arcs_are_named_by_the_walk_they_show_while_the_next_one_is_awaited(page: Any) -> None:
    page.goto("/playground/polynomial?p=x^2&x=0.5")
    page.locator("#arcs svg").wait_for()
    held: list[Any] = []
    page.route("**/trace?p=x%5E3*", lambda route: held.append(route))
    page.get_by_label("Polynomial").fill("x^3")
    page.locator("#facts", has_text="2 blocks").wait_for()
    page.get_by_role("button", name="Step").click()
    _, words = vector(page.locator("#arcs"))
    assert "x^2 on" in words
    assert "x^3" not in words
    for route in held:
        route.continue_()
    page.locator(".pg-player strong", has_text="/ 4").wait_for()
    _, words = vector(page.locator("#arcs"))
    assert "x^3 on" in words


@pytest.mark.slow
def test_arcs_kernels_journeys_and_programs_are_kept(page: Any) -> None:
    page.goto("/playground/polynomial?p=x^2%2By&step=1")
    page.locator("#arcs svg").wait_for()
    root, words = vector(page.locator("#arcs"))
    assert "Token 1 scores every token" in words
    assert "Certified: error zero" in words
    assert pixels(page.locator("#arcs")).size == tuple(round(2 * side) for side in sides(root))
    page.goto("/playground/couplings?kernel=gaussian&parameter=20&m=3")
    page.locator("#modes svg").first.wait_for()
    for place in ("#kernels figure", "#chart", "#modes figure"):
        _, words = vector(page.locator(place).first)
        assert "c = 20" in words
        assert "m = 3" in words
        assert "bound" in words
    name, _ = kept(page.locator("#kernels figure").first, "SVG")
    assert name.startswith("exactformer-rho")
    page.goto("/playground/sequences?map=sort&input=0.1,0.7,0.4&step=7")
    page.locator("#scene svg").first.wait_for()
    for figure in page.locator("#scene figure").all():
        _, words = vector(figure)
        assert "input 0.1; 0.7; 0.4" in words
        assert "d₂(f, model) ≤" in words
    page.goto("/playground/programs?library=induction&step=1")
    _, words = vector(page.locator(".pg-step-card:visible figure").first)
    assert "zero, proven" in words
    assert "Aggregate" in words


@pytest.mark.slow
def test_a_picture_has_the_colours_of_the_scheme(visit: Visit) -> None:
    corners = {}
    for scheme in ("light", "dark"):
        page = visit.page(scheme=scheme)
        page.goto("/playground/couplings")
        page.locator("#modes svg").first.wait_for()
        corners[scheme] = pixels(page.locator("#kernels figure").first).getpixel((0, 0))
    assert sum(corners["light"]) > 700
    assert sum(corners["dark"]) < 150
