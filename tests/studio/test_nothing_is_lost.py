"""kill -9 while many write at once: what was acknowledged is there, and what is counted exists.

Sixteen people send forms at once (votes, comments, reviews and new versions of them). Each
notes what the server acknowledged. The server is killed amidst them and started again,
until enough has been written; then the notes are compared with the tables.
"""

from __future__ import annotations

import itertools
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.studio.support.forms import send
from tests.studio.support.people import Person
from tests.studio.support.servers import Server
from tests.studio.support.worlds import listed

WRITERS = 16


@dataclass
class Notes:
    """What one person was told is stored, and the one thing she was not told about."""

    votes: dict[str, int] = field(default_factory=dict)
    comments: dict[int, str] = field(default_factory=dict)
    reviews: dict[str, list[str]] = field(default_factory=dict)
    unanswered_votes: dict[str, set[int]] = field(default_factory=dict)
    acknowledged: int = 0


@dataclass
class Writer:
    """A person who writes as fast as she is answered, and stops when she is not."""

    person: Person
    slugs: list[str]
    notes: Notes = field(default_factory=Notes)
    steps: Iterator[int] = field(default_factory=itertools.count)

    def write(self, enough: Callable[[], bool]) -> None:
        """Go on until there is enough, or until the server is gone."""
        while not enough():
            step = next(self.steps)
            act = (self._vote, self._comment, self._review)[step % 3]
            try:
                act(step)
            except httpx.TransportError:
                return
            self.notes.acknowledged += 1

    def _send(self, page: str, action: str, **values: Any) -> str:
        shown = self.person.client.get(page)
        answer = self._answered(shown) and send(self.person, shown, action, **values)
        assert self._answered(answer).status_code == 303, f"{answer.status_code} {answer.text}"
        return str(answer.headers["location"])

    def _answered(self, answer: Any) -> Any:
        if answer.status_code == 503:  # the database is gone, and the server says so
            raise httpx.ConnectError(answer.text)
        return answer

    def _vote(self, step: int) -> None:
        slug, value = self.slugs[step % len(self.slugs)], 1 if step % 2 else -1
        self.notes.unanswered_votes.setdefault(slug, set()).add(value)
        self._send(f"/papers/{slug}", f"/papers/{slug}/vote", value=value)
        self.notes.votes[slug] = value
        self.notes.unanswered_votes[slug] = set()

    def _comment(self, step: int) -> None:
        slug, text = self.slugs[step % len(self.slugs)], f"{self.person.handle} remarks {step}"
        place = self._send(f"/papers/{slug}", f"/papers/{slug}/comments", body=text)
        self.notes.comments[int(place.rpartition("#comment-")[2])] = text

    def _review(self, step: int) -> None:
        slug, text = self.slugs[step % len(self.slugs)], f"{self.person.handle} reviews {step}"
        form = f"/papers/{slug}/review"
        self._send(form, form, summary=text, confidence=1 + step % 5)
        self.notes.reviews.setdefault(slug, []).append(text)


def write_through_crashes(
    server: Server, writes: int, crashes: int, crash: Callable[[], None]
) -> list[Writer]:
    """Writes by sixteen at once, ``crashes`` times interrupted; then all is compared."""
    with server.people() as people:
        with server.client() as client:
            addresses = listed(client.get("/papers"))[:8]
        slugs = [address.rpartition("/")[2] for address in addresses]
        writers = [Writer(people.new(), slugs) for _ in range(WRITERS)]

        def acknowledged() -> int:
            return sum(writer.notes.acknowledged for writer in writers)

        for number in range(1, crashes + 2):
            goal = writes * number // (crashes + 1)
            last = number == crashes + 1
            threads = [
                threading.Thread(
                    target=writer.write,
                    args=(lambda: last and acknowledged() >= goal,),  # noqa: B023
                )
                for writer in writers
            ]
            for thread in threads:
                thread.start()
            while not last and acknowledged() < goal and any(t.is_alive() for t in threads):
                time.sleep(0.001)
            if not last:
                crash()
            for thread in threads:
                thread.join()
            assert acknowledged() >= goal
        return writers


