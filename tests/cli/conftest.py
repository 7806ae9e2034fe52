import json
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

import exactformer as ef
from exactformer.cli.app import app


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def call():
    """Run a command; anything but a clean exit is a failure of the test itself."""

    def run(*arguments, stdin=None):
        answer = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)
        assert answer.exception is None or isinstance(answer.exception, SystemExit)
        return Answer(answer.exit_code, answer.stdout, answer.stderr)

    return run


@pytest.fixture(scope="session")
def law(tmp_path_factory):
    """A saved model of x² + 3xy − y/2 on ‖(x, y)‖ ≤ 2."""
    path = tmp_path_factory.mktemp("models") / "law.safetensors"
    ef.compile("x^2 + 3 x y - y/2", radius=2).save(path)
    return path


@pytest.fixture(scope="session")
def paper(tmp_path_factory):
    """A saved model of x² + y² in the paper's own construction."""
    path = tmp_path_factory.mktemp("models") / "paper.safetensors"
    ef.compile("x^2 + y^2", radius=2, construction="paper").save(path)
    return path
