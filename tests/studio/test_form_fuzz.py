"""Forms filled in with made-up values, by everybody who is shown them.

Nothing makes the studio fail, who is refused is told why, and what is refused leaves no trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, Phase, given, seed
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import text

from tests.studio.support.forgetting import Forgetting
from tests.studio.support.forms import TOKEN, Fields, Forms, problem
from tests.studio.support.payloads import PAYLOADS
from tests.studio.support.people import People, Person
from tests.studio.support.places import PLACES
from tests.studio.support.worlds import build

QUICK, LONG = 5, 60
SLOW = "/runs"
"""The end of the address of the one form, without a field, that starts minutes of work."""

LENGTHY = "stands for more than any field may hold"
ODD = ["", " ", "0", "-1", "1", "2", "true", "nan", "1e999", "9" * 30, "\0", "\u202e", LENGTHY]
values = st.sampled_from(ODD) | st.text(st.characters(codec="utf-8"), max_size=60)
values |= st.sampled_from(PAYLOADS)
sent = st.lists(values, max_size=2)
Shown = tuple[str, str, str, Fields]


@pytest.fixture
def forms(
    app: Any, people: People, playground: Any
) -> Iterator[tuple[list[Shown], dict[str, Person]]]:
    """Who is shown which form (its method, address and fields), in a world that forgets."""
    world = build(people)
    named = ("visitor", "reader", "owner", "curator", "admin")
    persons = {who: world.person(who) or people.visitor.take_session() for who in named}
    own, app.state.playground = app.state.playground, playground
    database, app.state.database = app.state.database, Forgetting(app.state.database)
    found: dict[tuple[str, str, frozenset[str]], Shown] = {}
    for place in PLACES:
        address = place.address(world)
        for who, person in persons.items():
            page = Forms(person.client.get(address).text)
            path = address.partition("?")[0]
            known = [("POST", *form) for form in page.found] + [
                ("GET", *form) for form in page.asking
            ]
            for method, action, fields in known:
                for name, standing in fields.items():  # what is empty may be needed
                    fields[name] = ["Some words"] if standing == [""] else standing
                if not action.endswith(SLOW):
                    kind = who, re.sub(r"\d+", "1", action), frozenset(fields)
                    found.setdefault(kind, (who, method, action or path, fields))
    yield list(found.values()), persons
    app.state.database.close()
    app.state.database, app.state.playground = database, own


def stored(app: Any) -> list[list[Any]]:
    """Every row of every table but of sessions."""
    from exactformer.studio.storage.tables import Base

    names = sorted(set(Base.metadata.tables) - {"sessions"})
    with app.state.database.connection() as connection:
        return [connection.execute(text(f"SELECT * FROM {name}")).all() for name in names]


def fill_in(app: Any, person: Person, form: Shown, made_up: dict[str, list[str]]) -> None:
    """Send a form with some fields replaced, and see that all is well whatever is answered."""
    _, method, action, fields = form
    app.state.database.forget()
    before = stored(app)
    long = "x" * (25_000 if method == "POST" else 5_000)  # an address holds less
    filled = {
        name: [long if value == LENGTHY else value for value in made]
        for name, made in made_up.items()
    }
    sent = {"data" if method == "POST" else "params": fields | filled}
    with person.unchanged():
        answer = person.client.request(method, action, headers={"X-CSRF-Token": ""}, **sent)
    assert answer.status_code < 500, (form, made_up, answer.text)
    if answer.status_code >= 400:
        assert problem(answer), (form, made_up, answer.text)
        assert stored(app) == before, (form, made_up)


def try_everything(app: Any, person: Person, form: Shown, examples: int) -> None:
    """Fill in a form so many times."""
    names = sorted(form[3].keys() - {TOKEN}) or [TOKEN]

    @seed(crc32(repr(form[:3]).encode()))
    @hypothesis_settings(
        max_examples=examples,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.dictionaries(
            st.sampled_from(names), st.lists(values, max_size=2), min_size=1, max_size=2
        )
    )
    def send(made_up: dict[str, list[str]]) -> None:
        fill_in(app, person, form, made_up)

    send()


@pytest.mark.parametrize(
    "examples", [QUICK, pytest.param(LONG, marks=pytest.mark.slow)], ids=["quick", "long"]
)
def test_nothing_made_up_makes_a_form_fail(app: Any, forms: Any, examples: int) -> None:
    shown, persons = forms
    assert len(shown) > 60
    for form in shown:
        try_everything(app, persons[form[0]], form, examples)
