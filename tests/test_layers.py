"""The architecture is a rule, not a habit: modules import only downwards."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import exactformer

ROOT = Path(exactformer.__file__).parent

LAYERS = [
    "errors",
    "progress",
    "algebra",
    "approximation",
    "blueprint",
    "constructions",
    "execution",
    "certificates",
    "probing",
    "theory",
    "targets",
    "model",
    "figures",
    "learning",
    "spectra",
    "experiments",
    "studio",
    "cli",
]

MODULES = sorted(p for p in ROOT.rglob("*.py") if p.parent != ROOT or p.stem in LAYERS)


def layer(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def imports_on_loading(tree: ast.Module) -> Iterator[str]:
    """Imports that run when the module is imported: not those inside functions or TYPE_CHECKING."""
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from imports(ast.Module([node], []))


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_modules_import_only_downwards(path: Path) -> None:
    allowed = LAYERS[: LAYERS.index(layer(path)) + 1]
    for name in imports(ast.parse(path.read_text())):
        if name.startswith("exactformer."):
            assert name.split(".")[1] in allowed, f"{path} imports {name}"


@pytest.mark.parametrize(
    "path", [p for p in MODULES if layer(p) == "certificates"], ids=lambda p: p.stem
)
def test_certificates_share_no_code_with_constructions(path: Path) -> None:
    assert not [n for n in imports(ast.parse(path.read_text())) if "constructions" in n]


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("algebra", "torch"),
        ("blueprint", "torch"),
        ("blueprint", "flint"),
        ("constructions", "torch"),
        ("certificates", "torch"),
        ("learning", "flint"),
    ],
)
def test_heavy_dependencies_stay_where_they_belong(package: str, forbidden: str) -> None:
    for path in (p for p in MODULES if layer(p) == package):
        names = imports_on_loading(ast.parse(path.read_text()))
        assert forbidden not in {n.split(".")[0] for n in names}, path


@pytest.mark.parametrize("module", ["exactformer", "exactformer.cli"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    heavy = "torch sympy sklearn matplotlib pandas scipy flint fastapi sqlalchemy".split()
    code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout.strip() == "[]"


def test_learning_and_the_literal_module_import_without_flint() -> None:
    code = (
        "import sys; sys.modules['flint'] = None\n"
        "import exactformer.polynomials.run.literal, exactformer.polynomials.files\n"
        "import exactformer.learning\n"
        "print('imported')"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout.strip() == "imported"
