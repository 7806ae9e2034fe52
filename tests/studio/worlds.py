"""A studio with life in it, made through the API: opinions of several people, everything once.

The first reader is the owner of what `World` names; others agree, answer and complain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.studio.people import People, Person

API = "/api/v1"
BIBTEX = b"""
@article{yun2020,
  title   = {Are Transformers universal approximators of sequence-to-sequence functions?},
  author  = {Yun, Chulhee and Bhojanapalli, Srinadh and Rawat, Ankit Singh},
  year    = {2020},
  eprint  = {1912.10077},
  archivePrefix = {arXiv}
}
@article{shannon1948,
  title   = {A Mathematical Theory of Communication},
  author  = {Shannon, Claude E.},
  journal = {Bell System Technical Journal},
  year    = {1948},
  doi     = {10.1002/j.1538-7305.1948.tb01338.x}
}
"""
REVIEW = {
    "summary": "Softmax attention weighs values by *directions* of the input, and a sum of powers "
    "$\\langle \\omega, x \\rangle^k$ becomes a product. The construction is **exact**; what is "
    "left is the arithmetic of the machine.",
    "strengths": "- A finite network, with a count for every part\n- The proof is short enough to "
    "run: see #theorem-1",
    "concerns": "The radius enters the scale as $e^{R^2}$, so float32 is soon used up.",
    "questions": "Does the margin survive when keys are learnt?",
    "conflict": "None.",
    "confidence": 4,
}
COMMENTS = [
    ("question", "Is the margin in the proof *tight*, or only sufficient? For degree 2 I find"
     " $$\\Delta \\ge \\frac{2\\pi}{n}.$$"),
    ("replication", "Rebuilt it from the appendix with another library: same counts."),
    ("caveat", "The statement needs $x$ in a ball; outside of it nothing is promised."),
]  # fmt: skip
SHELF = {"title": "What attention can express", "description": "For the seminar."}
ANSWER = "Sufficient. A larger one exists for $n = 3$, see the discussion of the counts."


@dataclass
class World:
    """Names of what there is, for addresses."""

    owner: Person
    importer: Person
    slug: str
    paper_id: int
    other_slug: str
    other_paper_id: int
    review: int
    comment: int
    collection: int
    token: str
    flag: int
    pending: int
    user: int
    handle: str
    topic: str

    def person(self, who: str, people: People) -> Person | None:
        """Who looks: the owner, the importer, or somebody of a role; nobody for a visitor."""
        if who == "visitor":
            return None
        found: Person = getattr(self, who, None) or getattr(people, who)
        return found


def said(person: Person, method: str, path: str, **content: Any) -> Any:
    """What the API answers, which must agree."""
    answer = person.client.request(method, API + path, **content)
    assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
    return answer.json() if answer.content else None


def build(people: People) -> World:
    """Let people live here for a while."""
    ada, emmy, sofia = (people.new("reader", handle) for handle in ("ada", "emmy", "sofia"))
    curator = people.new("curator", "mary")
    papers = said(ada, "GET", "/papers", params={"limit": 100, "q": "approximation"})["items"]
    paper, other = papers[0], papers[1]
    here = f"/papers/{paper['slug']}"
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
    changed = REVIEW | {"concerns": f"{REVIEW['concerns']} float64 is enough up to $R = 4$."}
    said(ada, "PUT", f"/reviews/{review['id']}", json=changed | {"revision": 1})
    said(emmy, "POST", f"{here}/reviews", json={"summary": "Clear and short.", "confidence": 2})
    comments = [
        said(person, "POST", f"{here}/comments", json={"kind": kind, "body": body})
        for person, (kind, body) in zip((ada, emmy, sofia), COMMENTS, strict=True)
    ]
    answer = {"body": ANSWER, "parent_id": comments[0]["id"]}
    said(emmy, "POST", f"{here}/comments", json=answer)
    shelf = said(ada, "POST", "/collections", json=SHELF)
    for each, note in ((paper, "Start here."), (other, "")):
        item = {"slug": each["slug"], "note": note}
        said(ada, "POST", f"/collections/{shelf['id']}/items", json=item)
    shelf = said(ada, "PATCH", f"/collections/{shelf['id']}", json={"visibility": "link"})
    flag = said(
        emmy, "POST", f"/comments/{comments[2]['id']}/flags", json={"reason": "Says it twice."}
    )
    pending = said(curator, "POST", "/imports", files={"file": ("reading.bib", BIBTEX)})
    return World(
        owner=ada,
        importer=curator,
        slug=paper["slug"],
        paper_id=paper["id"],
        other_slug=other["slug"],
        other_paper_id=other["id"],
        review=review["id"],
        comment=comments[0]["id"],
        collection=shelf["id"],
        token=shelf["token"],
        flag=flag["id"],
        pending=pending["id"],
        user=sofia.id or 0,
        handle=ada.handle,
        topic=said(ada, "GET", "/topics")["items"][0]["slug"],
    )
