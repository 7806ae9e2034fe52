"""The studio under load, with a large library, and where the time of a page goes.

python -m benchmarks.studio [--quick] [--large]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

from benchmarks import studio_breakdown, studio_large, studio_load
from benchmarks.studio_library import Size
from benchmarks.tables import keep, markdown, origin, provenance, show
from tests.studio.support import clusters

SHARE = 1 / 3
"""A paper's page for visitors is read at least at this part of the bare rate."""

READER_SHARE = 1 / 10
"""Readers who are logged in are answered at least at this part of the bare rate."""

SPREAD = 10
"""Its 99th percentile is less than so many times its median."""

PATIENCE_MS = 300
"""With a large library every page has a lower median than this."""

TARGETS = (
    "paper page",
    "search, one word",
    "search, two words",
    "papers, most cited",
    "search, most cited",
    "map slice, 1 step",
    "map slice, 2 steps",
    "shortest path",
)

Row = dict[str, Any]
Table = tuple[list[str], list[list[str]]]


def load_table(rows: Sequence[Row]) -> Table:
    """Return rates and times at 64 connections."""
    bare = rows[0]["a second"]
    lines = [
        [
            row["page"],
            f"{row['bytes'] / 1e3:,.0f} kB",
            f"{row['a second']:,.0f}",
            f"{row['a second'] / bare:.{2 if row['a second'] > 0.1 * bare else 3}f}",
            _ms(row["p50 ms"]),
            _ms(row["p99 ms"]),
            f"{row['p99 ms'] / row['p50 ms']:.1f}",
        ]
        for row in rows
    ]
    return ["page", "length", "a second", "to bare", "p50 ms", "p99 ms", "p99 / p50"], lines


def large_table(rows: Sequence[Row]) -> Table:
    """Return times with a large library."""
    lines = [
        [row["page"], str(row["requests"]), _ms(row["median ms"]), _ms(row["most ms"])]
        for row in rows
    ]
    return ["page", "requests", "median ms", "longest ms"], lines


def breakdown_table(rows: Sequence[Row]) -> Table:
    """Return where the time of a page goes."""
    return ["part", "median ms"], [[row["part"], _ms(row["median ms"])] for row in rows]


def _ms(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def verdicts(contents: dict[str, Any]) -> list[str]:
    """Say which targets are met."""
    bare, page, reader = contents["load"][:3]
    share, own_share = (row["a second"] / bare["a second"] for row in (page, reader))
    spread, own_spread, bare_spread = (
        row["p99 ms"] / row["p50 ms"] for row in (page, reader, bare)
    )
    return [
        f"Visitors at least at a third of the bare rate: {share:.2f}, {_verdict(share >= SHARE)}.",
        f"Readers who are logged in at least at a tenth of it: {own_share:.2f}, "
        f"{_verdict(own_share >= READER_SHARE)}.",
        f"p99 under ten times p50: {spread:.1f} times for visitors, {own_spread:.1f} for readers (the "
        f"bare page: {bare_spread:.1f}), {_verdict(max(spread, own_spread) < SPREAD)}.",
        large_verdict(contents),
    ]


def large_verdict(contents: dict[str, Any]) -> str:
    """Say whether pages of the large library come in time, on every database that was measured."""
    rows = contents["large"] + contents.get("large on PostgreSQL", [])
    slowest = max(row["median ms"] for row in rows if row["page"] in TARGETS)
    return (
        f"Page, search, map slice and path of the large library under {PATIENCE_MS} ms: the slowest "
        f"median is {_ms(slowest)} ms, {_verdict(slowest < PATIENCE_MS)}."
    )


def _verdict(met: bool) -> str:
    return "met" if met else "**not met**"


def page(contents: dict[str, Any]) -> list[str]:
    """Return the stored run as Markdown."""
    size, building = contents["size"], contents["building"]
    server: list[str] = []
    if "large on PostgreSQL" in contents:
        times = contents["building on PostgreSQL"]
        server = [
            f"The same on PostgreSQL, as Debian sets it up (written in {times['writing s']:.0f} s, "
            f"indexed in {times['indexing s']:.0f} s):",
            "",
            *markdown(*large_table(contents["large on PostgreSQL"])),
            "",
        ]
    return [
        "Reading a paper's page at 64 connections, beside a bare FastAPI page (`async def`, one "
        "route, no database) of the same length: one uvicorn process each, SQLite, `wrk` as the "
        "client, rounds in turn, the best of each. Visitors' pages are shared from memory. 64 readers "
        "who are logged in ask in turn; they share what is the same for all of them, and the rest is "
        "computed for each.",
        "",
        *markdown(*load_table(contents["load"])),
        "",
        "What a page costs that nobody has asked for since its last change (time of the processor):",
        "",
        *markdown(*breakdown_table(contents["breakdown"])),
        "",
        f"With {size['papers']:,} papers, {size['citations']:,} citations, {size['people']:,} "
        f"people, {size['topics']:,} topics and {size['claims']:,} claims (SQLite; written in "
        f"{building['writing s']:.0f} s, indexed in {building['indexing s']:.0f} s), one reader, "
        "every request for the first time; half of the papers are the most cited:",
        "",
        *markdown(*large_table(contents["large"])),
        "",
        *server,
        *(f"- {verdict}" for verdict in verdicts(contents)),
        "",
        origin(contents["provenance"]),
    ]


def large_libraries(size: Size, count: int) -> dict[str, Any]:
    """Measure pages of a large library in a file and, where PostgreSQL is installed, on a server."""
    with studio_large.sqlite() as database:
        large, building = studio_large.measure(database, size, count)
    show("A large library", *large_table(large))
    contents: dict[str, Any] = {"size": asdict(size), "building": building, "large": large}
    if clusters.programs() is None:
        print("PostgreSQL is not installed: the large library is measured on SQLite alone")
        return contents
    with studio_large.postgresql() as database:
        large, building = studio_large.measure(database, size, count)
    show("A large library, PostgreSQL", *large_table(large))
    return contents | {"large on PostgreSQL": large, "building on PostgreSQL": building}


def run(quick: bool = False, large: bool = False) -> None:
    """Measure, print, and unless quick write the page; say so where something is missing.

    With ``large`` only the large library is measured, which needs no client, and nothing is written.
    """
    size = Size(300, 2000, 200, 20, 10, 50) if quick else Size()
    count = 6 if quick else 40
    absent = "" if find_spec("fastapi") else 'pip install "exactformer[studio]" is needed'
    absent = absent or ("" if large else studio_load.missing())
    if absent:
        print(f"{absent}: the studio is not measured")
        return
    if large:
        print(large_verdict(large_libraries(size, count)))
        return
    load = studio_load.compare(*((1, 1) if quick else (8, 4)))
    show("64 connections", *load_table(load))
    breakdown = studio_breakdown.measure(3 if quick else 60)
    show("A page that is computed", *breakdown_table(breakdown))
    contents = {
        "load": load,
        "breakdown": breakdown,
        **large_libraries(size, count),
        "provenance": provenance("studio", ("exactformer", "fastapi", "sqlalchemy", "uvicorn")),
    }
    for verdict in verdicts(contents):
        print(verdict)
    if not quick:
        keep("studio", "The studio", page(contents), contents)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="toy sizes, nothing written")
    parser.add_argument("--large", action="store_true", help="the large library, nothing written")
    asked = parser.parse_args()
    run(asked.quick, asked.large)


if __name__ == "__main__":
    main()
