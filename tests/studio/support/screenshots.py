"""Pictures of pages for the guide: `make screenshots`.

They are taken of a fresh studio with a little life in it, and their colours are reduced to a
palette, which keeps each below 150 kB.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from exactformer.progress import progress
from tests.studio.support.browsers import Visit, browser_program
from tests.studio.support.places import PLACES, VIEWS, Place
from tests.studio.support.servers import Server
from tests.studio.support.worlds import World, build

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "assets" / "studio"
SIZE = {"width": 1200, "height": 800}
FREQUENT = 128
LARGEST = 150_000
SHOWN = frozenset(
    "home polynomial-inside polynomial-shape sequences-journey couplings-values programs paper "
    "paper-claims claim paper-opinions paper-reviews paper-discussion map propose moderation".split()
)
"""Pictures that the guide has."""


def small_picture(data: bytes) -> bytes:
    """The same picture with a palette: its most frequent colours as they are, the others nearby."""
    picture = Image.open(io.BytesIO(data)).convert("RGB")
    counted = picture.getcolors(picture.width * picture.height)
    frequent = [colour for _, colour in sorted(counted, reverse=True)[:FREQUENT]]
    spread = picture.quantize(256 - FREQUENT, method=Image.Quantize.MAXCOVERAGE)
    palette = Image.new("P", (1, 1))
    others = spread.getpalette()[: 3 * (256 - FREQUENT)]
    palette.putpalette([value for colour in frequent for value in colour] + others)
    kept = io.BytesIO()
    picture.quantize(palette=palette, dither=Image.Dither.NONE).save(kept, "PNG", optimize=True)
    assert kept.tell() <= LARGEST, "the picture is too large for the guide"
    return kept.getvalue()


def take(page: Page, place: Place, world: World) -> None:
    """Open a page and keep its picture."""
    page.goto(place.address(world))
    page.locator(place.ready).first.wait_for()
    if "#" in place.path:
        part = page.locator(f"[id='{place.path.rpartition('#')[2]}']")
        part.evaluate("element => element.scrollIntoView()")
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(300)
    target = FOLDER / f"{place.name}.png"
    target.write_bytes(small_picture(page.screenshot()))


def main(names: list[str]) -> None:
    """Take some of the pictures, or all."""
    places = [place for place in PLACES + VIEWS if place.name in (names or SHOWN)]
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        database, log = f"sqlite:///{folder}/studio.db", Path(folder) / "log"
        server = Server(database, log, {"generous": False}).start()
        try:
            with (
                server.people() as people,
                sync_playwright() as playwright,
                progress("Taking pictures", len(places)) as done,
            ):
                browser = playwright.chromium.launch(
                    executable_path=browser_program(), args=["--no-sandbox", "--hide-scrollbars"]
                )
                visit, world = Visit(browser, server.url), build(people)
                for count, place in enumerate(places, 1):
                    page = visit.page(world.person(place.who), scheme="light", size=SIZE)
                    take(page, place, world)
                    page.context.close()
                    done(count)
                browser.close()
        finally:
            server.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
