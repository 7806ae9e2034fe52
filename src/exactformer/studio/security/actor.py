"""Who asks: a visitor, or an account with a role. Services decide by it what is allowed."""

from __future__ import annotations

from dataclasses import dataclass, field

from exactformer.studio.errors import ForbiddenError, LoginNeededError

RANKS = ("visitor", "reader", "curator", "admin")

HANDLE = r"[a-z0-9](?:[a-z0-9_-]{0,38}[a-z0-9])?"
"""The grammar of handles, in lower case: for accounts and for texts that mention them."""


@dataclass(frozen=True)
class Actor:
    """Somebody who asks for something. Each role may do all that the ones before it may.

    ``unread`` counts her notices; ``reports`` and ``proposals`` count what waits for curators.
    """

    id: int | None
    handle: str
    name: str
    role: str
    unread: int = field(default=0, compare=False)
    reports: int = field(default=0, compare=False)
    proposals: int = field(default=0, compare=False)

    @property
    def waiting(self) -> int:
        """How much waits for her attention."""
        return self.unread + self.reports + self.proposals

    @property
    def is_visitor(self) -> bool:
        """Whether nobody is logged in."""
        return self.role == "visitor"

    def at_least(self, role: str) -> bool:
        """Whether the actor has this role or a higher one."""
        return RANKS.index(self.role) >= RANKS.index(role)

    def require(self, role: str) -> int:
        """Return the account's id, or refuse whoever has not this role."""
        if self.id is None:
            raise LoginNeededError("this needs an account: log in or register")
        if not self.at_least(role):
            raise ForbiddenError(
                f"this needs the role {role}; the account has the role {self.role}"
            )
        return self.id


VISITOR = Actor(None, "", "Visitor", "visitor")
