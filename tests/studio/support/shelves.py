"""A paper of the tests' own, in the database of an app."""

from __future__ import annotations

from typing import Any

SLUG = "a-paper-to-talk-about"


def add_paper(app: Any, slug: str = SLUG) -> int:
    """Write a paper with two claims; its number."""
    from exactformer.studio.library.tables import Claim, Paper

    claims = [
        Claim(position=0, anchor="theorem-1", kind="theorem", title="Theorem 1"),
        Claim(position=1, anchor="table-1", kind="table", title="Table 1"),
    ]
    title = slug.replace("-", " ").capitalize()
    paper = Paper(slug=slug, title=title, normalised_title=title.lower(), claims=claims)
    with app.state.database.writing() as db:
        db.add(paper)
        db.flush()
        return paper.id
