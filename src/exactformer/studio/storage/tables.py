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
    PendingImport,
    Person,
    Topic,
)
from exactformer.studio.notices.tables import Follow, Notice
from exactformer.studio.opinions.tables import (
    Collection,
    CollectionItem,
    Comment,
    CommentMention,
    CommentVersion,
    Flag,
    Reaction,
    Review,
    ReviewVersion,
    Save,
    Vote,
)
from exactformer.studio.proposals.tables import Proposal
from exactformer.studio.storage.audit import AuditEntry
from exactformer.studio.storage.base import Base
from exactformer.studio.storage.processes import RateBucket, StoredRun
from exactformer.studio.storage.versions import Version

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
    "Follow",
    "Institution",
    "LoginSession",
    "Notice",
    "Paper",
    "PaperTopic",
    "PendingImport",
    "Person",
    "Proposal",
    "RateBucket",
    "Reaction",
    "Review",
    "ReviewVersion",
    "Save",
    "StoredRun",
    "Topic",
    "User",
    "Version",
    "Vote",
]
