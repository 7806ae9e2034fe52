"""Keep with every paper how often it is cited, for the order of lists."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the number, and count the citations that are there."""
    op.add_column(
        "papers", sa.Column("times_cited", sa.Integer(), nullable=False, server_default="0")
    )
    times = "SELECT count(*) FROM citations WHERE citations.cited_id = papers.id"
    op.execute(f"UPDATE papers SET times_cited = ({times})")
    op.create_index(op.f("ix_papers_times_cited"), "papers", ["times_cited"])


def downgrade() -> None:
    """Forget the number."""
    op.drop_index(op.f("ix_papers_times_cited"), "papers")
    op.drop_column("papers", "times_cited")
