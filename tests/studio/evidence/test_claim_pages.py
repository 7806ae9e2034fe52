"""Claims: a page for each with its discussion, a list of all with filters, runs, and ways to cite."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from exactformer.claims import MEANINGS, Verdict, ledger
from exactformer.studio.evidence import claims
from exactformer.studio.evidence.claims import TONES, Wanted
from exactformer.studio.evidence.demonstrations import SHOWN
from exactformer.studio.library import papers, seeds
from tests.studio.support.servers import settings_of
from tests.studio.support.shelves import SLUG, add_paper
from tests.studio.support.worlds import number_in

FANG = "/papers/fang-2022-attention-enables-zero-approximation-error"
THEOREM = f"{FANG}/claims/theorem-3-5"
COROLLARY = f"{FANG}/claims/corollary-3-7"
HTMX = {"HX-Request": "true"}


@pytest.fixture(scope="module")
def reading(template_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A visitor's client of a studio that nobody changes."""
    from starlette.testclient import TestClient

    from exactformer.studio.app import create_app

    path = tmp_path_factory.mktemp("reading") / "studio.db"
    shutil.copy(template_database, path)
    with TestClient(create_app(settings_of(database=f"sqlite:///{path}"))) as client:
        yield client


def test_a_claim_has_everything_on_its_page(reading: Any) -> None:
    text = reading.get(COROLLARY).text
    parts = [
        "<h1>Corollary 3.7: universality</h1>",
        "claim__statement",
        "Try it live",
        'id="evidence-heading"',
        'id="run-heading"',
        'id="discussion-heading"',
        'id="cite-heading"',
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert "arXiv:2202.12166. Corollary 3.7." in text
    assert "eprint = {2202.12166}" in text
    assert reading.get(f"{FANG}/claims/theorem-9").status_code == 404
    assert reading.get("/papers/none/claims/theorem-3-5").status_code == 404


def test_discussing_a_claim_ends_in_a_form(people: Any) -> None:
    """On the claim's page and under the filter of the discussion; a visitor comes back to it."""
    for place in (THEOREM, f"{FANG}/discussion?claim=theorem-3-5"):
        assert 'name="body"' in people.reader.client.get(place).text
        visitor = people.visitor.client.get(place).text
        assert "claims/theorem-3-5%23discussion" in visitor or "claims/theorem-3-5#" in visitor


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("Is it tight?", "#theorem-3-5 Is it tight?"),
        ("About #theorem-3-5: is it tight?", "About #theorem-3-5: is it tight?"),
    ],
)
def test_a_comment_under_a_claim_mentions_it(people: Any, written: str, kept: str) -> None:
    form = {"body": written, "claim": "theorem-3-5"}
    client = people.reader.client
    answer = client.post(f"{FANG}/comments", data=form)
    assert answer.headers["location"].startswith(f"{THEOREM}#comment-")
    number = number_in(answer.headers["location"], "#comment-")
    assert f"{kept}</textarea>" in client.get(f"/comments/{number}/edit").text
    part = client.post(f"{FANG}/comments", data=form, headers=HTMX)
    assert "About <a" in part.text
    assert '"comments": 2' in part.headers["HX-Trigger"]
    assert "2 comments" in client.get(FANG).text


def test_an_empty_comment_under_a_claim_is_refused_with_its_form(people: Any) -> None:
    form = {"body": " ", "claim": "theorem-3-5"}
    answer = people.reader.client.post(f"{FANG}/comments", data=form)
    assert answer.status_code == 422
    assert 'name="claim" value="theorem-3-5"' in answer.text


def test_counts_are_told_to_the_open_page(people: Any) -> None:
    client = people.reader.client
    saved = client.post(f"{FANG}/save", data={"on": "true"}, headers=HTMX)
    assert saved.headers["HX-Trigger"] == '{"studio:counts": {"saves": 1}}'
    client.post(f"{FANG}/comments", data={"body": "one"}, headers=HTMX)
    reply = client.post(f"{FANG}/comments", data={"body": "two", "parent_id": 1}, headers=HTMX)
    assert '"comments": 2, "comments-note": 2' in reply.headers["HX-Trigger"]


