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
    op.add_column("comment_versions", sa.Column("kind", sa.String(20), nullable=True))
    kinds = "SELECT kind FROM comments WHERE comments.id = comment_versions.comment_id"
    op.execute(f"UPDATE comment_versions SET kind = ({kinds})")
    with op.batch_alter_table("comment_versions") as table:
        table.alter_column("kind", existing_type=sa.String(20), nullable=False)


def downgrade() -> None:
    """Forget the counts, which only this program reads, and the kinds."""
    with op.batch_alter_table("comment_versions") as table:
        table.drop_column("kind")
