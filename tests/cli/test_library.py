"""Papers go into the library and out of it from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from exactformer.cli.app import app

pytest.importorskip("sqlalchemy")
BIBTEX = "@book{a, title={A new book}, year=2021}\n@book{b, title={Deep learning}, year=2015}"


def run(*words: str, answer: str = "") -> tuple[int, str]:
    result = CliRunner().invoke(app, ["library", *words], input=answer, env={"COLUMNS": "200"})
    return result.exit_code, result.output


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'studio.db'}"


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "x.bib"
    path.write_text(BIBTEX)
    return str(path)


def test_nothing_is_written_before_it_is_agreed_to(database: str, file: str) -> None:
    code, output = run("import", file, "--database", database, answer="n\n")
    assert code == 1
    assert "A new book" in output
    assert "is there: lecun-2015-deep-learning" in output
    assert "Nothing was written" in output
    code, output = run("import", file, "--database", database, "--yes")
    assert code == 0
    assert "1 added" in output


def test_an_export_can_be_imported_elsewhere(database: str, tmp_path: Path) -> None:
    out = tmp_path / "library.json"
    code, _ = run("export", "-o", str(out), "--database", database)
    assert code == 0
    assert len(json.loads(out.read_text())["papers"]) == 46
    code, output = run("import", str(out), "--database", database, "--yes")
    assert "0 added, 0 completed" in output or "Nothing to write" in output
    assert code == 0


def test_one_paper_is_exported_in_each_format(database: str) -> None:
    slug = "vaswani-2017-attention-is-all-you-need"
    for form, start in (("bibtex", "@article{"), ("csv", "slug,title"), ("json", '{"format"')):
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


def test_a_file_that_cannot_be_read_is_named(database: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text("[")
    code, output = run("import", str(path), "--database", database)
    assert code == 2
    assert "bad.json: Line 1, column 2" in output


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


def test_an_import_in_json_asks_nothing_and_writes_only_with_yes(database: str, file: str) -> None:
    words = ("import", file, "--database", database, "--json")
    code, output = run(*words)
    told = json.loads(output)
    assert (code, told["saved"]) == (0, [])
    assert [paper["known_as"] for paper in told["papers"]] == [None, "lecun-2015-deep-learning"]
    code, output = run(*words, "--yes")
    told = json.loads(output)
    assert (code, told["saved"], told["added"]) == (0, [database], 1)


def test_an_export_that_fails_leaves_what_was_there(database: str, tmp_path: Path) -> None:
    out = tmp_path / "library.json"
    out.write_text("what was there before")
    words = ("export", "--paper", "none", "-o", str(out), "--database", database)
    assert run(*words, "--force")[0] == 2
    assert out.read_text() == "what was there before"
    assert not list(tmp_path.glob("*.partial"))
