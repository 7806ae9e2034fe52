"""Sessions kept by the server: the cookie holds a random token, the table its hash.

A session has a second random token against request forgery. Logging in or out always makes a new
session and forgets the old one, so a token planted before log-in is worth nothing after it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, ScalarSelect, bindparam, case, delete, func, select
from sqlalchemy.orm import Session
from starlette.responses import Response

from exactformer.studio.accounts.tables import LoginSession, User
from exactformer.studio.notices.tables import Notice
from exactformer.studio.opinions.tables import Flag
from exactformer.studio.proposals.tables import Proposal
from exactformer.studio.security.actor import VISITOR, Actor
from exactformer.studio.settings import Settings
from exactformer.studio.storage.base import now

BYTES = 32
DESK = "desk"
"""The handle of the account of ``--single-user``."""


def _count(model: type[Notice | Flag | Proposal], *conditions: Any) -> ScalarSelect[int]:
    count = select(func.count()).select_from(model).where(*conditions)
    return count.correlate(User).scalar_subquery()


_NEW = _count(Notice, Notice.user_id == User.id, Notice.read_at.is_(None))
_WAITING = [
    case((User.role.in_(("curator", "admin")), _count(model, model.state == "open")), else_=0)
    for model in (Flag, Proposal)
]
_FIND = (
    select(LoginSession.csrf_token, User.disabled)
    .add_columns(User.id, User.handle, User.name, User.role, _NEW, *_WAITING)
    .outerjoin(User, User.id == LoginSession.user_id)
    .where(
        LoginSession.token_hash == bindparam("token"), LoginSession.expires_at > bindparam("now")
    )
)


@dataclass(frozen=True)
class Browser:
    """A browser that we have met: who uses it, and the token its forms must carry."""

    token_hash: str
    csrf_token: str
    actor: Actor


@dataclass(frozen=True)
class NewBrowser(Browser):
    """A session just made; only now is its token known, to be sent as a cookie."""

    token: str
    seconds: float


def cookie_name(settings: Settings) -> str:
    """``__Host-`` makes browsers insist on Secure, this host and the whole site."""
    return "__Host-exactformer_session" if settings.secure_cookies else "exactformer_session"


def desk(db: Session) -> User | None:
    """The account of ``--single-user``, if there is one."""
    return db.scalar(select(User).where(User.handle == DESK))


def actor_of(user: User | None) -> Actor:
    """The actor an account is."""
    return VISITOR if user is None else Actor(user.id, user.handle, user.name, user.role)


def find(connection: Connection, token: str) -> Browser | None:
    """The session of a cookie, if it is known, not over, and its account not disabled."""
    hashed = _hashed(token)
    row = connection.execute(_FIND, {"token": hashed, "now": now()}).one_or_none()
    if row is None:
        return None
    csrf_token, disabled, *account = row
    if disabled:
        return None
    actor = VISITOR if account[0] is None else Actor(*account)
    return Browser(hashed, csrf_token, actor)


def begin(
    db: Session, settings: Settings, user: User | None, agent: str, replacing: Browser | None = None
) -> NewBrowser:
    """Make a session with new tokens; the one it replaces ends, and so do all that are over."""
    db.execute(delete(LoginSession).where(LoginSession.expires_at <= now()))
    if replacing is not None:
        end(db, replacing.token_hash)
    token, csrf_token = secrets.token_urlsafe(BYTES), secrets.token_urlsafe(BYTES)
    seconds = settings.visit_seconds if user is None else settings.session_seconds
    session = LoginSession(
        token_hash=_hashed(token),
        user_id=None if user is None else user.id,
        csrf_token=csrf_token,
        agent="".join(c for c in agent if c.isprintable())[:200],
        expires_at=now() + timedelta(seconds=seconds),
    )
    db.add(session)
    db.flush()
    return NewBrowser(session.token_hash, csrf_token, actor_of(user), token, seconds)


def end(db: Session, token_hash: str) -> None:
    """Forget a session."""
    db.execute(delete(LoginSession).where(LoginSession.token_hash == token_hash))


def end_all(db: Session, user_id: int, but: str | None = None) -> None:
    """Forget all sessions of an account, except one."""
    db.execute(
        delete(LoginSession).where(
            LoginSession.user_id == user_id, LoginSession.token_hash != (but or "")
        )
    )


def of_account(db: Session, user_id: int) -> list[LoginSession]:
    """The sessions of an account that are not over, the newest first."""
    return list(
        db.scalars(
            select(LoginSession)
            .where(LoginSession.user_id == user_id, LoginSession.expires_at > now())
            .order_by(LoginSession.created_at.desc())
        )
    )


def send_cookie(response: Response, settings: Settings, browser: NewBrowser) -> None:
    """Give a browser its token, out of reach of scripts and of other sites' forms."""
    response.set_cookie(
        cookie_name(settings),
        browser.token,
        max_age=int(browser.seconds),
        path="/",
        secure=settings.secure_cookies,
        httponly=True,
        samesite="lax",
    )


def _hashed(token: str) -> str:
    return sha256(token.encode()).hexdigest()
