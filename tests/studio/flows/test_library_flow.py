"""The library: search while typing, a paper's page and its evidence, import with a preview, export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.studio.support.browsers import PHONE, Visit, scrolls_sideways
from tests.studio.support.people import People
from tests.studio.support.worlds import BIBTEX, World, three_papers


def test_search_answers_while_one_types_and_the_address_keeps_it(page: Any) -> None:
    page.goto("/papers")
    page.get_by_role("searchbox").press_sequentially("zero approximation")
    page.get_by_role("link", name="Attention Enables Zero Approximation Error").wait_for()
    page.wait_for_url(lambda url: "approximation" in url)  # all that was typed, not its beginning
    page.locator("#results", has_text="1 paper").wait_for()
    page.reload()
    assert page.get_by_role("searchbox").input_value() == "zero approximation"


@pytest.mark.slow
def test_search_works_without_scripts_and_says_when_nothing_fits(visit: Visit) -> None:
    page = visit.page(java_script_enabled=False)
    page.goto("/papers")
    page.get_by_role("searchbox").fill("zyzzyva")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#results .empty")).to_have_count(1)


@pytest.mark.slow
def test_a_paper_shows_each_claim_with_status_and_the_command_to_rerun(
    page: Any, live_world: World
) -> None:
    page.goto(f"/papers/{live_world.slug}#theorem-3-5")
    claim = page.locator("#theorem-3-5")
    assert claim.locator(".badge").first.inner_text().strip() == "checked"
    assert "exactformer reproduce" in claim.locator("code").first.inner_text()
    picture = claim.locator("img")
    picture.scroll_into_view_if_needed()
    picture.evaluate("async image => image.decode()")
    assert picture.evaluate("image => image.naturalWidth") > 100
    for text in ("Open access", "Data", "Code", "cite it here", "reviews", "saves"):
        assert page.get_by_text(text, exact=True).count() >= 1, text


@pytest.mark.slow
def test_a_citation_leads_to_the_cited_paper_and_back(page: Any, live_world: World) -> None:
    page.goto(f"/papers/{live_world.slug}")
    title = page.locator("h1").inner_text()
    reference = page.locator("#references").get_by_role("link").first
    cited = reference.inner_text()
    reference.click()
    expect(page.locator("h1")).to_have_text(cited)
    page.locator("#cited-by").get_by_role("link", name=title).click()
    expect(page.locator("h1")).to_have_text(title)


def test_an_import_is_previewed_with_duplicates_before_anything_is_written(
    visit: Visit, live_people: People
) -> None:
    page = visit.page(live_people.curator)
    page.goto("/imports")
    page.get_by_label("File").set_input_files(
        {"name": "reading.bib", "mimeType": "text/plain", "buffer": BIBTEX}
    )
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("heading", name="What this import would do").wait_for()
    known = page.get_by_role("row", name="universal approximators of sequence")
    assert "arXiv" in known.inner_text()
    new = page.get_by_role("row", name="Mathematical Theory of Communication")
    assert "new" in new.inner_text()
    reader = visit.page()
    reader.goto("/papers?q=communication")
    assert reader.get_by_role("link", name="Mathematical Theory").count() == 0
    page.get_by_role("button", name="Import", exact=True).click()
    page.get_by_role("status").filter(has_text="1 paper added").wait_for()
    page.go_back()
    expect(page.get_by_role("alert")).to_contain_text("confirmed or discarded is over")
    expect(page.get_by_label("File")).to_be_visible()
    visit.expect("status of 404")
    reader.goto("/papers?q=mathematical+theory+of+communication")
    reader.get_by_role("link", name="Mathematical Theory of Communication").wait_for()


def test_the_preview_of_an_import_needs_no_sideways_scrolling_on_a_phone(
    visit: Visit, live_people: People
) -> None:
    long = b"""
    @article{a, title = {Pneumonoultramicroscopicsilicovolcanoconiosis in the Llanfairpwllgwyngyllgogery
    chwyrndrobwllllantysiliogogogoch region, $\\sum_{n=1}^{\\infty} \\frac{1}{n^2} = \\frac{\\pi^2}{6}
    \\neq \\sum_{n=1}^{\\infty} \\frac{1}{n^3} \\neq \\sum_{n=1}^{\\infty} \\frac{1}{n^4}$},
    author = {Wolfeschlegelsteinhausenbergerdorff, Hubert and Other, Ann}, year = 2020}
    """
    page = visit.page(live_people.curator, size=PHONE)
    page.goto("/imports")
    page.get_by_label("File").set_input_files(
        {"name": "long.bib", "mimeType": "text/plain", "buffer": BIBTEX + long}
    )
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("heading", name="What this import would do").wait_for()
    assert not scrolls_sideways(page)
    frame = page.get_by_role("region", name="Records")
    assert frame.evaluate("frame => frame.scrollWidth <= frame.clientWidth")
    for part in ("columnheader", "rowheader", "cell"):
        for each in frame.get_by_role(part).all():
            box = each.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= PHONE["width"]
            assert each.evaluate("each => each.scrollWidth <= each.clientWidth")


@pytest.mark.slow
def test_a_broken_file_is_refused_in_words(visit: Visit, live_people: People) -> None:
    page = visit.page(live_people.curator)
    page.goto("/imports")
    page.get_by_label("File").set_input_files(
        {"name": "x.json", "mimeType": "application/json", "buffer": b'{"title": '}
    )
    page.get_by_role("button", name="Preview").click()
    assert page.get_by_role("alert").inner_text()
    visit.expect("status of 4")


@pytest.mark.slow
def test_everything_can_be_exported_in_three_forms(page: Any) -> None:
    page.goto("/papers")
    for name, check in (
        ("JSON", lambda text: len(json.loads(text)["papers"]) > 40),
        ("BibTeX", lambda text: text.count("@") > 40),
        ("CSV", lambda text: "title" in text.splitlines()[0]),
    ):
        page.locator("summary", has_text="Export the library").click()
        with page.expect_download() as waiting:
            page.get_by_role("link", name=name, exact=True).click()
        assert check(Path(waiting.value.path()).read_text("utf-8"))
        page.keyboard.press("Escape")


@pytest.mark.slow
def test_a_curator_edits_a_paper_and_its_history_tells(visit: Visit, live_people: People) -> None:
    slug = three_papers(live_people.database)[1].slug
    page = visit.page(live_people.new("curator"))
    page.goto(f"/papers/{slug}/edit")
    page.get_by_label("Source").fill("A proceedings of its own")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url(f"**/papers/{slug}")
    expect(page.get_by_text("A proceedings of its own").first).to_be_visible()
    page.goto(f"/papers/{slug}/history")
    expect(page.get_by_text("A proceedings of its own").first).to_be_visible()
