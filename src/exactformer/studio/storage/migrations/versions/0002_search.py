"""Make the index of full-text search."""

from __future__ import annotations

from alembic import op

from exactformer.studio.library import search_index

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the index and fill it."""
    search_index.create(op.get_bind())


def downgrade() -> None:
    """Take it away; it can be made again from the papers."""
    search_index.drop(op.get_bind())
