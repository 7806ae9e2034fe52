"""The time of the processor that a paper's page takes, and where it goes.

python -m benchmarks.studio [--quick]; also on PostgreSQL where the environment names a server:
pg_virtualenv python -m benchmarks.studio
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.tables import write

PAPER = "fang-2022-attention-enables-zero-approximation-error"
LIMIT_MS = 40
"""A page takes less than this."""

Row = dict[str, Any]


def measure(name: str, address: str, count: int) -> Row:
    """Return medians over so many requests of a visitor, made in this process."""
    from sqlalchemy import event

    from exactformer.studio.app import create_app
    from exactformer.studio.settings import Settings
    from exactformer.studio.web import request

    app = create_app(Settings(database=address))
    engine = app.state.database.engine
    spent = {"queries": 0.0, "template": 0.0}
    asked = [0]

    @event.listens_for(engine, "before_cursor_execute")
    def begin(*arguments: Any) -> None:
        arguments[4].begun = time.process_time()

    @event.listens_for(engine, "after_cursor_execute")
    def end(*arguments: Any) -> None:
        spent["queries"] += time.process_time() - arguments[4].begun
        asked[0] += 1

    fill = request.fill

    def timed(*arguments: Any) -> str:
        start = time.process_time()
        page = fill(*arguments)
        spent["template"] += time.process_time() - start
        return page

    request.fill = timed
    try:
        samples = asyncio.run(_ask(app, count, spent, asked))
    finally:
        request.fill = fill
        app.state.runs.close()
        app.state.playground.close()
        app.state.database.close()
    parts = {part: median(sample[part] for sample in samples) for part in samples[0]}
    whole = parts["all"]
    return {
        "database": name,
        "queries": int(parts["asked"]),
        "in queries, ms": 1e3 * parts["queries"],
        "in the template, ms": 1e3 * parts["template"],
        "all, ms": 1e3 * whole,
        f"under {LIMIT_MS} ms": "yes" if 1e3 * whole < LIMIT_MS else "**no**",
    }


async def _ask(app: Any, count: int, spent: dict[str, float], asked: list[int]) -> list[Row]:
    """Ask the application as its server would; three pages come before those that count."""
    path = f"/papers/{PAPER}"
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        assert message.get("status", 200) == 200

    samples = []
    for _ in range(count + 3):
        spent.update(queries=0.0, template=0.0)
        asked[0] = 0
        start = time.process_time()
        await app(dict(scope), receive, send)
        samples.append({**spent, "asked": asked[0], "all": time.process_time() - start})
    return samples[3:]


@contextmanager
def databases() -> Iterator[dict[str, str]]:
    """Give the addresses of empty databases."""
    with TemporaryDirectory() as folder:
        found = {"SQLite": f"sqlite:///{Path(folder) / 'studio.db'}"}
        if "PGHOST" in os.environ:
            found["PostgreSQL"] = "postgresql:///postgres"
        yield found


def run(quick: bool = False) -> None:
    """Measure, print, and unless quick write the page."""
    if not find_spec("fastapi"):
        print('pip install "exactformer[studio]" is needed: the studio is not measured')
        return
    with databases() as addresses:
        rows = [measure(name, at, 3 if quick else 60) for name, at in addresses.items()]
    note = (
        "What the page of a paper costs a visitor who does not have it yet: time of the processor in "
        "the serving process, medians of 60 requests. Nothing is kept between requests."
    )
    write("studio", "The studio", note, rows, stored=not quick)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few requests, nothing written")
    run(parser.parse_args().quick)


if __name__ == "__main__":
    main()
