"""Papers for programs: the same rules as the pages, as data."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exactformer.studio.library import formats

FANG = "/api/v1/papers/fang-2022-attention-enables-zero-approximation-error"


def test_papers_are_listed_searched_and_read(client: Any) -> None:
    listed = client.get("/api/v1/papers?limit=3&sort=claims").json()
    assert (len(listed["items"]), listed["total"]) == (3, 46)
    assert listed["items"][0]["counts"]["claims"] > 0
    found = client.get("/api/v1/search?q=vaswani+atten").json()["items"][0]
    assert found["title_html"] == "<mark>Attention</mark> is all you need"
    paper = client.get(FANG).json()
    assert (paper["year"], paper["arxiv_id"]) == (2022, "2202.12166")
    assert paper["authors"][0]["institutions"] == ["The Chinese University of Hong Kong, Shenzhen"]
    assert client.get(f"{FANG}/references").json()["total"] == 17
    assert client.get("/api/v1/papers?kind=nonsense").status_code == 422


def test_claims_carry_their_evidence(client: Any) -> None:
    items = client.get(f"{FANG}/claims").json()["items"]
    (table,) = [item for item in items if item["anchor"] == "table-1"]
    evidence = client.get("/api/v1/experiments/fang-table-1").json()
    assert table["evidence"] == evidence
    assert table["status"] == evidence["status"]
    assert client.get(evidence["figures"][0]).status_code == 200
    json.dumps(items, allow_nan=False)


@pytest.mark.parametrize("who", ["visitor", "reader", "curator"])
def test_edits_are_for_curators(people: Any, who: str) -> None:
    expected = {"visitor": (401, 403), "reader": (403,), "curator": (200,)}[who]
    answer = getattr(people, who).client.patch(FANG, json={"year": 2021})
    assert answer.status_code in expected


def test_an_edit_against_an_old_version_is_refused(people: Any) -> None:
    curator = people.curator.client
    version = curator.get(FANG).json()["version"]
    first = curator.patch(FANG, json={"year": 2021, "version": version})
    assert first.json()["version"] != version
    assert curator.patch(FANG, json={"year": 2020, "version": version}).status_code == 409
    history = curator.get(f"{FANG}/history").json()["items"]
    assert history[0]["detail"] == {"year": [2022, 2021]}


def test_everything_is_exported_in_each_format(client: Any) -> None:
    answer = client.get("/api/v1/export?format=json")
    assert 'filename="library.json"' in answer.headers["content-disposition"]
    assert len(formats.read(answer.text)) == 46
    bibtex = client.get("/api/v1/export?format=bibtex")
    assert len(formats.read(bibtex.text)) == 46
    one = client.get(f"{FANG}/export?format=bibtex").text
    assert one.count("@") == 1
    assert client.get("/api/v1/export?format=xml").status_code == 422
