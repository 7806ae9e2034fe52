"""A large library, made up: papers that cite earlier ones, much-cited ones more than others.

100,000 papers and 1,000,000 citations by default, with authors, houses, topics and claims. Counts
of citations, of papers by author and of papers by topic have heavy tails, as real ones have: the
most cited paper is cited thousands of times, so that pages and slices meet hubs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import insert
from sqlalchemy.orm import Session

from exactformer.progress import progress

CHUNK = 20_000
SYLLABLES = ("a", "be", "cor", "di", "el", "for", "gra", "in", "ki", "lo", "ma", "ner", "op", "tra")


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    papers: int = 100_000
    citations: int = 1_000_000
    people: int = 60_000
    institutions: int = 2_000
    topics: int = 400
    claims: int = 20_000
    authors: int = 3
    topics_of_a_paper: int = 2
    words: int = 60


def fill(db: Session, size: Size) -> None:
    """Write the library into empty tables; identifiers begin after those that are there."""
    from exactformer.studio.library import catalogue, tables

    rng = np.random.default_rng(0)
    words = _vocabulary(rng)
    steps: list[tuple[Any, Iterator[list[dict[str, Any]]]]] = [
        (tables.Paper, _papers(rng, size, words)),
        (tables.Person, _people(rng, size, words)),
        (tables.Institution, _institutions(size)),
        (tables.Topic, _topics(size)),
        (tables.Authorship, _authorships(size)),
        (tables.Affiliation, _affiliations(size)),
        (tables.PaperTopic, _about(rng, size)),
        (tables.Claim, _claims(rng, size)),
        (tables.Citation, _citations(rng, size)),
    ]
    with progress("writing the library", len(steps)) as tell:
        for done, (table, chunks) in enumerate(steps):
            for rows in chunks:
                db.execute(insert(table), rows)
            tell(done + 1)
    catalogue.count_citations(db, _ids(size.papers).tolist())


FIRST = 1_000_000
"""Identifiers start above those of the works that every studio has."""


def _chunks(columns: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Give rows of a table by columns, so many at a time."""
    names = list(columns)
    lists = [c.tolist() if isinstance(c, np.ndarray) else c for c in columns.values()]
    for begin in range(0, len(lists[0]), CHUNK):
        part = [c[begin : begin + CHUNK] for c in lists]
        yield [dict(zip(names, row, strict=True)) for row in zip(*part, strict=True)]


def _ids(count: int) -> np.ndarray:
    return np.arange(FIRST, FIRST + count)


def _often(rng: np.random.Generator, among: int, shape: Any, power: float = 2.5) -> np.ndarray:
    """Draw numbers below ``among``, small ones much more often."""
    return (among * rng.random(shape) ** power).astype(int)


def _vocabulary(rng: np.random.Generator, count: int = 5000) -> np.ndarray:
    made: set[str] = set()
    while len(made) < count:
        made.add("".join(rng.choice(SYLLABLES, size=int(rng.integers(2, 5)))))
    return np.array(sorted(made))[rng.permutation(count)]


def _texts(rng: np.random.Generator, words: np.ndarray, count: int, length: int) -> list[str]:
    return [" ".join(line) for line in words[_often(rng, len(words), (count, length))].tolist()]


def _papers(rng: np.random.Generator, size: Size, words: np.ndarray) -> Iterator[Any]:
    titles = _texts(rng, words, size.papers, 7)
    ids = _ids(size.papers)
    return _chunks(
        {
            "id": ids,
            "slug": [f"made-up-{i}" for i in ids],
            "title": [title.capitalize() for title in titles],
            "normalised_title": titles,
            "abstract": _texts(rng, words, size.papers, size.words),
            "year": np.linspace(1960, 2026, size.papers).astype(int),
            "kind": ["article"] * size.papers,
            "doi": [f"10.5555/{i}" for i in ids],
        }
    )


def _people(rng: np.random.Generator, size: Size, words: np.ndarray) -> Iterator[Any]:
    names = _texts(rng, words, size.people, 2)
    shown = [name.title() for name in names]
    return _chunks({"id": _ids(size.people), "name": shown, "normalised_name": names})


def _institutions(size: Size) -> Iterator[Any]:
    names = [f"institute {i}" for i in range(size.institutions)]
    shown = [name.title() for name in names]
    return _chunks({"id": _ids(size.institutions), "name": shown, "normalised_name": names})


def _topics(size: Size) -> Iterator[Any]:
    names = [f"subject {i}" for i in range(size.topics)]
    slugs = [f"subject-{i}" for i in range(size.topics)]
    return _chunks({"id": _ids(size.topics), "slug": slugs, "name": names})


def _places(size: Size) -> dict[str, np.ndarray]:
    """Places in lists of authors; the busiest author has some hundreds of papers."""
    count = size.papers * size.authors
    people = _often(np.random.default_rng(1), size.people, count, power=1.6)
    return {
        "paper_id": np.repeat(_ids(size.papers), size.authors),
        "position": np.tile(np.arange(size.authors), size.papers),
        "person_id": FIRST + people,
    }


def _authorships(size: Size) -> Iterator[Any]:
    return _chunks(_places(size))


def _affiliations(size: Size) -> Iterator[Any]:
    """Everybody has two houses, and gives the one or the other."""
    places = _places(size)
    people = places.pop("person_id")
    houses = FIRST + (people * 31 + 7 * (places["paper_id"] % 2)) % size.institutions
    return _chunks({"id": _ids(len(houses))} | places | {"institution_id": houses})


def _about(rng: np.random.Generator, size: Size) -> Iterator[Any]:
    papers = np.repeat(_ids(size.papers), size.topics_of_a_paper)
    topics = FIRST + _often(rng, size.topics, len(papers))
    pairs = np.unique(np.column_stack([papers, topics]), axis=0)
    return _chunks({"paper_id": pairs[:, 0], "topic_id": pairs[:, 1]})


def _claims(rng: np.random.Generator, size: Size) -> Iterator[Any]:
    ids = _ids(size.claims)
    return _chunks(
        {
            "id": ids,
            "paper_id": FIRST + rng.integers(0, size.papers, size.claims),
            "position": ids,
            "anchor": [f"theorem-{i}" for i in ids],
            "kind": ["theorem"] * size.claims,
            "title": [f"Theorem {i}" for i in range(size.claims)],
        }
    )


def _citations(rng: np.random.Generator, size: Size) -> Iterator[Any]:
    """Every pair once; a paper cites earlier ones, the earliest most."""
    citing = rng.integers(1, size.papers, int(1.2 * size.citations) + 10)
    cited = (citing * rng.random(len(citing)) ** 2).astype(int)
    pairs = np.unique(np.column_stack([citing, cited]), axis=0)
    pairs = FIRST + rng.permutation(pairs)[: size.citations]
    return _chunks({"citing_id": pairs[:, 0], "cited_id": pairs[:, 1]})
