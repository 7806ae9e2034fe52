"""A paper's page says what it should, in order; lists and forms work without scripts."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

import pytest

from exactformer.studio.evidence.claims import view
from exactformer.studio.library import formats, seeds
from exactformer.studio.library.seeds import work
from exactformer.studio.library.tables import Claim
from tests.studio.support.markup_rules import violations

FANG = "/papers/fang-2022-attention-enables-zero-approximation-error"


def test_a_page_has_its_parts_in_their_order(client: Any) -> None:
    text = client.get(FANG).text.partition("<main")[2]
    parts = [
        "<h1>Attention Enables Zero Approximation Error</h1>",
        "Zhiying Fang",
        "The Chinese University of Hong Kong, Shenzhen",
        'id="abstract-heading"',
        'id="opinions"',
        'id="claims"',
        'id="reviews"',
        'id="discussion"',
        'id="map-heading"',
        'id="references"',
        'id="cited-by"',
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_every_claim_shows_its_status_and_how_to_run_it_again(client: Any, settings: Any) -> None:
    text = client.get(FANG).text
    for claim in work("fang-2022").claims:
        start = text.index(f'id="{claim.anchor}"')
        card = text[start : text.index("</article>", start)]
        shown = view(Claim(**asdict(claim)), settings.results)
        assert re.search(rf"badge[^>]*>.*{shown.status}</span>", card)
        assert shown.entry is not None
        assert f"/papers/{FANG.rpartition('/')[2]}/claims/{claim.anchor}" in card
        for line in shown.lines:
            assert f">{line.published}</td>" in card
        if shown.evidence is not None:
            assert shown.evidence.shown.command in card
            assert f"/figures/{shown.evidence.shown.name}.png" in card


def test_claims_that_are_found_stand_in_a_list_with_a_style(client: Any) -> None:
    text = client.get("/papers?q=attention").text
    assert re.search(r'Claims</h2>\s*<ul class="listing">', text)
    assert violations(text) == []


def test_every_work_has_a_page_and_no_style_or_script_in_it(client: Any, app: Any) -> None:
    with app.state.database.session() as db:
        slugs = [paper.slug for paper in seeds.featured(db)]
    for slug in slugs:
        text = client.get(f"/papers/{slug}").text
        assert 'class="claim card"' in text
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script>", text)


def test_figures_are_served_by_name_alone(client: Any) -> None:
    answer = client.get("/figures/fang-table-1.svg")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")
    for name in ("fang-table-1.json", "..%2f..%2fpyproject.toml", "x.png", "fang-table-1.svg.svg"):
        assert client.get(f"/figures/{name}").status_code == 404


def test_browsing_filters_searches_and_pages(client: Any) -> None:
    assert "46 papers" in client.get("/papers").text
    found = client.get("/papers?q=vaswani+atten").text
    assert "<mark>Attention</mark> is all you need" in found
    assert "No paper fits" in client.get("/papers?kind=software").text
    assert client.get("/papers?topic=%27").status_code == 200
    second = client.get("/papers?page=2&sort=title").text
    assert "page 2 of 3" in second
    assert "sort=title&amp;page=3" in second


def test_a_part_of_the_page_is_given_to_scripts(client: Any) -> None:
    part = client.get("/papers?q=deep", headers={"HX-Request": "true"}).text
    assert part.lstrip().startswith('<section id="results"')
    assert "<html" not in part


@pytest.mark.parametrize("typed", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>'])
def test_what_is_typed_is_shown_as_text(client: Any, typed: str) -> None:
    text = client.get("/papers", params={"q": typed}).text
    assert typed not in text


def test_people_institutions_and_topics_have_pages(client: Any) -> None:
    page = client.get(FANG).text
    for kind, name in (("people", "Zhiying Fang"), ("institutions", "City University")):
        (address,) = re.findall(rf'href="(/{kind}/\d+)">{name}', page)
        answer = client.get(address)
        assert answer.status_code == 200
        assert "Attention Enables Zero Approximation Error" in answer.text
    assert "Yun" in client.get("/topics/universal-approximation").text
    for address in ("/people/99999", "/institutions/99999", "/topics/none", "/papers/none"):
        assert client.get(address).status_code == 404


def test_a_curator_edits_and_everybody_sees_the_history(people: Any) -> None:
    curator = people.curator.client
    form = dict(
        re.findall(r'<input id="(\w+)" name="\w+" type="\w+" value="([^"]*)"', _form(curator))
    )
    form["version"] = re.findall(r'name="version" value="([^"]*)"', _form(curator))[0]
    form |= {
        "title": "Zero <b>error</b>",
        "kind": "preprint",
        "authors": "Guang Cheng | UCLA; Purdue",
        "open_access": "yes",
    }
    answer = curator.post(f"{FANG}/edit", data=form)
    assert (answer.status_code, answer.headers["location"]) == (303, FANG)
    page = people.visitor.client.get(FANG).text
    assert "Zero &lt;b&gt;error&lt;/b&gt;" in page
    assert "Purdue" in page
    history = people.visitor.client.get(f"{FANG}/history").text
    assert "Attention Enables Zero" in history
    assert people.curator.handle in history.lower()
    assert curator.post(f"{FANG}/edit", data=form).status_code == 409  # the version is an old one


def test_a_refused_edit_keeps_what_was_typed(people: Any) -> None:
    answer = people.curator.client.post(f"{FANG}/edit", data={"title": "Kept", "url": "ftp://x"})
    assert answer.status_code == 422
    assert 'value="Kept"' in answer.text
    assert "begins with http" in answer.text


def _form(client: Any) -> str:
    text: str = client.get(f"{FANG}/edit").text
    return text


@pytest.mark.parametrize(("who", "status"), [("visitor", 401), ("reader", 403)])
def test_edits_are_for_curators(people: Any, who: str, status: int) -> None:
    client = getattr(people, who).take_session().client
    assert client.get(f"{FANG}/edit").status_code == status
    assert client.post(f"{FANG}/edit", data={"title": "Mine"}).status_code == status


def test_everything_is_exported_in_each_format(client: Any) -> None:
    answer = client.get("/export?format=json")
    assert 'filename="library.json"' in answer.headers["content-disposition"]
    assert len(formats.read(answer.text)) == 46
    bibtex = client.get("/export?format=bibtex")
    assert len(formats.read(bibtex.text)) == 46
    one = client.get(f"{FANG}/export?format=bibtex").text
    assert one.count("@") == 1
    assert client.get("/export?format=xml").status_code == 422
