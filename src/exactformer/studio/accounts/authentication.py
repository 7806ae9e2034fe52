"""Registering, logging in and logging out, for pages and programs alike.

Each ends in a new session with new tokens. Hashing happens outside of transactions.
"""

from __future__ import annotations

from sqlalchemy.orm import Session
from starlette.requests import Request

from exactformer.studio import web
from exactformer.studio.accounts import service as accounts
from exactformer.studio.accounts.tables import User
from exactformer.studio.errors import ForbiddenError, InvalidError
from exactformer.studio.security import passwords, sessions
from exactformer.studio.security.rates import address, limit
from exactformer.studio.storage import audit

WRONG = "the handle or the password is wrong"


def register(request: Request, handle: str, name: str, password: str) -> None:
    """Make an account and log it in."""
    _refuse_at_a_desk(request)
    limit(request, "registering", web.settings_of(request).register_rate, address(request))
    accounts.checked_handle(handle)
    password_hash = passwords.hash_password(password)
    with web.writing(request) as db:
        _enter(request, db, accounts.register(db, handle, name, password_hash))


def log_in(request: Request, handle: str, password: str) -> None:
    """Prove who one is; the refusal does not tell whether the handle exists."""
    _refuse_at_a_desk(request)
    settings = web.settings_of(request)
    known_as, place = handle.strip().lower(), address(request)
    limit(request, "log-in", settings.login_address_rate, f"address {place}")
    # Wrong passwords from elsewhere must not lock the owner out, nor may many addresses guess on.
    limit(request, "log-in", settings.login_rate, f"handle {known_as} from {place}")
    limit(request, "log-in", settings.login_handle_rate, f"handle {known_as}")
    with web.database_of(request).session() as db:
        known = accounts.by_handle(db, handle)
        stored = None if known is None or known.disabled else known.password_hash
    if not passwords.verify(stored, password) or known is None or stored is None:
        raise InvalidError(WRONG)
    renewed = passwords.hash_password(password) if passwords.is_outdated(stored) else stored
    with web.writing(request) as db:
        user = db.get(User, known.id)
        if user is None or user.disabled or user.password_hash != stored:
            raise InvalidError(WRONG)
        user.password_hash = renewed
        _enter(request, db, user)
        audit.record(db, sessions.actor_of(user), "session.begin", "user", user.id)


def log_out(request: Request) -> None:
    """End the session; the browser gets a new one that belongs to nobody."""
    _refuse_at_a_desk(request)
    with web.writing(request) as db:
        _enter(request, db, None)


def change_password(request: Request, present: str, password: str) -> None:
    """Change the password; a borrowed browser that does not know the present one cannot."""
    actor, browser = request.state.actor, request.state.browser
    user_id = actor.require("reader")
    _refuse_at_a_desk(request)
    limit(request, "log-in", web.settings_of(request).login_rate, f"password of {actor.handle}")
    with web.database_of(request).session() as db:
        stored = accounts.get(db, user_id).password_hash
    if not passwords.verify(stored, present):
        raise InvalidError("the present password is another one")
    password_hash = passwords.hash_password(password)
    with web.writing(request) as db:
        accounts.change_password(db, actor, password_hash, keep=browser.token_hash)


def _enter(request: Request, db: Session, user: User | None) -> None:
    browser = sessions.begin(
        db, web.settings_of(request), user, web.agent(request), replacing=request.state.browser
    )
    request.state.browser, request.state.actor = browser, browser.actor


def _refuse_at_a_desk(request: Request) -> None:
    if web.settings_of(request).single_user:
        raise ForbiddenError("this studio runs with --single-user: everybody here is logged in")
