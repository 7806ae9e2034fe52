"""A studio with life in it, made through the API: opinions of several people, everything once.

The first reader is the owner of what `World` names; others agree, answer and complain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.studio.support.people import People, Person

API = "/api/v1"
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
    third_slug: str
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


def said(person: Person, method: str, path: str, **content: Any) -> Any:
    """What the API answers, which must agree."""
    answer = person.client.request(method, API + path, **content)
    assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
    return answer.json() if answer.content else None


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
    paper, other, third = three_papers(people.database)
    here = f"/papers/{paper.slug}"
    for person, value, kinds in (
        (ada, 1, ("surprising", "useful")),
        (emmy, 1, ("useful", "foundational")),
        (sofia, -1, ("unclear",)),
    ):
        said(person, "PUT", f"{here}/votes", json={"value": value})
        for kind in kinds:
            said(person, "PUT", f"{here}/reactions/{kind}")
    said(ada, "PUT", f"{here}/saves")
    said(emmy, "PUT", f"{here}/saves")
    review = said(ada, "POST", f"{here}/reviews", json=REVIEW)
    changed = REVIEW | {
        "concerns": f"{REVIEW['concerns']} float64 has room to spare up to radius 10."
    }
    said(ada, "PUT", f"/reviews/{review['id']}", json=changed | {"revision": 1})
    said(emmy, "POST", f"{here}/reviews", json={"summary": "Clear and short.", "confidence": 2})
    comments = [
        said(person, "POST", f"{here}/comments", json={"kind": kind, "body": body})
        for person, (kind, body) in zip((ada, emmy, sofia), COMMENTS, strict=True)
    ]
    clearer = {"kind": "question", "body": f"{COMMENTS[0][1]} Or is there a better spread?"}
    said(ada, "PUT", f"/comments/{comments[0]['id']}", json=clearer | {"revision": 1})
    answer = {"body": ANSWER, "parent_id": comments[0]["id"]}
    said(emmy, "POST", f"{here}/comments", json=answer)
    shelf = said(ada, "POST", "/collections", json=SHELF)
    for each, note in ((paper, "Start here."), (other, "")):
        item = {"slug": each.slug, "note": note}
        said(ada, "POST", f"/collections/{shelf['id']}/items", json=item)
    shelf = said(ada, "PATCH", f"/collections/{shelf['id']}", json={"visibility": "link"})
    flag = said(
        emmy,
        "POST",
        f"/comments/{comments[2]['id']}/flags",
        json={"reason": "Belongs to another paper."},
    )
    proposal = said(ada, "POST", "/proposals", json={"text": PROPOSED})
    said(ada, "PUT", f"{here}/follows", json={"paper": True, "claims": ["table-1"]})
    return World(
        owner=ada,
        reader=sofia,
        curator=curator,
        admin=admin,
        slug=paper.slug,
        paper_id=paper.id,
        other_slug=other.slug,
        third_slug=third.slug,
        review=review["id"],
        comment=comments[0]["id"],
        collection=shelf["id"],
        token=shelf["token"],
        flag=flag["id"],
        proposal=proposal["id"],
        user=sofia.id or 0,
        handle=ada.handle,
        topic=paper.topics[0].slug,
    )
