"""Count changes of what pages show, share rates and runs, and keep the kinds of comments."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table of versions, and give earlier versions the kind their comment has."""
    op.create_table(
        "rates",
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("key", sa.String(80), nullable=False),
        sa.Column("full_at", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("name", "key", name=op.f("pk_rates")),
    )
    op.create_table(
        "runs",
        sa.Column("experiment", sa.String(60), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("cells", sa.JSON(), nullable=False),
        sa.Column("seconds", sa.Float(53), nullable=False),
        sa.Column("begun_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("experiment", name=op.f("pk_runs")),
    )
    op.add_column("comment_versions", sa.Column("kind", sa.String(20), nullable=True))
    kinds = "SELECT kind FROM comments WHERE comments.id = comment_versions.comment_id"
    op.execute(f"UPDATE comment_versions SET kind = ({kinds})")
    with op.batch_alter_table("comment_versions") as table:
        table.alter_column("kind", existing_type=sa.String(20), nullable=False)


def downgrade() -> None:
    """Forget the counts, which only this program reads, and the kinds."""
    with op.batch_alter_table("comment_versions") as table:
        table.drop_column("kind")
    op.drop_table("runs")
    op.drop_table("rates")
