"""Run by Alembic for each command; the connection comes from our own code."""

from __future__ import annotations

from alembic import context

from exactformer.studio.storage.migrations import belongs_to_tables
from exactformer.studio.storage.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    include_object=belongs_to_tables,
    render_as_batch=True,
)
context.run_migrations()
