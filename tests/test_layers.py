"""The architecture is a rule, not a habit: modules import only downwards."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import exactformer

ROOT = Path(exactformer.__file__).parent

LAYERS = [
    "errors",
    "version",
    "progress",
    "algebra",
    "core",
    "polynomials",
    "sequences",
    "theory",
    "couplings",
    "programs",
    "coq",
    "targets",
    "probing",
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


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


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
    for name in imports(parsed(path)):
        if layer(path) == "core" and path.stem == "loading":
            continue  # names the models' types for those who check types
        if name.startswith("exactformer."):
            assert name.split(".")[1] in allowed, f"{path} imports {name}"


FAMILIES = ("polynomials", "sequences", "couplings", "programs")
OF_FAMILIES = [p for p in MODULES if layer(p) in ("core", *FAMILIES)]


@pytest.mark.parametrize("path", OF_FAMILIES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_family_imports_another_and_the_core_imports_none(path: Path) -> None:
    others = {family for family in FAMILIES if family != layer(path)}
    found = {name.split(".")[1] for name in imports_on_loading(parsed(path)) if "." in name}
    assert not others & found


def modules_of(name: str) -> Iterator[Path]:
    """Yield the files that importing a module runs: itself and its packages, the outermost apart."""
    parts = name.split(".")[1:]
    for k in range(1, len(parts) + 1):
        place = ROOT.joinpath(*parts[:k])
        yield from (p for p in (place / "__init__.py", place.with_suffix(".py")) if p.is_file())


@cache
def imported_files(path: Path) -> set[Path]:
    """Return the files of the package that a file imports directly."""
    files: set[Path] = set()
    for node in ast.walk(parsed(path)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            if name.startswith("exactformer."):
                files.update(modules_of(name))
    return files


def closure(path: Path) -> set[Path]:
    """Return all files of the package that a file imports, directly or through others."""
    seen: set[Path] = set()
    waiting = [path]
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        waiting += imported_files(current)
    return seen


PROOFS = [p for p in MODULES if "proof" in p.relative_to(ROOT).parts]


@pytest.mark.parametrize("path", PROOFS, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_proof_knows_a_construction_even_through_others(path: Path) -> None:
    known = {str(p.relative_to(ROOT)) for p in closure(path)}
    assert not [name for name in known if "construction" in name]


def is_exact(path: Path) -> bool:
    """Whether a module is about exact weights, and must not need torch to be imported."""
    place = path.relative_to(ROOT)
    return (
        place.parts[0] == "algebra"
        or place.name == "blueprint.py"
        or bool({"constructions", "proof"} & set(place.parts))
    )


@pytest.mark.parametrize(
    "path", [p for p in MODULES if is_exact(p)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_exact_modules_import_no_torch(path: Path) -> None:
    names = imports_on_loading(parsed(path))
    assert "torch" not in {name.split(".")[0] for name in names}


def test_learning_imports_no_flint() -> None:
    for path in (p for p in MODULES if layer(p) == "learning"):
        names = imports_on_loading(parsed(path))
        assert "flint" not in {name.split(".")[0] for name in names}, path


STUDIO = ROOT / "studio"
GROUND = ["errors", "settings", "storage", "security", "web"]
FEATURES = [
    "accounts",
    "library",
    "playground",
    "evidence",
    "notices",
    "opinions",
    "map",
    "proposals",
]
ENTRANCE = ["database", "app", "serving"]
STUDIO_MODULES = sorted(STUDIO.rglob("*.py"))


def is_route(name: str) -> bool:
    """Whether a module answers requests."""
    return name.split(".")[-1].endswith(("routes", "_pages"))


def studio_imports(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the package and the full name of every module of the studio that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        for alias in node.names:
            name = f"{node.module}.{alias.name}"
            place = ROOT.parent.joinpath(*name.split("."))
            module = name if place.with_suffix(".py").exists() or place.is_dir() else node.module
            if module.startswith("exactformer.studio."):
                yield module.split(".")[2], module


@pytest.mark.parametrize("path", STUDIO_MODULES, ids=lambda p: str(p.relative_to(STUDIO)))
def test_the_studio_is_built_of_features_over_a_common_ground(path: Path) -> None:
    """The ground knows no feature but its tables; a feature knows the services of others, not their
    routes; services know the features before theirs; and only the entrance knows everything."""
    own = path.relative_to(STUDIO).parts[0].removesuffix(".py")
    for package, module in studio_imports(path):
        says = f"{path.relative_to(STUDIO)} imports {module}"
        assert package not in ENTRANCE or own in ENTRANCE, says
        if package not in FEATURES or package == own or own in ENTRANCE:
            continue
        assert not is_route(module), says
        if module.endswith(".tables"):
            continue
        assert own not in GROUND, says
        if not is_route(path.stem):
            assert FEATURES.index(package) < FEATURES.index(own), says
