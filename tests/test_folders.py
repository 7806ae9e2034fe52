"""Where data and caches live: on Linux where they always did, and wherever the environment says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from exactformer.core.folders import cache_folder

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="folders of Linux")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("EXACTFORMER_CACHE", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@linux
def test_cells_are_in_the_users_cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder("cells") == home / ".cache" / "exactformer" / "cells"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "elsewhere"))
    assert cache_folder("cells") == home / "elsewhere" / "exactformer" / "cells"


def test_the_environment_names_another_cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXACTFORMER_CACHE", str(home / "mine"))
    assert cache_folder("cells") == home / "mine" / "cells"


@linux
def test_the_studio_is_in_the_users_data(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from exactformer.studio.settings import default_database

    assert default_database() == f"sqlite:///{home}/.local/share/exactformer/studio.db"
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    assert default_database() == f"sqlite:///{home}/data/exactformer/studio.db"
