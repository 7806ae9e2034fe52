"""People who write here, and the browsers they are logged in with."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, String
from sqlalchemy.orm import Mapped, mapped_column

from exactformer.studio.storage.base import Base, now, to

ROLES = ("reader", "curator", "admin")


class User(Base):
    """An account. ``handle`` is lower case and unique; ``name`` is what others see."""

    __tablename__ = "users"
    __table_args__ = (CheckConstraint("role IN ('reader', 'curator', 'admin')", name="role"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    handle: Mapped[str] = mapped_column(String(40), unique=True)
    name: Mapped[str] = mapped_column(String(120))
    password_hash: Mapped[str] = mapped_column(String(255))
    role: Mapped[str] = mapped_column(String(10), default="reader")
    disabled: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[datetime] = mapped_column(default=now)


class LoginSession(Base):
    """A browser's session. The cookie holds a random token, the table only its hash.

    Before log-in ``user_id`` is empty: forms of people without an account need a token against
    forgery too. Log-in makes a new row with a new token. ``agent`` is what the browser calls itself,
    so that its owner recognises it in the list of her sessions.
    """

    __tablename__ = "sessions"

    token_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    user_id: Mapped[int | None] = to("users", index=True)
    csrf_token: Mapped[str] = mapped_column(String(64))
    agent: Mapped[str] = mapped_column(String(200), default="")
    created_at: Mapped[datetime] = mapped_column(default=now)
    expires_at: Mapped[datetime] = mapped_column(index=True)
