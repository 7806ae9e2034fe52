"""The map's pages say what its slices hold, hold their state in the address, and refuse politely."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from sqlalchemy import select

from exactformer.studio.library.tables import Paper
from exactformer.studio.map.relations import KINDS, Key
from exactformer.studio.map.slices import explore
from tests.studio.support.map_library import CLAIMS, add_works


@pytest.fixture
def works(app):
    with app.state.database.writing() as db:
        return add_works(db)


def nodes(page: str) -> set[str]:
    return set(re.findall(r'data-node="([a-z]+:\d+)"', page))


def test_without_a_node_the_map_begins_at_the_paper_with_most_claims(client, works):
    page = client.get("/map")
    assert page.status_code == 200
    assert re.search(rf'data-node="{works["paper"]}"[^>]*data-centre', page.text)
    assert "The centre of &lt;it&gt;" in page.text
    assert "<it>" not in page.text


def test_list_and_slice_show_the_same_nodes_and_edges(app, client, works):
    page = client.get("/map/slice", params={"node": works["paper"], "limit": 120}).text
    with app.state.database.session() as db:
        found = explore(db, Key.parse(works["paper"]), 1, KINDS, 120)
    assert nodes(page) == {str(node.key) for node in found.nodes}
    targets = re.findall(r'data-relation="([a-z-]+)" data-target="([a-z]+:\d+)"', page)
    edges = [(edge.relation, str(edge.target)) for edge in found.edges]
    assert sorted(targets) == sorted(edges)
    assert ("wrote", works["paper"]) in edges
    assert found.left_out == {}


def test_what_has_no_room_is_counted_in_words(client, works):
    page = client.get("/map", params={"node": works["paper"], "limit": 10}).text
    claims = sum(name.startswith("claim:") for name in nodes(page))
    assert len(nodes(page)) == 10
    assert f"{CLAIMS - claims} claims" in page


def test_every_link_of_the_list_leads_to_a_page_that_keeps_the_rest_of_the_state(client, works):
    asked = {"node": works["paper"], "kinds": "paper,person", "depth": "2"}
    page = client.get("/map", params=asked).text
    links = re.findall(r'href="(/map\?[^"]+)" aria-label="(\w+)', page)
    assert {word for _, word in links} >= {"Focus"}
    for link, word in links:
        query = parse_qs(urlsplit(link.replace("&amp;", "&")).query)
        assert query["kinds"] == ["paper,person"]
        assert query["depth"] == ["2"]
        assert (query["node"] == [works["paper"]]) == (word != "Focus")
        assert client.get(link.replace("&amp;", "&")).status_code == 200


def test_expanding_shows_more_and_collapsing_leads_back(client, works):
    asked = {"node": works["paper"], "limit": 60}
    before = client.get("/map", params=asked).text
    assert works["far"] not in nodes(before)
    after = client.get("/map", params=asked | {"expanded": works["middle"]}).text
    assert works["far"] in nodes(after)
    collapse = re.search(r'href="(/map\?[^"]+)" aria-label="Collapse', after)
    assert nodes(client.get(collapse[1].replace("&amp;", "&")).text) == nodes(before)


def test_forms_without_a_script_send_kinds_one_by_one(client, works):
    asked = [("node", works["paper"]), ("kinds", "person"), ("kinds", "topic")]
    page = client.get("/map", params=asked).text
    assert nodes(page) == {works["paper"], works["person"], works["topic"]}


def test_nodes_are_found_by_name(client, works):
    for address in ("/map", "/map/found"):
        page = client.get(address, params={"q": "mapova", "node": works["paper"]}).text
        assert f"/map?node={works['person']}" in page
    assert "Nothing is called “<b>”" not in client.get("/map/found", params={"q": "<b>"}).text


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"node": "paper:2147483647"}, 404),
        ({"node": "cat:1"}, 422),
        ({"node": "paper:1\0"}, 422),
        ({"kinds": "cat"}, 422),
        ({"depth": 3}, 422),
        ({"limit": 201}, 422),
        ({"expanded": "paper:x"}, 422),
        ({"expanded": ",".join(f"claim:{i}" for i in range(1, 22))}, 422),
    ],
)
def test_what_cannot_be_shown_is_refused(client, works, query, status):
    asked = {"node": works["paper"]} | query
    for address in ("/map", "/map/slice"):
        assert client.get(address, params=asked).status_code == status, address


def test_a_visitor_sees_a_commit_at_once_although_pages_are_kept(app, client, works):
    address = f"/map/slice?node={works['person']}"
    first = client.get(address)
    assert client.get(address, headers={"If-None-Match": first.headers["ETag"]}).status_code == 304
    with app.state.database.writing() as db:
        paper = db.scalars(select(Paper).where(Paper.slug == "map-centre")).one()
        paper.title, paper.year = "Renamed", 1999
    again = client.get(address, headers={"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 200
    assert "Renamed (1999)" in again.text


def test_pages_of_people_with_a_session_are_not_shared(people, client, works):
    reader = people.reader.client.get("/map")
    assert reader.headers["Cache-Control"] == "no-store"
    assert "ETag" not in reader.headers
    visitor = client.get("/map")
    assert visitor.headers["Cache-Control"] == "no-cache"
    assert people.reader.csrf not in visitor.text


def test_claims_have_the_colour_of_their_verdict_and_titles_their_formulas(client):
    page = client.get("/map", params={"node": "paper:1", "kinds": ["paper", "claim"], "limit": 200})
    entries = re.findall(r'data-kind="claim"[^>]*data-tone="(\w+)"', page.text)
    assert {"good", "warn"} <= set(entries)
    assert "claim, numbers differ" in page.text
    assert not re.findall(r'data-short="[^"]*\$', page.text)
