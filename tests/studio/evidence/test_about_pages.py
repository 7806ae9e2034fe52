"""The first page invites, and what it counts is what is there."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from starlette.testclient import TestClient

from exactformer.studio.app import create_app
from exactformer.studio.evidence import claims
from exactformer.studio.evidence.about_pages import EXAMPLES
from exactformer.studio.library import seeds
from tests.studio.support.people import People


def test_a_polynomial_leads_to_the_playground(client: Any) -> None:
    page = client.get("/").text
    assert 'action="/playground/polynomial"' in page
    assert 'name="p"' in page
    examples = re.findall(r'href="/playground/polynomial\?p=([^"]+)"', page)
    assert len(examples) == len(EXAMPLES)
    for example in examples:
        said = client.get(f"/api/v1/playground/polynomial/parse?p={example}").json()
        assert said["ok"]


def test_the_works_are_there_with_the_verdicts_of_stored_runs(client: Any, app: Any) -> None:
    page = client.get("/").text
    with app.state.database.session() as db:
        works = seeds.featured(db)
        assert len(works) == 4
        for paper in works:
            assert f'href="/papers/{paper.slug}"' in page
            for status, tone, number in claims.tally(
                claims.views(paper, app.state.settings.results)
            ):
                assert re.search(rf'badge--{tone}" href="[^"]+">{status} <b>{number}<', page)


def test_without_stored_runs_what_needs_them_is_not_tried(settings: Any) -> None:
    with TestClient(create_app(replace(settings, results=None))) as client:
        for status in ("numbers differ", "not reproduced", "inconclusive"):
            assert "No claim fits" in client.get("/claims", params={"status": status}).text
        place = "/papers/fang-2022-attention-enables-zero-approximation-error/claims/table-1"
        assert "No full run of fang-table-1 is stored." in client.get(place).text


def test_the_menu_offers_what_ones_role_may_do(people: People) -> None:
    def offered(client: Any) -> set[str]:
        header = client.get("/").text.partition("</header>")[0]
        return set(re.findall(r'(?:href|action)="(/[\w/]*)"', header))

    everybody = {"/", "/papers", "/claims", "/map", "/playground", "/collections"}
    assert offered(people.visitor.client) == everybody | {"/login", "/register"}
    reader = everybody | {"/account", "/logout", "/notices", "/proposals"}
    curator = reader | {"/moderation", "/audit"}
    assert offered(people.reader.client) == reader
    assert offered(people.curator.client) == curator
    assert offered(people.admin.client) == curator | {"/admin/users"}


def test_every_link_of_the_first_page_leads_somewhere(people: People) -> None:
    client = people.admin.client
    links = set(re.findall(r'(?:href|src)="(/[^"]*)"', client.get("/").text))
    assert len(links) > 20
    for link in links:
        if link.startswith("/playground/"):
            continue  # computed by worker processes, which have tests of their own
        assert client.get(link.replace("&amp;", "&")).status_code == 200, link
