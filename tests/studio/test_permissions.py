"""Who may do what: every route, asked by everybody, answers as the table in permissions.py says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.studio.support.forgetting import Forgetting
from tests.studio.support.people import People, Person
from tests.studio.support.permissions import ROLES, Request, request_of, rows
from tests.studio.support.worlds import World, build


def routes() -> list[tuple[str, str]]:
    """Method and path of every route of the studio."""
    from exactformer.studio.app import ROUTERS

    return [
        (method, route.path)
        for router in ROUTERS
        for route in router.routes
        for method in sorted(route.methods - {"HEAD"})
    ]


@pytest.fixture(scope="module")
def world(
    template_database: Any, playground: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Any, World, dict[str, Person]]]:
    """A studio in which everything exists once and nothing stays changed, and its people."""
    import shutil

    from starlette.testclient import TestClient

    from exactformer.studio.app import create_app
    from tests.studio.support.servers import settings_of

    path = tmp_path_factory.mktemp("permissions") / "studio.db"
    shutil.copy(template_database, path)
    app = create_app(settings_of(database=f"sqlite:///{path}"))
    own, app.state.playground = app.state.playground, playground
    with TestClient(app, follow_redirects=False) as client:

        def new_client() -> Any:
            other = TestClient(app, follow_redirects=False)
            other.portal = client.portal
            return other

        people = People(new_client, app.state.database, app.state.settings)
        world = build(people)
        persons = {
            "visitor": people.visitor.take_session(),
            "reader": people.new("reader"),
            "owner": world.owner,
            "curator": people.new("curator"),
            "admin": people.new("admin"),
        }
        database, app.state.database = app.state.database, Forgetting(app.state.database)
        yield app, world, persons
        app.state.database.close()
        app.state.database = database
        app.state.playground = own  # a studio that ends closes its playground
        people.close()


def ask(person: Person, request: Request, headers: dict[str, str] | None = None) -> int:
    """Send a request as somebody; the status of the answer."""
    person.client.app.state.database.forget()
    with person.unchanged():
        answer = person.client.request(
            request.method, request.path, headers=headers, **request.content
        )
    return int(answer.status_code)


def test_every_route_is_in_the_table() -> None:
    assert set(routes()) == {(row.method, row.path) for row in rows()}


def test_no_route_is_there_twice() -> None:
    assert len(routes()) == len(set(routes()))


@pytest.mark.parametrize("row", rows(), ids=str)
def test_everybody_is_answered_as_the_table_says(world: Any, row: Any) -> None:
    _, things, persons = world
    request = request_of(row, things)
    answers = {role: ask(persons[role], request) for role in ROLES}
    assert answers == dict(zip(ROLES, row.statuses, strict=True))


@pytest.mark.parametrize("row", [row for row in rows() if row.method != "GET"], ids=str)
def test_a_change_without_a_token_is_refused(world: Any, row: Any) -> None:
    _, things, persons = world
    request = request_of(row, things)
    for role in ROLES:
        assert ask(persons[role], request, {"X-CSRF-Token": ""}) == 403, role
        assert ask(persons[role], request, {"X-CSRF-Token": "guessed"}) == 403, role


def test_a_change_without_a_session_is_refused(world: Any) -> None:
    from starlette.testclient import TestClient

    app, things, persons = world
    client = TestClient(app, follow_redirects=False)
    client.portal = persons["admin"].client.portal
    nobody = Person("visitor", client)
    for row in rows():
        if row.method != "GET":
            token = {"X-CSRF-Token": persons["admin"].csrf}
            assert ask(nobody, request_of(row, things), token) == 403, row
