"""Make the tables of what readers follow and of what they are told, and of proposed papers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def _to(table: str, name: str, column: str, rule: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        [column], [f"{table}.id"], name=op.f(f"fk_{name}_{column}_{table}"), ondelete=rule
    )


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "follows",
        sa.Column("paper_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("anchor", sa.String(60), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        _to("papers", "follows", "paper_id", "CASCADE"),
        _to("users", "follows", "user_id", "CASCADE"),
        sa.PrimaryKeyConstraint("paper_id", "user_id", "anchor", name=op.f("pk_follows")),
    )
    op.create_index(op.f("ix_follows_user_id"), "follows", ["user_id"])
    op.create_table(
        "notices",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("by_id", sa.Integer(), nullable=True),
        sa.Column("paper_id", sa.Integer(), nullable=True),
        sa.Column("comment_id", sa.Integer(), nullable=True),
        sa.Column("review_id", sa.Integer(), nullable=True),
        sa.Column("word", sa.String(10), nullable=False),
        sa.Column("title", sa.String(500), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("read_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "kind IN ('answer', 'mention', 'comment', 'review', 'decision')",
            name=op.f("ck_notices_kind"),
        ),
        _to("users", "notices", "user_id", "CASCADE"),
        _to("users", "notices", "by_id", "SET NULL"),
        _to("papers", "notices", "paper_id", "CASCADE"),
        _to("comments", "notices", "comment_id", "CASCADE"),
        _to("reviews", "notices", "review_id", "CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notices")),
    )
    for columns in (["user_id", "read_at"], ["comment_id"], ["review_id"]):
        op.create_index(op.f(f"ix_notices_{'_'.join(columns)}"), "notices", columns)
    op.create_table(
        "proposals",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("proposer_id", sa.Integer(), nullable=False),
        sa.Column("record", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("paper_id", sa.Integer(), nullable=True),
        sa.Column("decided_by_id", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "state IN ('open', 'accepted', 'declined')", name=op.f("ck_proposals_state")
        ),
        _to("users", "proposals", "proposer_id", "CASCADE"),
        _to("papers", "proposals", "paper_id", "SET NULL"),
        _to("users", "proposals", "decided_by_id", "SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_proposals")),
    )
    for column in ("proposer_id", "state"):
        op.create_index(op.f(f"ix_proposals_{column}"), "proposals", [column])


def downgrade() -> None:
    """Take them away."""
    for table in ("proposals", "notices", "follows"):
        op.drop_table(table)
