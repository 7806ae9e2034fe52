"""What tests of the studio share: an app on a database of its own, people, a server, a browser.

The database is made and seeded once for each worker; every test gets a copy of the file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.studio.support.browsers import Visit, browser_program
from tests.studio.support.desks import blank, desk, library, original, seeded_library
from tests.studio.support.people import People
from tests.studio.support.servers import Server, hash_at_little_cost, settings_of
from tests.studio.support.worlds import World, build
from tests.waiting import PATIENCE

__all__ = ["blank", "desk", "library", "original", "seeded_library"]


@pytest.fixture(scope="session", autouse=True)
def _workers_may_take_long_to_start_and_passwords_little_to_hash() -> Iterator[None]:
    from exactformer.studio.playground import workers

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "START_SECONDS", PATIENCE)
        hash_at_little_cost(patch.setattr)
        yield


@pytest.fixture(scope="session")
def template_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the schema and the four works."""
    from exactformer.studio.app import create_app

    path = tmp_path_factory.mktemp("template") / "studio.db"
    app = create_app(settings_of(database=f"sqlite:///{path}"))
    app.state.database.engine.dispose()
    return path


@pytest.fixture
def settings(template_database: Path, tmp_path: Path) -> Any:
    """Settings with a database of this test's own."""
    path = tmp_path / "studio.db"
    shutil.copy(template_database, path)
    return settings_of(database=f"sqlite:///{path}")


@pytest.fixture(scope="session")
def routes() -> list[Any]:
    """The routes of the first app, which all share: FastAPI reads every signature anew for each."""
    return []


@pytest.fixture
def app(settings: Any, routes: list[Any]) -> Iterator[Any]:
    """The studio."""
    from exactformer.studio.app import create_app

    app = create_app(settings)
    routes.extend([] if routes else app.router.routes)
    app.router.routes[:] = routes
    yield app
    app.state.database.engine.dispose()


@pytest.fixture
def client(app: Any) -> Iterator[Any]:
    """A visitor's browser, more or less; redirects are not followed."""
    from starlette.testclient import TestClient

    with TestClient(app, follow_redirects=False) as client:
        yield client


@pytest.fixture
def people(app: Any, client: Any) -> Iterator[People]:
    """Visitor, reader, another reader, curator and admin."""
    from starlette.testclient import TestClient

    def new_client() -> Any:
        other = TestClient(app, follow_redirects=False)
        other.portal = client.portal
        return other

    people = People(new_client, app.state.database, app.state.settings)
    yield people
    people.close()


@pytest.fixture(scope="session")
def playground() -> Iterator[Any]:
    """A playground for several studios: its worker takes seconds to start."""
    from exactformer.studio.playground.workers import Limits, Pool

    pool = Pool(Limits.of(settings_of(database="")))
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def live_server(
    template_database: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server in a process of its own, shared by the tests of a worker."""
    directory = tmp_path_factory.mktemp("live")
    shutil.copy(template_database, directory / "studio.db")
    server = Server(f"sqlite:///{directory / 'studio.db'}", directory / "log").start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def live_people(live_server: Server) -> Iterator[People]:
    """People of the shared server; who changes things for others asks for `live_people.new()`."""
    with live_server.people() as people:
        yield people


@pytest.fixture(scope="session")
def live_world(live_people: People) -> World:
    """Opinions, collections, reports and an import on the shared server."""
    return build(live_people)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's Chromium, started once for each worker."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=1000 * PATIENCE)
    program = browser_program()
    if program is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"], timeout=1000 * PATIENCE
        )
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Any, live_server: Server) -> Iterator[Visit]:
    """Opens pages of the shared server as somebody, and fails if any of them complained."""
    visit = Visit(browser, live_server.url)
    yield visit
    visit.close()


@pytest.fixture
def page(visit: Visit) -> Any:
    """A visitor's page."""
    return visit.page()


@pytest.fixture
def reader_page(visit: Visit, live_people: People) -> Any:
    """A page of a reader who is nobody else's."""
    return visit.page(live_people.new())


@dataclass
class Cluster:
    """The PostgreSQL server that the environment names, as `pg_virtualenv` does."""

    databases: int = 0

    def new_database(self) -> str:
        """A fresh database, named and addressed."""
        import psycopg

        self.databases += 1
        name = f"studio_{os.getpid()}_{self.databases}"
        with psycopg.connect("dbname=postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return f"postgresql+psycopg:///{name}"


@pytest.fixture(scope="session")
def postgres() -> Cluster:
    """A PostgreSQL server."""
    if "PGHOST" not in os.environ:
        pytest.fail("no server is named: run these tests under pg_virtualenv, as `make check` does")
    return Cluster()


EITHER = ("sqlite", pytest.param("postgresql", marks=pytest.mark.postgres))
"""Both kinds of databases."""


@pytest.fixture(params=EITHER)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.db'}"
    cluster: Cluster = request.getfixturevalue("postgres")
    return cluster.new_database()