def test_every_status_has_a_meaning_and_a_tone() -> None:
    assert set(MEANINGS) == set(TONES) == set(Verdict)


def test_filters_of_the_list_agree_with_the_claims(app: Any, settings: Any) -> None:
    """The database's condition and the property of a claim say the same, for every status."""
    add_paper(app)
    with app.state.database.session() as db:
        everything = claims.find(db, Wanted(limit=1000), settings.results)
        assert everything.total == len(everything.items) > 40
        for status in TONES:
            wanted = Wanted(status=status, limit=1000)
            found = claims.find(db, wanted, settings.results)
            expected = {view.claim.id for view, _ in everything.items if view.status == status}
            assert {view.claim.id for view, _ in found.items} == expected, status
            assert found.total == len(expected)
        counted = claims.tallies(db, settings.results)
        assert sum(number for _, _, number in counted) == everything.total
        assert counted[-1][0] == Verdict.BEYOND


def test_the_list_is_filtered_by_words_kind_and_paper(reading: Any) -> None:
    text = reading.get("/claims").text
    assert "Theorem 3.5: any polynomial" in text
    assert "Theorem 4.1: Jackson-type rates" in text
    tables = reading.get("/claims?kind=table&q=networks").text
    assert "Table 2: networks for" in tables
    assert "Table 1:" not in tables
    yun = reading.get("/claims?paper=yun-2020-are-transformers-universal-approximators-of-sequence")
    assert yun.status_code == 200
    assert "No claim fits" in reading.get("/claims?q=100%25").text
    assert reading.get("/claims?page=99").status_code == 200
    listed = reading.get("/claims?status=corrected").text
    cards = re.findall(r'<li class="claim-row.*?</li>', listed, re.S)
    assert cards
    assert all(" corrected</span>" in card for card in cards)


def test_verdicts_stand_first_and_what_is_ours_apart(reading: Any) -> None:
    text = reading.get(FANG).text
    assert text.index('class="verdicts"') < text.index('id="abstract-heading"')
    ours = text.index('id="beyond"')
    assert text.index('id="theorem-3-5-rounding"') < ours or "corollary-3-7-noise" in text[ours:]
    assert ours < text.index('id="corollary-3-7-noise"')
    browse = reading.get("/papers").text
    assert "verdicts__ours" in browse
    assert "cited by" in browse
    assert "citations" not in browse


def test_every_demonstration_shows_a_claim_that_there_is(reading: Any) -> None:
    with reading.app.state.database.session() as db:
        papers = seeds.seeded(db)
        known = {(work, claim.anchor) for work, paper in papers.items() for claim in paper.claims}
    assert set(SHOWN) <= known


def test_claims_and_playground_lead_to_each_other(
    studio_links: dict[str, str], reading: Any
) -> None:
    assert len(studio_links) == len(SHOWN)
    for page, path in studio_links.items():
        assert f'href="{path.replace("&", "&amp;")}"' in reading.get(page).text


@pytest.fixture
def studio_links(reading: Any) -> dict[str, str]:
    """The page of every claim that has a demonstration, and the demonstration's address."""
    with reading.app.state.database.session() as db:
        papers = seeds.seeded(db)
        return {
            f"/papers/{papers[work].slug}/claims/{anchor}": shown.address
            for (work, anchor), shown in SHOWN.items()
        }


@pytest.mark.parametrize("key", SHOWN, ids="-".join)
def test_the_address_of_a_demonstration_asks_for_it(key: tuple[str, str]) -> None:
    from exactformer.studio.playground.asking import asked_by

    shown = SHOWN[key]
    asked, wrong = asked_by(dict(parse_qsl(urlsplit(shown.address).query)), type(shown.request))
    assert (asked, wrong) == (shown.request, None)


