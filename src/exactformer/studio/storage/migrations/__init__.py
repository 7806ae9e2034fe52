"""Bringing a database to the shape the tables have now, step by step, from code.

Tables and indexes whose names begin with ``search_`` are made by migrations alone: each database
searches in its own way, and the tables here do not know of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.exc import DatabaseError as DriverError
from sqlalchemy.exc import OperationalError

from exactformer.studio.errors import DatabaseError
from exactformer.studio.storage.dialects import lock_writers
from exactformer.studio.storage.engine import Database
from exactformer.studio.storage.tables import Base

OWN_SEARCH = "search_"


def upgrade(database: Database) -> None:
    """Create what is missing; a database that this program does not know is refused."""
    with _alone(database) as connection:
        if not _is_newest(connection):
            command.upgrade(_config(connection), "head")


def differences(database: Database) -> list[Any]:
    """What the database and the tables disagree on; nothing, after an upgrade."""
    with database.engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "include_object": belongs_to_tables}
        )
        return list(compare_metadata(context, Base.metadata))


def belongs_to_tables(thing: Any, name: str | None, kind: str, *_: Any) -> bool:
    """Whether Alembic should compare this; what searching needs is left out."""
    return not (name or "").startswith(OWN_SEARCH)


@contextmanager
def _alone(database: Database) -> Iterator[Connection]:
    """A transaction that no other process migrates beside."""
    try:
        with database.engine.execution_options(studio_writes=True).begin() as connection:
            lock_writers(connection)
            yield connection
    except OperationalError as error:
        raise DatabaseError(
            f"the database {_shown(database)} cannot be opened: {error.orig}"
        ) from None
    except DriverError as error:
        if "not a database" not in str(error.orig):
            raise
        raise DatabaseError(
            f"{database.url.database} is not a database; name another file, or one that is not "
            "there yet"
        ) from None


def _shown(database: Database) -> str:
    return database.url.render_as_string(hide_password=True)


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _is_newest(connection: Connection) -> bool:
    """Whether a database has the newest schema; one that this program does not know is refused."""
    known, newest = _revisions()
    found = set(MigrationContext.configure(connection).get_current_heads())
    if unknown := found - known:
        raise DatabaseError(
            f"the database was made by another version of exactformer (its schema is "
            f"{', '.join(unknown)}, this program knows {max(known)}): use that version, or name "
            "another database"
        )
    return found == newest


@cache
def _revisions() -> tuple[set[str], set[str]]:
    """All revisions that there are steps to, and the newest; reading the steps takes a while."""
    scripts = ScriptDirectory.from_config(_config())
    return {script.revision for script in scripts.walk_revisions()}, set(scripts.get_heads())
