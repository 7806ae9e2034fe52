"""Opening the studio's database with everything in it that the studio needs."""

from __future__ import annotations

from exactformer.studio.library import search_index, seeds
from exactformer.studio.storage import migrations
from exactformer.studio.storage.engine import Database


def open_database(address: str) -> Database:
    """Open a database, bring it up to date, and see to it that the library has its first works."""
    database = Database(address)
    try:
        migrations.upgrade(database)
        with database.writing() as db:
            search_index.complete(db)
            seeds.seed(db)
    except BaseException:
        database.close()
        raise
    return database
