"""A few papers around one with claims, for tests of the map's pages."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session

from exactformer.studio.library.tables import (
    Affiliation,
    Authorship,
    Citation,
    Claim,
    Institution,
    Paper,
    Person,
    Topic,
)

CLAIMS = 70


def add_works(db: Session) -> dict[str, str]:
    """Write them, and return the names of their nodes.

    The central paper has more claims than any other, so that the map begins there. A chain of
    citations leads from it over "middle" to "far".
    """
    centre, middle, far = (
        Paper(slug=f"map-{name}", title=f"The {name} of <it>", normalised_title=f"the {name} of it")
        for name in ("centre", "middle", "end")
    )
    person = Person(name="Zuzana Mapová", normalised_name="zuzana mapova")
    house = Institution(name="Mapping Institute", normalised_name="mapping institute")
    topic = Topic(slug="mapping", name="Mapping")
    claims = [
        Claim(position=i, anchor=f"theorem-{i}", kind="theorem", title=f"Map theorem {i}")
        for i in range(CLAIMS)
    ]
    centre.claims, centre.topics = claims, [topic]
    db.add_all([centre, middle, far, person, house])
    db.flush()
    db.add(Authorship(paper_id=centre.id, position=0, person_id=person.id))
    db.flush()
    db.add(Affiliation(paper_id=centre.id, position=0, institution_id=house.id))
    db.add(Citation(citing_id=centre.id, cited_id=middle.id))
    db.add(Citation(citing_id=middle.id, cited_id=far.id))
    db.flush()
    named: dict[str, Any] = {
        "paper": centre,
        "middle": middle,
        "far": far,
        "person": person,
        "institution": house,
        "topic": topic,
        "claim": claims[0],
    }
    kinds = {"middle": "paper", "far": "paper"}
    return {name: f"{kinds.get(name, name)}:{row.id}" for name, row in named.items()}
