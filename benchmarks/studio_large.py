"""How long pages take with 100,000 papers and 1,000,000 citations, each asked for the first time.

One reader on one connection; every request is for another paper, query or pair, so that nothing is
answered from memory. Half of the papers are drawn at random, the others are the most cited: hubs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import numpy as np
from sqlalchemy import text

from benchmarks.studio_library import FIRST, Size, fill
from benchmarks.studio_load import read, serving, studio
from tests.studio.support import clusters

Row = dict[str, Any]


def build(database: str, size: Size) -> dict[str, float]:
    """Write the library and index it; return how long each took."""
    from exactformer.studio.library import search_index

    app = studio(database)
    start = time.perf_counter()
    with app.state.database.writing() as db:
        fill(db, size)
    written = time.perf_counter()
    with app.state.database.writing() as db:
        search_index.index_all(db)
        if not app.state.database.is_sqlite:
            db.execute(text("ANALYZE"))  # a running server does so by itself, within a minute
    done = time.perf_counter()
    app.state.database.close()
    return {"writing s": written - start, "indexing s": done - written}


def addresses(database: str, size: Size, count: int) -> dict[str, list[str]]:
    """Return what is asked for, by the name of the row."""
    rng = np.random.default_rng(2)
    some = rng.choice(size.papers, 2 * count, replace=False)
    random, others = FIRST + some[:count], FIRST + some[count:]
    hubs = FIRST + np.arange(count)
    papers = np.concatenate([random[: count // 2], hubs[: count - count // 2]])
    words = _words(database, papers.tolist())
    return {
        "paper page": [f"/papers/made-up-{paper}" for paper in papers],
        "search, one word": [f"/papers?q={quote(first)}" for first, _ in words],
        "search, two words": [f"/papers?q={quote(f'{a} {b}')}" for a, b in words],
        "papers, most cited": [f"/papers?sort=cited&page={1 + page}" for page in range(count)],
        "search, most cited": [f"/papers?q={quote(first)}&sort=cited" for first, _ in words],
        "map slice, 1 step": [f"/map/slice?node=paper:{paper}" for paper in papers],
        "map slice, 2 steps": [f"/map/slice?node=paper:{paper}&depth=2" for paper in papers],
        "map, node by name": [f"/map/found?q={quote(first)}" for first, _ in words],
        "shortest path": [
            f"/api/v1/map/path?from=paper:{one}&to=paper:{other}"
            for one, other in zip(random, others, strict=True)
        ],
        "shortest path, papers only": [
            f"/api/v1/map/path?from=paper:{one}&to=paper:{other}&kinds=paper"
            for one, other in zip(random, others, strict=True)
        ],
    }


def _words(database: str, papers: Sequence[int]) -> list[tuple[str, str]]:
    """Return two words of the titles of papers."""
    from sqlalchemy import create_engine, select

    from exactformer.studio.library.tables import Paper

    engine = create_engine(database)
    with engine.connect() as connection:
        titles = connection.scalars(select(Paper.title).where(Paper.id.in_(papers))).all()
    engine.dispose()
    return [(title.split()[0], title.split()[3]) for title in titles]


@contextmanager
def sqlite() -> Iterator[str]:
    """Give the address of an empty database in a file."""
    with TemporaryDirectory() as folder:
        yield f"sqlite:///{Path(folder) / 'studio.db'}"


@contextmanager
def postgresql() -> Iterator[str]:
    """Give the address of an empty database of a PostgreSQL server that runs for this alone."""
    cluster = clusters.Cluster(durable=True)
    try:
        yield cluster.new_database()
    finally:
        cluster.stop()


def measure(database: str, size: Size, count: int) -> tuple[list[Row], dict[str, float]]:
    """Return the time of every kind of page, and how long the library took to make."""
    building = build(database, size)
    with serving("studio", database) as url:
        asked = addresses(database, size, count)
        read(f"{url}/papers/made-up-{FIRST + size.papers // 2}")
        rows = [_row(name, [url + path for path in paths]) for name, paths in asked.items()]
    return rows, building


def _row(name: str, urls: Sequence[str]) -> Row:
    times = []
    for url in urls:
        start = time.perf_counter()
        read(url)
        times.append(1e3 * (time.perf_counter() - start))
    return {"page": name, "requests": len(urls), "median ms": median(times), "most ms": max(times)}
