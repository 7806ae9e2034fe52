"""Shipped files: what a style sheet or a module asks for is shipped with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exactformer.studio.settings import PACKAGE

STATIC = PACKAGE / "static"
ASKS = {
    ".css": re.compile(r"""url\(\s*["']?([^"')]+)"""),
    ".js": re.compile(r"""\b(?:from|import)\s*\(?\s*["'](\.[^"']+)["']"""),
}


@pytest.mark.parametrize("kind", ASKS)
def test_a_shipped_file_asks_only_for_shipped_files(kind: str) -> None:
    asked: dict[Path, str] = {}
    for file in STATIC.rglob(f"*{kind}"):
        for name in ASKS[kind].findall(file.read_text(encoding="utf-8")):
            if not name.startswith(("data:", "#")):
                asked[file.parent / name] = file.name
    assert asked
    assert [f"{file}: {path}" for path, file in asked.items() if not path.is_file()] == []
