"""All tables in one place: importing this module completes the metadata."""

from __future__ import annotations

from exactformer.studio.accounts.tables import LoginSession, User
from exactformer.studio.library.tables import (
    Affiliation,
    Authorship,
    Citation,
    Claim,
    Institution,
    Paper,
    PaperTopic,
    Person,
    Topic,
)
from exactformer.studio.opinions.tables import (
    Collection,
    CollectionItem,
    Comment,
    CommentMention,
    CommentVersion,
    Reaction,
    Review,
    ReviewVersion,
    Save,
    Vote,
)
from exactformer.studio.storage.base import Base
from exactformer.studio.storage.housekeeping import AuditEntry, Flag, PendingImport

__all__ = [
    "Affiliation",
    "AuditEntry",
    "Authorship",
    "Base",
    "Citation",
    "Claim",
    "Collection",
    "CollectionItem",
    "Comment",
    "CommentMention",
    "CommentVersion",
    "Flag",
    "Institution",
    "LoginSession",
    "Paper",
    "PaperTopic",
    "PendingImport",
    "Person",
    "Reaction",
    "Review",
    "ReviewVersion",
    "Save",
    "Topic",
    "User",
    "Vote",
]
