"""Accounts: making one, proving who one is, and changing it.

Passwords arrive here as hashes: hashing takes long and is done before a transaction begins.
"""

from __future__ import annotations

import re

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from exactformer.studio.accounts.tables import ROLES, User
from exactformer.studio.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from exactformer.studio.security import sessions
from exactformer.studio.security.actor import HANDLE, VISITOR, Actor
from exactformer.studio.security.passwords import NO_PASSWORD
from exactformer.studio.security.sessions import DESK, desk
from exactformer.studio.storage import audit
from exactformer.studio.storage.slices import Slice, cut

NAME_LENGTH = 120


def register(db: Session, handle: str, name: str, password_hash: str) -> User:
    """Make an account; whoever comes first to an installation without an admin becomes one."""
    handle = checked_handle(handle)
    if by_handle(db, handle) is not None:
        raise ConflictError(f"the handle {handle!r} is taken; choose another")
    user = User(
        handle=handle,
        name=checked_name(name or handle),
        password_hash=password_hash,
        role="reader" if is_administered(db) else "admin",
        disabled=False,
    )
    db.add(user)
    db.flush()
    audit.record(db, sessions.actor_of(user), "account.register", "user", user.id)
    return user


def is_administered(db: Session) -> bool:
    """Whether some admin can log in."""
    return _admins(db) > 0


def get(db: Session, user_id: int) -> User:
    """The account with this number."""
    user = db.get(User, user_id)
    if user is None:
        raise NotFoundError(f"there is no account with the number {user_id}")
    return user


def by_handle(db: Session, handle: str) -> User | None:
    """The account with this handle, in whatever case it is written."""
    return db.scalar(select(User).where(User.handle == handle.strip().lower()))


def set_up_desk(db: Session) -> None:
    """Make the account of a desk of one."""
    user = desk(db)
    if user is None:
        db.add(User(handle=DESK, name="You", password_hash=NO_PASSWORD, role="admin"))
        audit.record(db, VISITOR, "account.desk", "user", None)
    elif user.password_hash != NO_PASSWORD:
        raise ConflictError(
            f"somebody has registered as {DESK!r} in this database, so it cannot be a desk of one; "
            "name another database"
        )


def rename(db: Session, actor: Actor, name: str) -> User:
    """Change what others see."""
    user = _own(db, actor)
    old, user.name = user.name, checked_name(name)
    audit.record(db, actor, "account.rename", "user", user.id, {"from": old, "to": user.name})
    return user


def change_password(db: Session, actor: Actor, password_hash: str, keep: str) -> User:
    """Set a new password and end all other sessions of the account."""
    user = _own(db, actor)
    user.password_hash = password_hash
    sessions.end_all(db, user.id, but=keep)
    audit.record(db, actor, "account.password", "user", user.id)
    return user


def end_session(db: Session, actor: Actor, prefix: str) -> None:
    """End one of one's own sessions, named by the beginning of its hash."""
    user_id = actor.require("reader")
    for session in sessions.of_account(db, user_id):
        if session.token_hash.startswith(prefix) and len(prefix) >= 16:
            sessions.end(db, session.token_hash)
            audit.record(db, actor, "session.end", "user", user_id)
            return
    raise NotFoundError("there is no such session; it may have ended already")


def listed(db: Session, actor: Actor, q: str = "", limit: int = 50, offset: int = 0) -> Slice[User]:
    """Accounts by handle; for admins."""
    actor.require("admin")
    chosen = select(User)
    if q:
        chosen = chosen.where(
            User.handle.contains(q.lower(), autoescape=True)
            | User.name.icontains(q, autoescape=True)
        )
    return cut(db, chosen.order_by(User.handle), limit, offset)


def administered(db: Session, actor: Actor, user_id: int) -> User:
    """An account that the actor, an admin, may change."""
    actor.require("admin")
    user = get(db, user_id)
    if user.handle == DESK:
        raise ForbiddenError("the account of --single-user stays as it is")
    return user


def set_role(db: Session, actor: Actor, user_id: int, role: str) -> User:
    """Give an account a role; one admin always remains."""
    user = administered(db, actor, user_id)
    if role not in ROLES:
        raise InvalidError(f"{role!r} is not a role; choose {', '.join(ROLES)}")
    if role != "admin":
        _keep_an_admin(db, user)
    old, user.role = user.role, role
    audit.record(db, actor, "account.role", "user", user.id, {"from": old, "to": role})
    return user


def set_disabled(db: Session, actor: Actor, user_id: int, disabled: bool) -> User:
    """Shut an account out, or let it in again; its sessions end."""
    user = administered(db, actor, user_id)
    if disabled:
        _keep_an_admin(db, user)
        sessions.end_all(db, user.id)
    user.disabled = disabled
    audit.record(db, actor, "account.disable" if disabled else "account.enable", "user", user.id)
    return user


def reset_password(db: Session, actor: Actor, user_id: int, password_hash: str) -> User:
    """Set a password for somebody who forgot hers; her sessions end."""
    user = administered(db, actor, user_id)
    user.password_hash = password_hash
    sessions.end_all(db, user.id)
    audit.record(db, actor, "account.reset", "user", user.id)
    return user


def checked_handle(handle: str) -> str:
    """A handle in lower case, or a refusal."""
    handle = handle.strip().lower()
    if not re.fullmatch(HANDLE, handle):
        raise InvalidError(
            "a handle has 1 to 40 letters a-z, digits, - and _, and begins and ends with a letter "
            "or a digit"
        )
    if handle == DESK:
        raise ConflictError(f"the handle {DESK!r} is kept for --single-user; choose another")
    return handle


def checked_name(name: str) -> str:
    """A name on one line, or a refusal."""
    name = " ".join(name.split())
    if not 1 <= len(name) <= NAME_LENGTH or not name.isprintable():
        raise InvalidError(f"a name has 1 to {NAME_LENGTH} characters that can be printed")
    return name


def _own(db: Session, actor: Actor) -> User:
    return get(db, actor.require("reader"))


def _admins(db: Session, but: int | None = None) -> int:
    able = select(func.count(User.id)).where(
        User.role == "admin",
        User.disabled.is_(False),
        User.password_hash != NO_PASSWORD,
        User.id != (but or 0),
    )
    return db.scalar(able) or 0


def _keep_an_admin(db: Session, user: User) -> None:
    if user.role == "admin" and not user.disabled and not _admins(db, but=user.id):
        raise ConflictError(
            f"{user.handle} is the last admin; make somebody else one before this changes"
        )
