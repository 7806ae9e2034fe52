import importlib
import sys

import pytest

from exactformer.errors import ExperimentError
from exactformer.experiments.engine import code_version as module
from exactformer.experiments.engine.code_version import code_version, sources
from exactformer.experiments.engine.work import execute
from exactformer.experiments.registry import find
from tests.experiments import toy
from tests.experiments.engine.test_store import task

STUDY = """
import json
from lab.apart import draw
from .helper import InputError

LEVEL = 1

def level():
    return LEVEL

def run(parameters, device):
    import lab.kit
    for _ in range(2):
        level()
    return {"level": level(), "error": InputError}

def figure(summary):
    return draw(summary)
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package ``lab``; its ``study`` runs with ``helper`` and ``kit``, draws with ``apart``."""
    root = tmp_path / "lab"
    (root / "kit").mkdir(parents=True)
    (root / "shelf").mkdir()
    (root / "__init__.py").write_text("")
    (root / "helper.py").write_text(
        "from exactformer.errors import InputError\nfrom lab.shelf import used\n"
    )
    (root / "apart.py").write_text("draw = print\n")
    (root / "kit" / "__init__.py").write_text("from . import tool\n")
    (root / "kit" / "tool.py").write_text("")
    (root / "shelf" / "__init__.py").write_text('"""Two things that have nothing in common."""\n')
    (root / "shelf" / "used.py").write_text("")
    (root / "shelf" / "unused.py").write_text("")
    (root / "study.py").write_text(STUDY)
    monkeypatch.syspath_prepend(tmp_path)
    yield root
    for name in [name for name in sys.modules if name.partition(".")[0] == "lab"]:
        del sys.modules[name]


def digest():
    module._digest.cache_clear()
    return code_version(importlib.import_module("lab.study").run)


def change(path, old, new):
    source = path.read_text()
    assert old in source or not old
    path.write_text(source.replace(old, new) if old else source + new)


def test_only_what_the_module_reaches_is_read(package):
    names = {
        "lab.study",
        "lab.apart",
        "lab.helper",
        "lab.kit",
        "lab.kit.tool",
        "exactformer.errors",
    }
    assert set(sources("lab.study")) == names | {"lab.shelf", "lab.shelf.used"}


@pytest.mark.spread(2)
@pytest.mark.parametrize("name", ["fang-table-1", "fang-noise", "universality", "yun-rate"])
def test_a_theorem_does_not_depend_on_the_others(name):
    run = find(name).run
    families = {"polynomials", "sequences", "couplings"}
    reached = {part for module in sources(run.__module__) for part in module.split(".")}
    own = "sequences" if name.startswith("yun") else "polynomials"
    assert reached & families == {own}


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("study.py", "level(), ", "-level(), "),
        ("study.py", "LEVEL = 1", "LEVEL = 3"),
        ("study.py", "", "print('an effect')\n"),
        ("helper.py", "", "changed = True\n"),
        ("apart.py", "", "changed = True\n"),
        ("kit/tool.py", "", "changed = True\n"),
    ],
)
def test_a_change_that_run_can_feel_changes_the_version(package, file, old, new):
    before = digest()
    change(package / file, old, new)
    assert digest() != before


def test_the_engine_is_not_part_of_it():
    assert not any(name.startswith("exactformer.experiments") for name in sources(toy.__name__))


def test_a_library_upgrade_changes_the_version(package, monkeypatch):
    before = digest()
    monkeypatch.setattr(module, "versions", lambda: {"torch": "99"})
    assert digest() != before


def test_a_function_that_workers_cannot_find_is_refused():
    with pytest.raises(ExperimentError, match="top level of a module"):
        code_version(lambda parameters, device: {})


def test_a_worker_with_other_code_refuses_to_compute():
    assert "other code" in execute(task(code="that of yesterday")).error
