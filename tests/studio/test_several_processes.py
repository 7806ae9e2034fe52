"""Several processes serve one studio on PostgreSQL, and share nothing else: pages are fresh."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from exactformer.studio.errors import DatabaseError
from exactformer.studio.serving import serve
from exactformer.studio.settings import Settings
from tests.studio.support.people import enter
from tests.studio.support.servers import settings_of
from tests.waiting import PATIENCE

PAGE = "/papers/fang-2022-attention-enables-zero-approximation-error"


def test_sqlite_serves_one_process_and_refuses_more_by_name(tmp_path: Any) -> None:
    settings = Settings(database=f"sqlite:///{tmp_path / 'x.db'}", workers=2)
    with pytest.raises(DatabaseError, match="--workers 2 needs PostgreSQL"):
        serve(settings, lambda *told: None)
    assert not (tmp_path / "x.db").exists()


def test_one_of_several_processes_runs_no_experiments(settings: Any) -> None:
    from dataclasses import replace

    from starlette.testclient import TestClient

    from exactformer.studio.app import create_app

    with TestClient(create_app(replace(settings, workers=2))) as client:
        assert "Run it here" not in client.get("/experiments/yun-sizes/run").text
        assert "on your machine" in client.get("/experiments/yun-sizes/run").text


@pytest.mark.postgres
def test_what_one_process_writes_is_on_the_next_page_of_every_other(postgres: Any) -> None:
    from starlette.testclient import TestClient

    from exactformer.studio.app import create_app

    settings = settings_of(database=postgres.new_database(), workers=2)
    apps = [create_app(settings) for _ in range(2)]
    database = apps[0].state.database
    people = [
        enter(database, settings, handle, "reader", TestClient(app, follow_redirects=False))
        for handle, app in zip(("ada", "bob"), apps, strict=True)
    ]
    visitors = [TestClient(app, follow_redirects=False) for app in apps]
    known = [{}, {}]
    for number in range(5):
        for client in (*visitors, *(person.client for person in people)):
            assert client.get(PAGE).text.count("A thought of") == number
        for visitor, headers in zip(visitors, known, strict=True):
            answer = visitor.get(PAGE, headers=headers)
            assert answer.status_code == 200
            headers["If-None-Match"] = answer.headers["ETag"]
            assert visitor.get(PAGE, headers=headers).status_code == 304
        written = people[number % 2].client.post(
            f"{PAGE}/comments", data={"body": f"A thought of mine, {number}", "kind": "note"}
        )
        assert written.status_code in (200, 303)
    for app in apps:
        app.state.runs.close()
        app.state.playground.close()
        app.state.database.close()


@pytest.mark.postgres
def test_several_processes_serve_and_end_together(postgres: Any) -> None:
    import httpx

    command = [sys.executable, "-m", "exactformer", "serve", "--json", "--port", "0"]
    command += ["--workers", "2", "--playground-workers", "1", "--database"]
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

        def ask(number: int) -> int:
            return httpx.get(f"{address}{PAGE}?{number}", timeout=PATIENCE).status_code

        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(ask, range(40))) == {200}
        server.send_signal(signal.SIGINT)
        assert server.wait(PATIENCE) == 0
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
        assert server.stdout is not None
        server.stdout.close()