def compare(database: str, writers: list[Writer]) -> None:
    """Everything noted is in the tables, once, and every count is a count of rows."""
    from sqlalchemy import create_engine, func, select
    from sqlalchemy.orm import Session

    from exactformer.studio.library.tables import Paper
    from exactformer.studio.opinions.tables import (
        Comment,
        CommentVersion,
        Review,
        ReviewVersion,
        Vote,
    )
    from exactformer.studio.storage.audit import AuditEntry

    engine = create_engine(database)
    with Session(engine) as db:
        slugs = {paper.id: paper.slug for paper in db.scalars(select(Paper))}
        comments = {each.id: each for each in db.scalars(select(Comment))}
        votes = {(v.user_id, slugs[v.paper_id]): v.value for v in db.scalars(select(Vote))}
        versions: dict[int, list[str]] = {}
        order = (ReviewVersion.review_id, ReviewVersion.revision)
        for version in db.scalars(select(ReviewVersion).order_by(*order)):
            versions.setdefault(version.review_id, []).append(version.summary)
        reviews = {
            (each.author_id, slugs[each.paper_id]): versions[each.id]
            for each in db.scalars(select(Review))
        }
        for writer in writers:
            notes, author = writer.notes, writer.person.id
            for number, text in notes.comments.items():
                assert (comments[number].body, comments[number].author_id) == (text, author)
            for slug, value in notes.votes.items():
                assert author is not None
                assert votes[author, slug] in {value} | notes.unanswered_votes[slug]
            for slug, texts in notes.reviews.items():
                stored = iter(reviews[author, slug])  # texts in their order, and others between
                assert all(text in stored for text in texts)
        for review in db.scalars(select(Review)):
            assert versions[review.id][-1] == review.summary
            assert len(versions[review.id]) == review.revision
        written = db.scalar(select(func.count()).select_from(Comment))
        assert written == db.scalar(select(func.count()).select_from(CommentVersion))
        assert written == db.scalar(
            select(func.count()).where(AuditEntry.action == "comment.create")
        )
        pairs = db.execute(select(Vote.user_id, Vote.paper_id)).all()
        assert len(pairs) == len(set(pairs))
    engine.dispose()


def compare_counts(server: Server) -> None:
    """What pages say agrees with the tables."""
    from sqlalchemy import create_engine, func, select
    from sqlalchemy.orm import Session

    from exactformer.studio.library.tables import Paper
    from exactformer.studio.opinions.tables import Comment, Review, Vote

    engine = create_engine(server.database)
    with Session(engine) as db, server.client() as client:
        for paper in db.scalars(select(Paper).where(Paper.id.in_(select(Comment.paper_id)))):
            page = re.sub(r"<[^>]*>|\s+", " ", client.get(f"/papers/{paper.slug}").text)
            values = list(db.scalars(select(Vote.value).where(Vote.paper_id == paper.id)))
            shown = [number_of(page, word) for word in (r"(\d+) likes?", r"(\d+) dislikes?")]
            assert shown == [values.count(1), values.count(-1)]
            for table, word in ((Review, r"(\d+)  reviews?"), (Comment, r"Discussion  (\d+)")):
                rows = db.scalar(
                    select(func.count()).select_from(table).where(table.paper_id == paper.id)
                )
                assert number_of(page, word) == rows
    engine.dispose()


def number_of(page: str, words: str) -> int:
    """The number that stands first in such words."""
    return int(re.findall(words, page)[0])


def sqlite_is_sound(database: str) -> None:
    """What SQLite itself says about its file."""
    import sqlite3

    connection = sqlite3.connect(database.removeprefix("sqlite:///"))
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


def on_sqlite(template: Path, directory: Path, writes: int, crashes: int) -> None:
    """The whole trial on a file."""
    shutil.copy(template, directory / "studio.db")
    server = Server(f"sqlite:///{directory / 'studio.db'}", directory / "log").start()

    def crash() -> None:
        server.kill()
        server.start()

    try:
        writers = write_through_crashes(server, writes, crashes, crash)
        compare_counts(server)
    finally:
        server.kill()
    compare(server.database, writers)
    sqlite_is_sound(server.database)


def test_a_killed_server_has_kept_what_it_acknowledged(
    template_database: Path, tmp_path: Path
) -> None:
    on_sqlite(template_database, tmp_path, writes=120, crashes=1)


@pytest.mark.postgres
def test_a_killed_server_has_kept_what_it_acknowledged_on_postgresql(
    postgres: Any, tmp_path: Path
) -> None:
    server = Server(postgres.new_database(), tmp_path / "log").start()

    def crash() -> None:
        server.kill()
        server.start()

    try:
        writers = write_through_crashes(server, writes=120, crashes=1, crash=crash)
        compare_counts(server)
    finally:
        server.kill()
    compare(server.database, writers)


@pytest.mark.slow
def test_a_thousand_writes_survive_three_kills(template_database: Path, tmp_path: Path) -> None:
    on_sqlite(template_database, tmp_path, writes=1500, crashes=3)
