"""A studio with life in it, made through its forms: opinions of several people, everything once.

The first reader is the owner of what `World` names; others agree, answer and complain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.studio.support.forms import Forms, follow, send
from tests.studio.support.people import People, Person

REVIEW = {
    "summary": "Every token carries a direction $\\xi_k$. A *hard* maximum selects the token itself, "
    "and a block multiplies what it holds by $\\xi_k \\cdot x$ once more. Powers of linear forms "
    "span all polynomials, so the transformer is **exact**; what is left is rounding.",
    "strengths": "- A finite network, with a count for every part\n- The proof of #theorem-3-5 can "
    "be run, matrix by matrix",
    "concerns": "The offset $2M^2$ that makes a token select itself is added and taken away again, "
    "which costs digits on a large ball.",
    "questions": "How much of the margin survives if the keys are learnt?",
    "conflict": "None.",
    "confidence": 4,
}
COMMENTS = [
    ("question", "Is the margin of the selection *tight*? For $n$ directions spread over the circle"
     " I find $$1 - \\cos\\frac{\\pi}{n} \\approx \\frac{\\pi^2}{2n^2}.$$"),
    ("replication", "Rebuilt #table-1 from its description alone: same order of the methods."),
    ("caveat", "The statement needs $x$ in a ball; outside of it nothing is promised."),
]  # fmt: skip
PROPOSED = "@article{n, title = {Notes on $x^2$}, author = {Noether, Emmy}, year = 1921}"
SHELF = {"title": "What attention can express", "description": "For the seminar."}
ANSWER = "For even spacing, yes. The certificate computes it for the directions it is given."


@dataclass
class World:
    """Names of what there is, for addresses."""

    owner: Person
    reader: Person
    curator: Person
    admin: Person
    slug: str
    paper_id: int
    other_slug: str
    review: int
    comment: int
    collection: int
    token: str
    flag: int
    proposal: int
    user: int
    handle: str
    topic: str

    def person(self, who: str) -> Person | None:
        """Who looks: the owner, or somebody of a role; nobody for a visitor."""
        found: Person | None = None if who == "visitor" else getattr(self, who)
        return found


def done(person: Person, page: Any, action: str = "", **values: Any) -> Any:
    """Send a form, which must be accepted; the page it leads to."""
    return follow(person, send(person, page, action, **values))


def shelved(person: Person, title: str, papers: Iterable[str]) -> int:
    """Begin a collection and put papers into it; its number."""
    shelf = number_in(str(done(person, "/collections", title=title).url), "/collections/")
    for paper in papers:
        done(person, f"/papers/{paper}", f"/papers/{paper}/collect", add=shelf)
    return shelf


def commented(person: Person, page: Any, **values: Any) -> int:
    """Write a comment in the form of a page; its number."""
    action = next(to for to, _ in Forms(page.text).found if to.endswith("/comments"))
    answer = send(person, page, action, **values)
    return number_in(answer.headers["location"], "#comment-")


def number_in(text: str, before: str) -> int:
    """The first number that stands directly behind something."""
    found = re.search(f"{re.escape(before)}(\\d+)", text)
    assert found, (before, text)
    return int(found[1])


def listed(page: Any) -> list[str]:
    """The addresses of the papers on a page that lists some."""
    return re.findall(r'entry__title"><a href="(/papers/[^"]+)"', page.text)


def three_papers(database: Any) -> list[Any]:
    """The paper whose theorem the playground begins with, and two others."""
    from sqlalchemy import select
    from sqlalchemy.orm import selectinload

    from exactformer.studio.library.tables import Paper

    with database.session() as db:
        papers = db.scalars(select(Paper).options(selectinload(Paper.topics)).order_by(Paper.id))
        return sorted(papers, key=lambda paper: not paper.slug.startswith("fang-2022"))[:3]


def build(people: People) -> World:
    """Let people live here for a while."""
    ada, emmy, sofia = (people.new("reader", handle) for handle in ("ada", "emmy", "sofia"))
    curator, admin = people.new("curator", "mary"), people.new("admin", "grace")
    paper, other, _ = three_papers(people.database)
    here = f"/papers/{paper.slug}"
    for person, value, kinds in (
        (ada, 1, ("surprising", "useful")),
        (emmy, 1, ("useful", "foundational")),
        (sofia, -1, ("unclear",)),
    ):
        done(person, here, f"{here}/vote", value=value)
        for kind in kinds:
            done(person, here, f"{here}/reaction", show=kind)
    for person in (ada, emmy):
        done(person, here, f"{here}/save", on=True)
    done(ada, f"{here}/review", **REVIEW)
    changed = f"{REVIEW['concerns']} float64 has room to spare up to radius 10."
    review = number_in(done(ada, f"{here}/review", concerns=changed).text, "/reviews/")
    done(emmy, f"{here}/review", summary="Clear and short.", confidence=2)
    question, _, caveat = (
        commented(person, person.client.get(here), kind=kind, body=body)
        for person, (kind, body) in zip((ada, emmy, sofia), COMMENTS, strict=True)
    )
    clearer = f"{COMMENTS[0][1]} Or is there a better spread?"
    done(ada, f"/comments/{question}/edit", body=clearer)
    commented(emmy, emmy.client.get(f"/comments/{question}/answer"), body=ANSWER)
    shelf = shelved(ada, SHELF["title"], (paper.slug, other.slug))
    place = f"/collections/{shelf}"
    done(ada, place, **SHELF)
    done(ada, place, f"{place}/items/{paper.id}/note", note="Start here.")
    shared = done(ada, place, f"{place}/sharing", visibility="link").text
    done(emmy, f"/comments/{caveat}/flag", reason="Belongs to another paper.")
    record = send(ada, "/propose", what=PROPOSED)
    done(ada, record, "/proposals")
    done(ada, f"{here}/follow", paper=True, claims=["table-1"])
    return World(
        owner=ada,
        reader=sofia,
        curator=curator,
        admin=admin,
        slug=paper.slug,
        paper_id=paper.id,
        other_slug=other.slug,
        review=review,
        comment=question,
        collection=shelf,
        token=shared.partition("/c/")[2].partition('"')[0],
        flag=number_in(curator.client.get("/moderation").text, "/moderation/"),
        proposal=number_in(curator.client.get("/proposals").text, "/proposals/"),
        user=sofia.id or 0,
        handle=ada.handle,
        topic=paper.topics[0].slug,
    )
