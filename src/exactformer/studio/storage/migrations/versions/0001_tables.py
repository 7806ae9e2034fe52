"""The tables the studio begins with, and the index of full-text search.

The program fills the index, since its words are not SQL's.
"""

from __future__ import annotations

from functools import partial

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# As they were then: a later change of names or tables is a migration of its own.
tables = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)
MOMENT = sa.DateTime(timezone=True)
key = partial(sa.Column, primary_key=True)
column = partial(sa.Column, nullable=False)


def to(table: str, rule: str = "CASCADE") -> sa.ForeignKey:
    """Return a key that leads to a table; ``rule`` says what becomes of a row when it is gone there."""
    return sa.ForeignKey(f"{table}.id", ondelete=rule)


sa.Table(
    "institutions",
    tables,
    key("id", sa.Integer),
    column("name", sa.String(300)),
    column("normalised_name", sa.String(300), unique=True),
)
sa.Table(
    "papers",
    tables,
    key("id", sa.Integer),
    column("slug", sa.String(120), unique=True),
    column("title", sa.String(500)),
    column("normalised_title", sa.String(500), index=True),
    column("abstract", sa.Text),
    column("year", sa.Integer, index=True, nullable=True),
    column("kind", sa.String(20)),
    column("source", sa.String(200)),
    column("open_access", sa.Boolean, nullable=True),
    column("doi", sa.String(200), unique=True, nullable=True),
    column("arxiv_id", sa.String(40), unique=True, nullable=True),
    column("url", sa.String(500)),
    column("code_url", sa.String(500)),
    column("code_note", sa.String(500)),
    column("data_url", sa.String(500)),
    column("data_note", sa.String(500)),
    column("times_cited", sa.Integer, server_default="0", index=True),
    column("created_at", MOMENT),
    column("updated_at", MOMENT),
)
sa.Table(
    "people",
    tables,
    key("id", sa.Integer),
    column("name", sa.String(200)),
    column("normalised_name", sa.String(200), index=True),
    column("orcid", sa.String(40), unique=True, nullable=True),
)
sa.Table(
    "topics",
    tables,
    key("id", sa.Integer),
    column("slug", sa.String(120), unique=True),
    column("name", sa.String(120)),
)
sa.Table(
    "users",
    tables,
    key("id", sa.Integer),
    column("handle", sa.String(40), unique=True),
    column("name", sa.String(120)),
    column("password_hash", sa.String(255)),
    column("role", sa.String(10)),
    column("disabled", sa.Boolean),
    column("created_at", MOMENT),
    sa.CheckConstraint("role IN ('reader', 'curator', 'admin')", name="role"),
)
sa.Table(
    "audit_log",
    tables,
    key("id", sa.Integer),
    column("at", MOMENT, index=True),
    column("actor_id", to("users", "SET NULL"), nullable=True),
    column("action", sa.String(40)),
    column("subject_kind", sa.String(20)),
    column("subject_id", sa.Integer, nullable=True),
    column("detail", sa.JSON),
    sa.Index(None, "subject_kind", "subject_id"),
)
sa.Table(
    "authorships",
    tables,
    key("paper_id", to("papers")),
    key("position", sa.Integer),
    column("person_id", to("people"), index=True),
)
sa.Table(
    "citations",
    tables,
    key("citing_id", to("papers")),
    key("cited_id", to("papers"), index=True),
    sa.CheckConstraint("citing_id <> cited_id", name="not_itself"),
)
sa.Table(
    "claims",
    tables,
    key("id", sa.Integer),
    column("paper_id", to("papers")),
    column("position", sa.Integer),
    column("anchor", sa.String(60)),
    column("kind", sa.String(20)),
    column("title", sa.String(300)),
    column("statement", sa.Text),
    column("ledger", sa.String(120), index=True),
    sa.UniqueConstraint("paper_id", "anchor"),
)
sa.Table(
    "collections",
    tables,
    key("id", sa.Integer),
    column("owner_id", to("users"), index=True),
    column("title", sa.String(200)),
    column("description", sa.Text),
    column("visibility", sa.String(10)),
    column("token", sa.String(64), unique=True),
    column("created_at", MOMENT),
    column("updated_at", MOMENT),
    sa.CheckConstraint("visibility IN ('private', 'link')", name="visibility"),
)
sa.Table(
    "comments",
    tables,
    key("id", sa.Integer),
    column("paper_id", to("papers")),
    column("author_id", to("users"), index=True),
    column("parent_id", to("comments"), index=True, nullable=True),
    column("kind", sa.String(20)),
    column("body", sa.Text),
    column("state", sa.String(10)),
    column("revision", sa.Integer),
    column("created_at", MOMENT),
    column("updated_at", MOMENT),
    sa.CheckConstraint("state IN ('visible', 'deleted', 'hidden')", name="state"),
    sa.Index(None, "paper_id", "created_at"),
)
sa.Table(
    "flags",
    tables,
    key("id", sa.Integer),
    column("subject_kind", sa.String(20)),
    column("subject_id", sa.Integer),
    column("reporter_id", to("users")),
    column("reason", sa.Text),
    column("state", sa.String(10), index=True),
    column("note", sa.Text),
    column("decided_by_id", to("users", "SET NULL"), nullable=True),
    column("decided_at", MOMENT, nullable=True),
    column("created_at", MOMENT),
    sa.CheckConstraint("state IN ('open', 'upheld', 'dismissed')", name="state"),
    sa.Index(None, "subject_kind", "subject_id"),
)
sa.Table(
    "follows",
    tables,
    key("paper_id", to("papers")),
    key("user_id", to("users"), index=True),
    key("anchor", sa.String(60)),
    column("created_at", MOMENT),
)
sa.Table(
    "notices",
    tables,
    key("id", sa.Integer),
    column("user_id", to("users")),
    column("kind", sa.String(10)),
    column("by_id", to("users", "SET NULL"), nullable=True),
    column("paper_id", to("papers"), nullable=True),
    column("comment_id", to("comments"), index=True, nullable=True),
    column("review_id", to("reviews"), index=True, nullable=True),
    column("word", sa.String(10)),
    column("title", sa.String(500)),
    column("created_at", MOMENT),
    column("read_at", MOMENT, nullable=True),
    sa.CheckConstraint(
        "kind IN ('answer', 'mention', 'comment', 'review', 'decision')", name="kind"
    ),
    sa.Index(None, "user_id", "read_at"),
)
sa.Table(
    "paper_topics",
    tables,
    key("paper_id", to("papers")),
    key("topic_id", to("topics"), index=True),
)
sa.Table(
    "proposals",
    tables,
    key("id", sa.Integer),
    column("proposer_id", to("users"), index=True),
    column("record", sa.JSON),
    column("state", sa.String(10), index=True),
    column("paper_id", to("papers", "SET NULL"), nullable=True),
    column("decided_by_id", to("users", "SET NULL"), nullable=True),
    column("created_at", MOMENT),
    sa.CheckConstraint("state IN ('open', 'accepted', 'declined')", name="state"),
)
sa.Table(
    "reactions",
    tables,
    key("paper_id", to("papers")),
    key("user_id", to("users"), index=True),
    key("kind", sa.String(30)),
    column("created_at", MOMENT),
)
sa.Table(
    "reviews",
    tables,
    key("id", sa.Integer),
    column("paper_id", to("papers")),
    column("author_id", to("users"), index=True),
    column("summary", sa.Text),
    column("strengths", sa.Text),
    column("concerns", sa.Text),
    column("questions", sa.Text),
    column("conflict", sa.Text),
    column("confidence", sa.Integer),
    column("state", sa.String(10)),
    column("revision", sa.Integer),
    column("created_at", MOMENT),
    column("updated_at", MOMENT),
    sa.UniqueConstraint("paper_id", "author_id"),
    sa.CheckConstraint("state IN ('visible', 'deleted', 'hidden')", name="state"),
    sa.CheckConstraint("confidence BETWEEN 1 AND 5", name="confidence"),
)
sa.Table(
    "saves",
    tables,
    key("paper_id", to("papers")),
    key("user_id", to("users"), index=True),
    column("created_at", MOMENT),
)
sa.Table(
    "sessions",
    tables,
    key("token_hash", sa.String(64)),
    column("user_id", to("users"), index=True, nullable=True),
    column("csrf_token", sa.String(64)),
    column("agent", sa.String(200)),
    column("created_at", MOMENT),
    column("expires_at", MOMENT, index=True),
)
sa.Table(
    "votes",
    tables,
    key("paper_id", to("papers")),
    key("user_id", to("users"), index=True),
    column("value", sa.Integer),
    column("created_at", MOMENT),
    sa.CheckConstraint("value IN (-1, 1)", name="value"),
)
sa.Table(
    "affiliations",
    tables,
    key("id", sa.Integer),
    column("paper_id", sa.Integer),
    column("position", sa.Integer),
    column("institution_id", to("institutions"), index=True),
    sa.ForeignKeyConstraint(
        ["paper_id", "position"],
        ["authorships.paper_id", "authorships.position"],
        ondelete="CASCADE",
    ),
    sa.UniqueConstraint("paper_id", "position", "institution_id"),
)
sa.Table(
    "collection_items",
    tables,
    key("collection_id", to("collections")),
    key("paper_id", to("papers"), index=True),
    column("position", sa.Integer),
    column("note", sa.Text),
)
sa.Table(
    "comment_mentions",
    tables,
    key("comment_id", to("comments")),
    key("claim_id", to("claims"), index=True),
)
sa.Table(
    "comment_versions",
    tables,
    key("comment_id", to("comments")),
    key("revision", sa.Integer),
    column("kind", sa.String(20)),
    column("body", sa.Text),
    column("written_at", MOMENT),
)
sa.Table(
    "review_versions",
    tables,
    key("review_id", to("reviews")),
    key("revision", sa.Integer),
    column("summary", sa.Text),
    column("strengths", sa.Text),
    column("concerns", sa.Text),
    column("questions", sa.Text),
    column("conflict", sa.Text),
    column("confidence", sa.Integer),
    column("written_at", MOMENT),
)


