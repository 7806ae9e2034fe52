"""The studio's benchmarks: what wrk says is read rightly, the library is as large as it says."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from benchmarks import studio, studio_load
from benchmarks.studio_library import FIRST, Size, fill
from benchmarks.tables import HERE
from exactformer.studio.library.tables import Citation, Claim, Paper, Person
from exactformer.studio.storage.tables import Base
from tests.studio.support.desks import in_memory

SAID = """Running 6s test @ http://127.0.0.1:1/
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    24.45ms   19.82ms 143.59ms   85.38%
    Req/Sec     2.75k     1.37k    7.17k    70.18%
  Latency Distribution
     50%  850.00us
     75%   31.50ms
     90%   50.07ms
     99%    1.50s
  16397 requests in 6.06s, 1.93GB read
Requests/sec:   2704.34
Transfer/sec:    325.79MB
"""


def test_rates_and_times_are_read_in_milliseconds():
    row = studio_load.parse(SAID)
    assert row == {"requests": 16397, "a second": 2704.34, "p50 ms": 0.85, "p99 ms": 1500.0}


@pytest.mark.parametrize("line", ["  Non-2xx or 3xx responses: 3", "  Socket errors: connect 1"])
def test_a_run_in_which_a_request_failed_does_not_count(line):
    with pytest.raises(RuntimeError, match="not every request was answered"):
        studio_load.parse(SAID + line)


def test_the_library_has_what_was_asked_for_and_much_cited_papers():
    size = Size(500, 4000, 300, 20, 10, 60)
    with in_memory() as connection, Session(connection) as db:
        Base.metadata.create_all(connection)
        fill(db, size)
        counted = {
            name: db.scalar(select(func.count()).select_from(table))
            for name, table in {
                "papers": Paper,
                "citations": Citation,
                "people": Person,
                "claims": Claim,
            }.items()
        }
        cited = func.count()
        most = db.execute(
            select(Citation.cited_id, cited).group_by(Citation.cited_id).order_by(cited.desc())
        ).first()
        kept = db.scalar(select(Paper.times_cited).where(Paper.id == FIRST))
    assert counted == {name: asdict(size)[name] for name in counted}
    assert most == (FIRST, kept)
    assert most[1] > 10 * size.citations / size.papers


def contents(rate: float, own_rate: float, p99: float, median: float) -> dict:
    load = [
        {"page": "bare", "a second": 900.0, "p50 ms": 10.0, "p99 ms": 20.0, "bytes": 5},
        {"page": "visitor", "a second": rate, "p50 ms": 10.0, "p99 ms": 99.0, "bytes": 5},
        {"page": "reader", "a second": own_rate, "p50 ms": 10.0, "p99 ms": p99, "bytes": 5},
    ]
    large = [{"page": name, "median ms": median} for name in studio.TARGETS]
    return {"load": load, "large": large}


def test_targets_that_are_missed_are_said_to_be():
    met = studio.verdicts(contents(300.0, 90.0, 99.0, 299.0))
    missed = studio.verdicts(contents(299.0, 89.0, 100.0, 300.0))
    assert all(line.endswith("met.") and "not" not in line for line in met)
    assert all("**not met**" in line for line in missed)


def test_a_library_on_a_server_is_judged_and_shown_like_one_in_a_file():
    stored = json.loads((HERE / "studio.json").read_text())
    rows = [{**row, "median ms": 299.0} for row in stored["large"]]
    times = {"writing s": 61.0, "indexing s": 17.0}
    both = stored | {"large on PostgreSQL": rows, "building on PostgreSQL": times}
    assert any("written in 61 s, indexed in 17 s" in line for line in studio.page(both))
    assert studio.verdicts(both)[-1].endswith("the slowest median is 299 ms, met.")
    both["large on PostgreSQL"] = [{**row, "median ms": 300.0} for row in rows]
    assert "**not met**" in studio.verdicts(both)[-1]


def test_the_stored_page_is_that_of_the_stored_run():
    stored = json.loads((HERE / "studio.json").read_text())
    title, *lines = (HERE / "studio.md").read_text().splitlines()
    assert title == "# The studio"
    assert lines == ["", *studio.page(stored)]
