"""Versions of what pages show: numbers in the database that grow with every change.

A change is counted in the transaction that makes it, so whoever reads a version first and the data
afterwards, in this process or another, never takes old data for new. A paper has its own number, which
votes, reviews and comments raise; one number stands for everything else that pages show (papers,
people, accounts); a third grows with each of these changes.

Services declare which paper they change (:func:`touch`). A change that no service has declared counts
as a change of everything, so a forgotten declaration costs time and never shows an old page.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy.orm import Mapped, Session, mapped_column

from exactformer.studio.storage.base import Base
from exactformer.studio.storage.upserts import insert

ANYTHING, EVERYTHING = -1, 0

OF_PAPERS = frozenset(
    "votes reactions saves reviews review_versions review_marks comments comment_versions "
    "comment_mentions comment_marks".split()
)
"""Tables whose rows are shown with one paper."""

UNSEEN = frozenset(
    "versions sessions audit_log flags collections collection_items rates runs "
    "notices follows proposals".split()
)
"""Tables that no shared page shows; numbers in its header are read with each reader's session."""


class Version(Base):
    """How often something has changed: a paper, by its number, or one of the two numbers above."""

    __tablename__ = "versions"

    scope: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    number: Mapped[int]


def touch(db: Session, paper_id: int) -> None:
    """Declare that this transaction changes what is shown with a paper, and with no other."""
    db.info.setdefault("papers", set()).add(paper_id)


def raise_versions(db: Session, written: Iterable[str]) -> None:
    """Count a transaction that has written to these tables, before it is committed."""
    seen = set(written) - UNSEEN
    papers: set[int] = db.info.get("papers", set())
    if not seen and not papers:
        return
    declared = bool(papers) and seen <= OF_PAPERS
    scopes = [ANYTHING, *sorted(papers)] if declared else [ANYTHING, EVERYTHING]
    for scope in scopes:
        row = insert(db, Version).values(scope=scope, number=1)
        db.execute(
            row.on_conflict_do_update(index_elements=["scope"], set_={"number": Version.number + 1})
        )
