"""Every list of papers shows what came of their claims, and asks for it once for the whole list."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from sqlalchemy import event, select

from exactformer.studio.library import catalogue
from exactformer.studio.library.records import AuthorRecord, ClaimRecord, PaperRecord
from exactformer.studio.library.tables import Citation, Institution, Paper, Person, Topic
from tests.studio.support.people import People
from tests.studio.support.worlds import done, number_in, shelved

FANG = "fang-2022-attention-enables-zero-approximation-error"
WHERE = ["person", "institution", "topic", "search", "citing", "collection", "shared", "saved"]


def write_papers(app: Any, numbers: range) -> list[Paper]:
    """Write papers by one author of one house about one topic, which all cite Fang."""
    claims = (
        ClaimRecord(
            anchor="lemma-1", kind="lemma", title="Lemma 1", ledger="fang-2022/theorem-3-5"
        ),
        ClaimRecord(anchor="lemma-2", kind="lemma", title="Lemma 2"),
    )
    records = [
        PaperRecord(
            title=f"Zeppelins of order {number}",
            authors=(AuthorRecord(name="Ferdinand Graf", institutions=("The Yard",)),),
            topics=("Airships",),
            claims=claims,
        )
        for number in numbers
    ]
    with app.state.database.writing() as db:
        made = [catalogue.add(db, record) for record in records]
        fang = db.scalar(select(Paper.id).where(Paper.slug == FANG))
        db.add_all(Citation(citing_id=paper.id, cited_id=fang) for paper in made)
    return made


def collect(people: People, papers: list[Paper], shelf: int) -> None:
    """Save papers, and put them into a collection."""
    for paper in papers:
        page = f"/papers/{paper.slug}"
        done(people.reader, page, f"{page}/save", on=True)
        done(people.reader, page, f"{page}/collect", add=shelf)


def address(app: Any, where: str, shelf: int, token: str) -> str:
    with app.state.database.session() as db:
        person = db.scalar(select(Person.id).where(Person.name == "Ferdinand Graf"))
        house = db.scalar(select(Institution.id).where(Institution.name == "The Yard"))
        topic = db.scalar(select(Topic.slug).where(Topic.name == "Airships"))
    return {
        "person": f"/people/{person}",
        "institution": f"/institutions/{house}",
        "topic": f"/topics/{topic}",
        "search": "/papers?q=zeppelins",
        "citing": f"/papers/{FANG}",
        "collection": f"/collections/{shelf}",
        "shared": f"/c/{token}",
        "saved": "/collections",
    }[where]


@pytest.mark.parametrize("where", WHERE)
def test_a_list_shows_verdicts_and_asks_as_often_for_many_papers_as_for_two(
    app: Any, people: People, where: str
) -> None:
    client = people.reader.client
    shelf = shelved(people.reader, "Read", ())
    place = f"/collections/{shelf}"
    shared = done(people.reader, place, f"{place}/sharing", visibility="link").text
    token = shared.partition("/c/")[2].partition('"')[0]
    asked: list[str] = []
    event.listen(app.state.database.engine, "before_cursor_execute", lambda *a: asked.append(a[2]))
    numbers = []
    for papers in (range(2), range(2, 12)):
        made = write_papers(app, papers)
        collect(people, made, shelf)
        place = address(app, where, shelf, token)
        asked.clear()
        text = client.get(place).text
        numbers.append(len(asked))
        assert sum("claims.ledger" in statement for statement in asked) <= 2
        for paper in made:
            bar = text.partition(f'aria-label="Claims of {paper.title}"')[2].partition("</ul>")[0]
            found = re.findall(r'href="/claims\?paper=([\w-]+)&amp;status=([\w%]+)".*<b>(\d)', bar)
            assert found == [(paper.slug, "corrected", "1"), (paper.slug, "not%20tried", "1")]
    assert numbers[0] == numbers[1]


def test_a_page_past_the_end_leads_back_to_the_last(client: Any) -> None:
    page = client.get("/papers?page=99999").text
    assert "No paper fits" not in page
    assert "The list ends before this page" in page
    last = -(-number_in(client.get("/papers").text, 'role="status">') // 20)
    assert f'rel="prev" href="/papers?page={last}"' in unescape(page)