for _name, _text in (("review_marks", "reviews"), ("comment_marks", "comments")):
    sa.Table(
        _name,
        tables,
        key("text_id", to(_text)),
        key("user_id", to("users"), index=True),
        column("created_at", MOMENT),
    )

SQLITE = (
    "CREATE VIRTUAL TABLE search_papers USING fts5("
    "title, authors, topics, abstract, tokenize = 'unicode61', prefix = '1 2 3')",
    "INSERT INTO search_papers(search_papers, rank) VALUES ('rank', 'bm25(10.0, 4.0, 4.0, 1.0)')",
    "CREATE TRIGGER search_papers_forget AFTER DELETE ON papers BEGIN "
    "DELETE FROM search_papers WHERE rowid = old.id; END",
)
POSTGRESQL = (
    "CREATE TABLE search_papers (paper_id integer PRIMARY KEY "
    "REFERENCES papers (id) ON DELETE CASCADE, document tsvector NOT NULL)",
    "CREATE INDEX search_papers_document ON search_papers USING gin (document)",
)


def upgrade() -> None:
    """Create them, empty."""
    connection = op.get_bind()
    tables.create_all(connection, checkfirst=False)
    for statement in SQLITE if connection.dialect.name == "sqlite" else POSTGRESQL:
        connection.exec_driver_sql(statement)
