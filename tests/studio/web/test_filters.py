"""Filters and orders of lists: a value that no list knows is refused with those it knows."""

from __future__ import annotations

from html import unescape
from typing import Any

import pytest

from exactformer.studio.evidence.claims import TONES
from tests.studio.support.people import People

FANG = "/papers/fang-2022-attention-enables-zero-approximation-error"
FILTERS = {
    "/claims": {"status": "reproduced", "kind": "theorem"},
    "/papers": {"kind": "article", "sort": "newest", "year": "2022"},
    "/map": {"kinds": "paper", "depth": "1", "limit": "20"},
    "/moderation": {"state": "open"},
    "/proposals": {"state": "open"},
    f"{FANG}/discussion": {"kind": "note", "sort": "newest"},
    f"{FANG}/reviews": {"sort": "newest"},
}
CASES = [(path, name, known) for path, names in FILTERS.items() for name, known in names.items()]


@pytest.mark.parametrize(("path", "name", "known"), CASES)
@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}], ids=["page", "part"])
def test_an_unknown_value_is_refused_and_an_empty_one_is_any(
    people: People, path: str, name: str, known: str, headers: dict[str, str]
) -> None:
    client = people.curator.client
    refused = client.get(path, params={name: "zzz"}, headers=headers)
    assert refused.status_code == 422
    words = unescape(refused.text)
    if known.isdecimal():
        assert f"{name}: a whole number" in words
    else:
        assert known in words
    assert client.get(path, params={name: known}, headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/claims", "/papers"])
def test_a_search_form_sends_empty_filters_for_any(client: Any, path: str) -> None:
    asked = dict.fromkeys(FILTERS[path], "") | {"q": "zero"}
    whole = client.get(path, params={"q": "zero"}).text
    found = client.get(path, params=asked)
    assert found.status_code == 200
    assert found.text.count("<article") == whole.count("<article")


def test_every_verdict_can_be_asked_for(client: Any) -> None:
    for status in TONES:
        assert client.get("/claims", params={"status": status}).status_code == 200
