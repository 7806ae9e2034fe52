"""Experiments run on request: one at a time, watched by all, told in words when they fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from exactformer.experiments.engine.experiment import Scale
from exactformer.experiments.registry import find, names
from exactformer.studio.errors import BusyError, NotFoundError, TooManyError
from exactformer.studio.evidence import evidence, runs
from exactformer.studio.evidence.runs import RUNNABLE, Run, Runs, compared, statements
from exactformer.studio.playground.workers import Limits
from tests.waiting import PATIENCE, wait_until

NAME = "yun-softmax"
HTMX = {"HX-Request": "true"}


@pytest.fixture(scope="module")
def finished() -> Iterator[Run]:
    """A whole run, in a worker process."""
    with closing(Runs(Limits(1, int(PATIENCE), 2 << 30))) as server:
        run = server.start(NAME)
        assert server.start(NAME) is run
        wait_until(lambda: not run.is_under_way)
        yield run


def test_a_run_tests_every_statement_and_fills_every_row(finished: Run, settings: Any) -> None:
    assert (finished.state, finished.problem) == ("finished", "")
    assert finished.done == finished.total == len(find(NAME).cells(Scale.SMOKE))
    assert finished.shown is not None
    assert finished.shown.scale == "smoke"
    assert all(item.holds for item in statements(finished.shown))
    lines = compared(evidence.of(settings.results, NAME).shown, finished.shown)
    assert {line.label for line in lines} == {
        quantity.label for quantity in find(NAME).quantities_at(Scale.SMOKE)
    }
    assert all(line.now != "–" for line in lines)


def test_pages_show_how_far_a_run_is(app: Any, people: Any, finished: Run) -> None:
    place = f"/experiments/{NAME}/run"
    client = people.reader.client
    assert "Run it here" in client.get(place).text
    assert "Log in to run it here" in people.visitor.client.get(place).text
    app.state.runs._runs[NAME] = Run(NAME, 4, "running", cells=[{}] * 3)
    part = client.get(place, headers=HTMX).text
    assert "3 of 4 parts" in part
    assert 'hx-trigger="load delay:1s"' in part
    assert client.post(f"/experiments/{NAME}/runs").headers["location"] == place
    assert "3 of 4 parts" in client.get(place).text
    app.state.runs._runs[NAME] = finished
    text = client.get(place).text
    assert "Just now" in text
    assert "hx-trigger" not in text
    app.state.runs._runs[NAME] = Run(NAME, 4, "failed", "The worker has ended.")
    assert "The worker has ended." in client.get(place).text


def test_what_needs_data_or_a_long_time_is_not_run_here(people: Any) -> None:
    assert set(names()) >= RUNNABLE
    client = people.reader.client
    assert client.post("/experiments/jiang-figure-3/runs").status_code == 404
    assert client.post("/experiments/none/runs").status_code == 404
    assert "on your machine" in client.get("/experiments/jiang-figure-3/run").text
    assert client.get("/experiments/none/run").status_code == 404


def test_runs_have_a_rate_and_a_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Runs(Limits())
    monkeypatch.setattr(server._one_by_one, "submit", lambda *work: None)

    def refuse() -> None:
        raise TooManyError("slower")

    with pytest.raises(TooManyError):
        server.start(NAME, refuse)
    first, *others = sorted(RUNNABLE)[: runs.MOST_WAITING + 1]
    for name in others:
        server.start(name)
    assert server.start(others[0], refuse) is server.of(others[0])
    with pytest.raises(BusyError):
        server.start(first)
    with pytest.raises(NotFoundError):
        server.start("none")
    server.close()


def test_a_run_that_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Runs(Limits())

    def busy(*asked: Any) -> bytes:
        raise BusyError("this takes too long")

    monkeypatch.setattr(server._pool, "answer", busy)
    run = server.start(NAME)
    wait_until(lambda: not run.is_under_way)
    assert (run.state, run.problem) == ("failed", "this takes too long")
    assert run.ended_at is not None
    server.close()
