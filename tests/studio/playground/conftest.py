"""One studio, with a real worker, for all tests of the playground's routes in a module."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.studio.support.servers import settings_of


@pytest.fixture(scope="module")
def studio(
    template_database: Path, playground: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """A visitor's client; ``studio.app`` is the application."""
    from starlette.testclient import TestClient

    from exactformer.studio.app import create_app

    path = tmp_path_factory.mktemp("playground") / "studio.db"
    shutil.copy(template_database, path)
    app = create_app(settings_of(database=f"sqlite:///{path}"))
    own, app.state.playground = app.state.playground, playground
    with TestClient(app, follow_redirects=False) as client:
        yield client
        app.state.playground = own  # a studio that ends closes its playground
