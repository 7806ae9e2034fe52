"""Migrations lead to exactly the tables; what they do not know they do not touch."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from exactformer.studio.errors import DatabaseError
from exactformer.studio.storage import migrations
from exactformer.studio.storage.engine import Database
from exactformer.studio.storage.tables import Base


def tables(database: Database) -> set[str]:
    return set(inspect(database.engine).get_table_names())


def test_migrations_make_the_tables_and_nothing_else(database_url: str) -> None:
    database = Database(database_url)
    migrations.upgrade(database)
    assert migrations.differences(database) == []
    assert set(Base.metadata.tables) <= tables(database)
    database.close()


def test_a_missing_column_is_a_difference(database_url: str) -> None:
    database = Database(database_url)
    migrations.upgrade(database)
    with database.writing() as db:
        db.execute(text("ALTER TABLE users DROP COLUMN name"))
    ((kind, _, table, column),) = migrations.differences(database)
    assert (kind, table, column.name) == ("add_column", "users", "name")
    database.close()


def test_a_second_upgrade_changes_nothing(database_url: str) -> None:
    database = Database(database_url)
    migrations.upgrade(database)
    migrations.upgrade(database)
    assert migrations.differences(database) == []
    database.close()


def test_a_database_of_another_version_is_refused(database_url: str) -> None:
    database = Database(database_url)
    migrations.upgrade(database)
    with database.writing() as db:
        db.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(DatabaseError, match=r"made by another version of exactformer.*9999"):
        migrations.upgrade(database)
    database.close()


def test_a_file_that_is_no_database_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "thesis.tex"
    path.write_bytes(content := b"\\documentclass{article}\n" * 400)
    database = Database(f"sqlite:///{path}")
    with pytest.raises(DatabaseError, match=r"thesis\.tex is not a database"):
        migrations.upgrade(database)
    database.close()
    assert path.read_bytes() == content


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}")
    with pytest.raises(DatabaseError, match="cannot be opened"):
        migrations.upgrade(database)
    database.close()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_database_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "studio.db"
    database = Database(f"sqlite:///{path}")
    migrations.upgrade(database)
    database.close()
    path.chmod(0o400)
    with pytest.raises(DatabaseError, match="cannot be opened"):
        migrations.upgrade(Database(f"sqlite:///{path}"))


def test_a_postgresql_that_does_not_answer_is_said_so_without_the_password() -> None:
    database = Database("postgresql://ada:secret@127.0.0.1:1/studio")
    with pytest.raises(DatabaseError, match="cannot be opened") as caught:
        migrations.upgrade(database)
    database.close()
    assert "secret" not in str(caught.value)
