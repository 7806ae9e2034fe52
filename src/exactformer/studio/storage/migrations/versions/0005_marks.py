"""Make the tables of which reviews and comments readers find useful."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

MARKS = {"review_marks": "reviews", "comment_marks": "comments"}


def upgrade() -> None:
    """Create the tables."""
    for name, texts in MARKS.items():
        op.create_table(
            name,
            sa.Column("text_id", sa.Integer(), nullable=False),
            sa.Column("user_id", sa.Integer(), nullable=False),
            sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
            sa.ForeignKeyConstraint(
                ["text_id"],
                [f"{texts}.id"],
                name=op.f(f"fk_{name}_text_id_{texts}"),
                ondelete="CASCADE",
            ),
            sa.ForeignKeyConstraint(
                ["user_id"],
                ["users.id"],
                name=op.f(f"fk_{name}_user_id_users"),
                ondelete="CASCADE",
            ),
            sa.PrimaryKeyConstraint("text_id", "user_id", name=op.f(f"pk_{name}")),
        )
        op.create_index(op.f(f"ix_{name}_user_id"), name, ["user_id"])


def downgrade() -> None:
    """Take them away."""
    for name in MARKS:
        op.drop_table(name)