def test_reference_managers_find_what_they_look_for(reading: Any) -> None:
    for page in (FANG, THEOREM):
        text = reading.get(page).text
        tags = dict(re.findall(r'<meta name="([^"]+)" content="([^"]*)">', text))
        assert tags["citation_title"] == "Attention Enables Zero Approximation Error"
        assert tags["citation_arxiv_id"] == "2202.12166"
        assert text.count('name="citation_author"') == 4
        assert tags["description"]


def test_tables_have_no_empty_column(reading: Any) -> None:
    with reading.app.state.database.session() as db:
        paper = papers.get(db, FANG.rpartition("/")[2])
        names = {claim.id for claim in ledger("fang-2022") if claim.experiments}
        anchors = [claim.anchor for claim in paper.claims if claim.anchor in names]
    for anchor in anchors:
        text = reading.get(f"{FANG}/claims/{anchor}").text
        tables = [rows_of(table) for table in text.split("table--numbers")[1:]]
        for head, *rows in tables:
            assert all(len(row) == len(head) for row in rows)
            for name, *cells in zip(head, *rows, strict=True):
                assert any(cells), f"{anchor}: {name} is empty"


def rows_of(table: str) -> list[list[str]]:
    """The cells of a table's rows as text, the heads first."""
    rows = re.findall(r"<tr>(.*?)</tr>", table.partition("</table>")[0], re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [
        [re.sub(r"<span class=\"(?!badge).*?</span>", "", cell).strip() for cell in row]
        for row in cells
    ]


def test_about_and_help_are_linked_from_every_page(reading: Any) -> None:
    text = reading.get("/nothing-here").text
    for place in ("/about", "/help", "/about#source"):
        assert f'href="{place}"' in text
    told = unescape(reading.get("/help").text)
    assert all(meaning in told for meaning in MEANINGS.values())


def test_a_paper_of_ones_own_has_claims_with_pages_too(app: Any, people: Any) -> None:
    add_paper(app)
    text = people.reader.client.get(f"/papers/{SLUG}/claims/table-1").text
    assert "Nothing here speaks for it or against it." in text
    assert "Try it live" not in text
    assert 'id="run"' not in text


def test_a_corrected_theorem_shows_its_errata_with_their_tests(reading: Any) -> None:
    text = unescape(reading.get(THEOREM).text)
    assert " corrected</span>" in text
    assert "The bound M for B < 1." in text
    assert "“Less than” should read “at most”." in text
    assert "test_m_below_one_gives_half_the_cube" in text
    assert "number of non-zero entries" in text


def test_noise_is_not_taken_for_agreement(reading: Any) -> None:
    text = reading.get(f"{FANG}/claims/table-1").text
    rows = rows_of(text.split("table--numbers")[1])
    (wide,) = [row for row in rows if row[0] == "NN_width, test (clean target)"]
    assert wide[1] == "35.66"
    assert "inconclusive</span>" in text


def test_what_checks_a_claim_is_linked_to_its_source(reading: Any) -> None:
    text = reading.get(f"{FANG}/claims/lemma-3-3").text
    place = "/source/tests/algebra/test_ridge_forms.py"
    assert f'<a href="{place}">' in text
    answer = reading.get(place)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert "def test_" in answer.text
    for other in ("pyproject.toml", "../pyproject.toml", "tests/conftest.py", "src/", "%2e%2e/x"):
        assert reading.get(f"/source/{other}").status_code == 404


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("2202.12166", "Attention Enables Zero Approximation Error"),
        ("https://arxiv.org/abs/2202.12166v3", "Attention Enables Zero Approximation Error"),
        (
            "10.1007/BF00993164",
            "Approximation and estimation bounds for artificial neural networks",
        ),
        ("Theorem 3.5", "/claims/theorem-3-5"),
        ("hong kong", "City University of Hong Kong</a>"),
        ("Vaswany", 'q=vaswani">vaswani</a>'),
    ],
)
def test_search_knows_ids_claims_institutions_and_near_misses(
    reading: Any, typed: str, found: str
) -> None:
    assert found in reading.get("/papers", params={"q": typed}).text
