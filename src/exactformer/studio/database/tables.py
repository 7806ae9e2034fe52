"""All tables in one place: importing this module completes the metadata."""

from __future__ import annotations

from exactformer.studio.database.accounts import LoginSession, User
from exactformer.studio.database.base import Base
from exactformer.studio.database.housekeeping import AuditEntry, Flag, PendingImport
from exactformer.studio.database.library import (
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
from exactformer.studio.database.opinions import (
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
