"""Accounts: the first becomes admin, one admin always remains, and roles are for admins to give."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from exactformer.studio.accounts import service as accounts
from exactformer.studio.accounts.tables import User
from exactformer.studio.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    LoginNeededError,
    NotFoundError,
)
from exactformer.studio.security.actor import VISITOR, Actor
from exactformer.studio.security.passwords import NO_PASSWORD
from exactformer.studio.security.sessions import actor_of
from exactformer.studio.storage import migrations
from exactformer.studio.storage.audit import AuditEntry
from exactformer.studio.storage.engine import Database

HASH = "$argon2id$…"


@pytest.fixture
def db(tmp_path: Path) -> Session:
    database = Database(f"sqlite:///{tmp_path / 'studio.db'}")
    migrations.upgrade(database)
    with database.writing() as db:
        yield db
    database.close()


def register(db: Session, handle: str) -> tuple[User, Actor]:
    user = accounts.register(db, handle, "", HASH)
    return user, actor_of(user)


def test_the_first_account_becomes_admin_and_the_next_readers(db: Session) -> None:
    assert [register(db, handle)[0].role for handle in ("ada", "grace", "emmy")] == [
        "admin",
        "reader",
        "reader",
    ]


def test_an_installation_whose_desk_has_no_password_is_not_administered(db: Session) -> None:
    accounts.set_up_desk(db)
    assert not accounts.is_administered(db)
    assert register(db, "ada")[0].role == "admin"


def test_handles_are_one_whatever_their_case(db: Session) -> None:
    user, _ = register(db, " Ada ")
    assert (user.handle, user.name) == ("ada", "ada")
    with pytest.raises(ConflictError, match="taken"):
        register(db, "ADA")
    assert accounts.by_handle(db, "aDa") is user


@pytest.mark.parametrize(
    "handle", ["", " ", "a b", "-a", "a-", "_", "ä", "а", "a" * 41, "a\n", "a\0", "../a", "@ada"]
)
def test_handles_are_plain(db: Session, handle: str) -> None:
    if handle == "a\n":
        assert accounts.checked_handle(handle) == "a"
        return
    with pytest.raises(InvalidError, match="a handle has"):
        register(db, handle)


def test_the_desks_handle_is_kept_for_it(db: Session) -> None:
    with pytest.raises(ConflictError, match="single-user"):
        register(db, "Desk")


def test_a_desk_is_set_up_once_and_cannot_log_in(db: Session) -> None:
    accounts.set_up_desk(db)
    accounts.set_up_desk(db)
    (desk,) = db.scalars(select(User))
    assert (desk.role, desk.password_hash) == ("admin", NO_PASSWORD)


@pytest.mark.parametrize("name", ["", "  ", "x" * 121, "a\x07b", "a\u202eb"])
def test_names_are_printable_and_short(db: Session, name: str) -> None:
    _, ada = register(db, "ada")
    with pytest.raises(InvalidError, match="1 to 120"):
        accounts.rename(db, ada, name)


def test_a_name_may_be_of_any_script_and_is_kept_on_one_line(db: Session) -> None:
    _, ada = register(db, "ada")
    assert accounts.rename(db, ada, " 方\n聪 ").name == "方 聪"


def test_the_last_admin_stays_admin(db: Session) -> None:
    user, ada = register(db, "ada")
    for role in ("reader", "curator"):
        with pytest.raises(ConflictError, match="the last admin"):
            accounts.set_role(db, ada, user.id, role)
    with pytest.raises(ConflictError, match="the last admin"):
        accounts.set_disabled(db, ada, user.id, True)
    assert (user.role, user.disabled) == ("admin", False)


def test_with_a_second_admin_the_first_may_go(db: Session) -> None:
    user, ada = register(db, "ada")
    other, _ = register(db, "grace")
    accounts.set_role(db, ada, other.id, "admin")
    accounts.set_role(db, ada, user.id, "reader")
    with pytest.raises(ConflictError, match="the last admin"):
        accounts.set_disabled(db, actor_of(other), other.id, True)


def test_a_disabled_admin_does_not_count_as_one_who_remains(db: Session) -> None:
    user, ada = register(db, "ada")
    other, _ = register(db, "grace")
    accounts.set_role(db, ada, other.id, "admin")
    accounts.set_disabled(db, ada, other.id, True)
    with pytest.raises(ConflictError, match="the last admin"):
        accounts.set_role(db, ada, user.id, "reader")


@pytest.mark.parametrize("role", ["visitor", "owner", "", "ADMIN"])
def test_there_are_three_roles(db: Session, role: str) -> None:
    user, ada = register(db, "ada")
    with pytest.raises(InvalidError, match="reader, curator, admin"):
        accounts.set_role(db, ada, user.id, role)


def test_only_admins_administer(db: Session) -> None:
    user, _ = register(db, "ada")
    _, grace = register(db, "grace")
    curator = Actor(grace.id, "grace", "Grace", "curator")
    for actor, refusal in [
        (VISITOR, LoginNeededError),
        (grace, ForbiddenError),
        (curator, ForbiddenError),
    ]:
        with pytest.raises(refusal):
            accounts.listed(db, actor)
        with pytest.raises(refusal):
            accounts.set_role(db, actor, user.id, "reader")
        with pytest.raises(refusal):
            accounts.set_disabled(db, actor, user.id, True)
        with pytest.raises(refusal):
            accounts.reset_password(db, actor, user.id, HASH)


def test_the_desk_and_accounts_that_are_not_there_cannot_be_administered(db: Session) -> None:
    _, ada = register(db, "ada")
    accounts.set_up_desk(db)
    db.flush()
    desk = accounts.desk(db)
    assert desk is not None
    with pytest.raises(ForbiddenError, match="stays as it is"):
        accounts.reset_password(db, ada, desk.id, HASH)
    with pytest.raises(NotFoundError):
        accounts.set_role(db, ada, 99, "reader")


def test_accounts_are_found_by_handle_or_name_with_signs_meant_literally(db: Session) -> None:
    _, ada = register(db, "ada")
    accounts.rename(db, ada, "Ada 100%")
    register(db, "grace_h")
    register(db, "emmy")
    find = {
        q: [user.handle for user in accounts.listed(db, ada, q=q).items] for q in ("%", "_", "A")
    }
    assert find == {"%": ["ada"], "_": ["grace_h"], "A": ["ada", "grace_h"]}
    found = accounts.listed(db, ada, limit=1, offset=1)
    assert ([user.handle for user in found.items], found.total) == (["emmy"], 3)


def test_every_change_is_in_the_audit_log_without_passwords(db: Session) -> None:
    _, ada = register(db, "ada")
    other, _ = register(db, "grace")
    accounts.rename(db, ada, "Ada Lovelace")
    accounts.change_password(db, ada, HASH, keep="")
    accounts.set_role(db, ada, other.id, "curator")
    accounts.set_disabled(db, ada, other.id, True)
    accounts.set_disabled(db, ada, other.id, False)
    accounts.reset_password(db, ada, other.id, HASH)
    db.flush()
    entries = list(db.scalars(select(AuditEntry).order_by(AuditEntry.id)))
    assert [(entry.action, entry.subject_id) for entry in entries] == [
        ("account.register", ada.id),
        ("account.register", other.id),
        ("account.rename", ada.id),
        ("account.password", ada.id),
        ("account.role", other.id),
        ("account.disable", other.id),
        ("account.enable", other.id),
        ("account.reset", other.id),
    ]
    assert entries[4].detail == {"from": "reader", "to": "curator"}
    assert "argon2" not in repr([entry.detail for entry in entries])
