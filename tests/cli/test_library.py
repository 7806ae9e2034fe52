"""Papers go out of the library from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from exactformer.cli.app import app

pytest.importorskip("sqlalchemy")


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["library", *words], env={"COLUMNS": "200"})
    return result.exit_code, result.output


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'studio.db'}"


def test_everything_is_exported(database: str, tmp_path: Path) -> None:
    out = tmp_path / "library.json"
    code, _ = run("export", "-o", str(out), "--database", database)
    assert code == 0
    assert len(json.loads(out.read_text())["papers"]) == 46


def test_one_paper_is_exported_in_each_format(database: str) -> None:
    slug = "vaswani-2017-attention-is-all-you-need"
    for form, start in (("bibtex", "@article{"), ("json", '{"format"')):
        code, output = run("export", "--paper", slug, "--format", form, "--database", database)
        assert code == 0
        assert output.startswith(start)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("export", "--paper", "none"), "There is no paper 'none'"),
        (("export", "--collection", "none"), "No shared collection has this token"),
        (("export", "--collection", "a", "--paper", "b"), "not both"),
    ],
)
def test_mistakes_are_said_in_a_sentence(database: str, words: tuple[str, ...], says: str) -> None:
    code, output = run(*words, "--database", database)
    assert code == 2
    assert says in output


def test_a_private_collection_is_not_exported(database: str) -> None:
    from exactformer.studio.accounts.tables import User
    from exactformer.studio.library import papers
    from exactformer.studio.opinions import collections
    from exactformer.studio.security.actor import Actor
    from exactformer.studio.storage.engine import Database

    slug = "vaswani-2017-attention-is-all-you-need"
    run("export", "--paper", slug, "--database", database)  # makes the database
    library = Database(database)
    try:
        with library.writing() as db:
            user = User(handle="ada", name="Ada", password_hash="-", role="reader")
            db.add(user)
            db.flush()
            ada = Actor(user.id, user.handle, user.name, user.role)
            collection = collections.create(db, ada, "To read", "slowly")
            collections.add(db, ada, collection.id, papers.get(db, slug))
            token, number = collection.token, collection.id
        words = ("export", "--collection", token, "--database", database)
        code, output = run(*words)
        assert code == 2
        assert "No shared collection has this token" in output
        with library.writing() as db:
            collections.edit(db, ada, number, visibility="link")
            token = collections.get(db, ada, number).token
    finally:
        library.close()
    code, output = run("export", "--collection", token, "--database", database)
    assert code == 0
    assert [paper["title"] for paper in json.loads(output)["papers"]] == [
        "Attention is all you need"
    ]


def test_an_export_that_fails_leaves_what_was_there(database: str, tmp_path: Path) -> None:
    out = tmp_path / "library.json"
    out.write_text("what was there before")
    words = ("export", "--paper", "none", "-o", str(out), "--database", database)
    assert run(*words, "--force")[0] == 2
    assert out.read_text() == "what was there before"
    assert not list(tmp_path.glob("*.partial"))
