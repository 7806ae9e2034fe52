"""Make the index of full-text search; the program fills it, since its words are not SQL's."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

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
    """Make the index, empty."""
    connection = op.get_bind()
    for statement in SQLITE if connection.dialect.name == "sqlite" else POSTGRESQL:
        connection.exec_driver_sql(statement)


def downgrade() -> None:
    """Take it away; it can be made again from the papers."""
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("DROP TRIGGER search_papers_forget")
    connection.exec_driver_sql("DROP TABLE search_papers")
