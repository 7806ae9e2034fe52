"""Requests made up from the API's own description, as a visitor and as an admin: never a 500."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings

from tests.studio.support.forgetting import Forgetting, NothingShared
from tests.studio.support.people import People, Person

QUICK, LONG = 2, 60


@pytest.fixture
def described(app: Any, client: Any, people: People) -> Iterator[tuple[Any, dict[str, Person]]]:
    """The API's description and people to use it, in a world that forgets."""
    import schemathesis

    persons = {"visitor": people.visitor.take_session(), "admin": people.admin}
    app.state.database = Forgetting(app.state.database)
    app.state.shared_pages = NothingShared()
    answer = client.get("/api/v1/openapi.json")
    assert answer.status_code == 200
    yield schemathesis.openapi.from_dict(answer.json()), persons
    app.state.database.close()


def try_everything(schema: Any, persons: dict[str, Person], examples: int) -> int:
    """Ask every operation some made-up things as everybody; how many operations there are."""
    count = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        count += 1

        @hypothesis_settings(
            max_examples=examples,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            sent = case.as_transport_kwargs(base_url="http://testserver")
            sent.pop("cookies", None)
            headers = {
                name: value
                for name, value in (sent.pop("headers", None) or {}).items()
                if value.isascii() and value.isprintable()
            }
            sent = {key: value for key, value in sent.items() if value is not None}
            if isinstance(sent.get("data"), bytes | str):
                sent["content"] = sent.pop("data")
            for role, person in persons.items():
                person.client.app.state.database.forget()
                with person.unchanged():
                    answer = person.client.request(headers=headers, **sent)
                assert answer.status_code < 500, (role, case.as_curl_command(), answer.text)
                if answer.status_code >= 400:
                    assert answer.json()["error"]["status"] == answer.status_code, answer.text

        ask()
    return count


@pytest.mark.parametrize(
    "examples", [QUICK, pytest.param(LONG, marks=pytest.mark.slow)], ids=["quick", "long"]
)
def test_nothing_made_up_makes_the_api_fail(
    described: tuple[Any, dict[str, Person]], examples: int
) -> None:
    schema, persons = described
    assert try_everything(schema, persons, examples) > 0
