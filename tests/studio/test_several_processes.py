"""Processes of one studio share nothing but PostgreSQL: pages are fresh, rates hold, runs are seen."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from exactformer.studio.errors import DatabaseError, TooManyError
from exactformer.studio.security.rates import SharedRates
from exactformer.studio.serving import serve
from exactformer.studio.settings import Rate, Settings
from exactformer.studio.storage import migrations
from exactformer.studio.storage.engine import Database
from tests.studio.support.forms import send
from tests.studio.support.people import Person, enter
from tests.studio.support.servers import settings_of
from tests.waiting import PATIENCE

PAPER = "fang-2022-attention-enables-zero-approximation-error"
PAGE = f"/papers/{PAPER}"


def test_sqlite_serves_one_process_and_refuses_more_by_name(tmp_path: Any) -> None:
    settings = Settings(database=f"sqlite:///{tmp_path / 'x.db'}", workers=2)
    with pytest.raises(DatabaseError, match="--workers 2 needs PostgreSQL"):
        serve(settings, lambda *told: None)
    assert not (tmp_path / "x.db").exists()


def test_settings_survive_the_way_to_another_process() -> None:
    settings = settings_of(database="sqlite:///x.db", workers=3, login_rate=Rate(1, 2))
    assert Settings.from_json(settings.to_json()) == settings


@pytest.fixture
def shared(postgres: Any) -> Iterator[Database]:
    database = Database(postgres.new_database())
    migrations.upgrade(database)
    yield database
    database.close()


def test_a_rate_is_one_for_all_processes(shared: Database) -> None:
    rates = [SharedRates(shared) for _ in range(3)]
    rate, taken, refused = Rate(10, 3600), [], []

    def take(number: int) -> None:
        try:
            rates[number % 3].take("login", "ada", rate)
            taken.append(number)
        except TooManyError as refusal:
            refused.append(refusal)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(take, range(30)))
    assert (len(taken), len(refused)) == (10, 20)
    assert all(0 < refusal.seconds <= 360 for refusal in refused)
    rates[1].take("login", "bob", rate)
    rates[2].take("writing", "ada", rate)
    rates[0].take("login", "x" * 500, rate)


def test_a_bucket_refills_and_is_forgotten(shared: Database) -> None:
    from sqlalchemy import text

    rates, rate = SharedRates(shared), Rate(1, 3600)
    rates.take("login", "ada", rate)
    with pytest.raises(TooManyError):
        rates.take("login", "ada", rate)
    with shared.writing() as db:  # an hour later
        db.execute(text("UPDATE rates SET full_at = full_at - 3600"))
    rates.take("login", "ada", rate)


@dataclass
class Process:
    """An application as one of several processes has it, with clients of its own."""

    app: Any
    visitor: Any

    def client(self, cookies: dict[str, str], csrf: str) -> Any:
        from starlette.testclient import TestClient

        client = TestClient(self.app, follow_redirects=False, headers={"X-CSRF-Token": csrf})
        client.cookies.update(cookies)
        return client


@pytest.fixture
def processes(postgres: Any) -> Iterator[list[Process]]:
    from starlette.testclient import TestClient

    from exactformer.studio.app import create_app

    settings = settings_of(
        database=postgres.new_database(), workers=2, login_rate=Rate(10, 300), playground_workers=1
    )
    apps = [create_app(settings) for _ in range(2)]
    yield [Process(app, TestClient(app, follow_redirects=False)) for app in apps]
    for app in apps:
        app.state.runs.close()
        app.state.database.close()


def test_what_one_process_writes_is_on_the_next_page_of_every_other(processes: Any) -> None:
    from starlette.testclient import TestClient

    first, second = processes
    database, settings = first.app.state.database, first.app.state.settings
    ada = enter(database, settings, "ada", "reader", TestClient(first.app))
    bob = enter(database, settings, "bob", "reader", TestClient(second.app))
    for number in range(5):
        for client in (first.visitor, second.visitor, ada.client, bob.client):
            assert client.get(PAGE).text.count("A thought of") == number
        written = (ada, bob)[number % 2].client.post(
            f"{PAGE}/comments", data={"body": f"A thought of mine, {number}", "kind": "note"}
        )
        assert written.status_code in (200, 303)
    both = [process.client(ada.cookies, ada.csrf) for process in processes]
    assert both[0].get(PAGE).text == both[1].get(PAGE).text
    assert both[1].post("/logout").status_code == 303
    assert 'href="/login"' in both[0].get(PAGE).text  # a session ends everywhere at once


def test_a_password_is_guessed_ten_times_whatever_process_is_asked(processes: Any) -> None:
    statuses = []
    for number in range(14):
        client = processes[number % 2].visitor
        visitor = Person("visitor", client)
        answer = send(visitor, "/login", handle="ada", password="a wrong password")
        statuses.append(answer.status_code)
        client.cookies.clear()
    assert 429 not in statuses[:10]
    assert set(statuses[10:]) == {429}


def test_a_run_that_one_process_carries_out_is_seen_by_all(
    processes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = (process.app.state.runs for process in processes)
    monkeypatch.setattr(here._one_by_one, "submit", lambda *work: None)
    run = here.start("yun-sizes")
    assert there.of("yun-sizes").state == "waiting"
    assert there.start("yun-sizes").begun_at == run.begun_at  # joins it
    monkeypatch.undo()
    here._carry_out(run)
    seen = there.of("yun-sizes")
    assert (seen.state, seen.done) == ("finished", run.total)
    assert seen.shown.paper == run.shown.paper


@pytest.mark.slow
def test_several_processes_serve_and_end_together(postgres: Any) -> None:
    import httpx

    command = [sys.executable, "-m", "exactformer", "serve", "--json", "--port", "0"]
    command += ["--workers", "3", "--playground-workers", "1", "--database"]
    server = subprocess.Popen(
        [*command, postgres.new_database()], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert server.stdout is not None
        lines = iter(server.stdout.readline, b"")
        text = b""
        while not text.rstrip().endswith(b"}"):
            text += next(lines)
        address = json.loads(text)["address"]
        children = _children(server.pid)
        assert len(children) == 3

        def ask(number: int) -> int:
            return httpx.get(f"{address}{PAGE}?{number}", timeout=PATIENCE).status_code

        with ThreadPoolExecutor(12) as pool:
            assert set(pool.map(ask, range(60))) == {200}
        os.kill(children[0], signal.SIGKILL)  # the others go on, and another takes its place
        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(ask, range(20))) == {200}
        server.send_signal(signal.SIGINT)
        assert server.wait(PATIENCE) == 0
        assert not [child for child in children if os.path.exists(f"/proc/{child}")]
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
        assert server.stdout is not None
        server.stdout.close()


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]
