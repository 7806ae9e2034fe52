"""Where the time of a paper's page goes when it is computed: queries, objects, template, the rest.

Time of the processor, which other work on the machine changes little.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.studio_load import PAPER, studio

Row = dict[str, Any]


def measure(count: int) -> list[Row]:
    """Return medians over so many requests, made in this process and never from memory."""
    from sqlalchemy import event

    from exactformer.studio.web import shared_pages

    with TemporaryDirectory() as folder:
        app = studio(f"sqlite:///{Path(folder) / 'studio.db'}")
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

        fill = shared_pages.fill

        def timed(*arguments: Any) -> str:
            start = time.process_time()
            page = fill(*arguments)
            spent["template"] += time.process_time() - start
            return page

        shared_pages.fill = timed  # type: ignore[assignment]
        try:
            samples = asyncio.run(_ask(app, count, spent, asked))
        finally:
            shared_pages.fill = fill
            app.state.database.close()
    queries = int(median(sample["asked"] for sample in samples))
    names = {
        "queries": f"{queries} queries, in the database",
        "template": "template",
        "rest": "objects made of rows, routing, services",
        "total": "all",
    }
    return [
        {"part": said, "median ms": 1e3 * median(sample[name] for sample in samples)}
        for name, said in names.items()
    ]


async def _ask(app: Any, count: int, spent: dict[str, float], asked: list[int]) -> list[Row]:
    """Ask the application as its server would; a header keeps the answer out of the cache."""
    from exactformer.studio.web.shared_pages import SharedPages

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
        "headers": [(b"host", b"127.0.0.1"), (b"hx-request", b"false")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        assert message.get("status", 200) == 200

    samples = []
    for _ in range(count + 3):
        app.state.shared_pages = SharedPages()
        spent.update(queries=0.0, template=0.0)
        asked[0] = 0
        start = time.process_time()
        await app(dict(scope), receive, send)
        total = time.process_time() - start
        rest = total - spent["queries"] - spent["template"]
        samples.append({**spent, "rest": rest, "total": total, "asked": asked[0]})
    return samples[3:]
