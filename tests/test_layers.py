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
    "verification",
    "coq",
    "targets",
    "probing",
    "figures",
    "learning",
    "spectra",
    "claims",
    "experiments",
    "studio",
    "cli",
]

MODULES = sorted(p for p in ROOT.rglob("*.py") if p.parent != ROOT or p.stem in LAYERS)


def layer(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


Statement = ast.Import | ast.ImportFrom


@cache
def statements(path: Path) -> tuple[list[Statement], list[Statement]]:
    """Return the imports of a file: all, and those that run when it is imported.

    These are neither inside functions nor for those who check types.
    """
    tree = ast.parse(path.read_text())
    of_all = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return of_all, [node for node in of_all if node in tree.body]


def names(nodes: list[Statement]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif node.module:
            yield node.module


def imports(path: Path) -> Iterator[str]:
    return names(statements(path)[0])


def imports_on_loading(path: Path) -> Iterator[str]:
    return names(statements(path)[1])


@pytest.mark.parametrize("own", LAYERS)
def test_modules_import_only_downwards(own: str) -> None:
    allowed = LAYERS[: LAYERS.index(own) + 1]
    for path in (p for p in MODULES if layer(p) == own):
        if own == "core" and path.stem == "loading":
            continue  # names the models' types for those who check types
        for name in imports(path):
            if name.startswith("exactformer."):
                assert name.split(".")[1] in allowed, f"{path} imports {name}"


FAMILIES = ("polynomials", "sequences", "couplings", "programs")


@pytest.mark.parametrize("own", ["core", *FAMILIES])
def test_no_family_imports_another_and_the_core_imports_none(own: str) -> None:
    others = {family for family in FAMILIES if family != own}
    for path in (p for p in MODULES if layer(p) == own):
        found = {name.split(".")[1] for name in imports_on_loading(path) if "." in name}
        assert not others & found, path


def test_the_second_opinion_knows_the_core_and_the_algebra_alone() -> None:
    """Even through others: what checks families imports nothing of any of them, and no proof."""
    allowed = {"errors", "version", "progress", "algebra", "core", "verification"}
    for path in (p for p in MODULES if layer(p) == "verification"):
        for name in imports(path):
            if name.startswith("exactformer."):
                assert name.split(".")[1] in allowed, f"{path} imports {name}"


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
    for name in imports(path):
        if name.startswith("exactformer."):
            files.update(modules_of(name))
    for node in statements(path)[0]:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("exactformer."):
            for alias in node.names:
                files.update(modules_of(f"{node.module}.{alias.name}"))
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


def test_exact_modules_import_no_torch() -> None:
    for path in (p for p in MODULES if is_exact(p)):
        assert "torch" not in {name.split(".")[0] for name in imports_on_loading(path)}, path


def test_learning_imports_no_flint() -> None:
    for path in (p for p in MODULES if layer(p) == "learning"):
        assert "flint" not in {name.split(".")[0] for name in imports_on_loading(path)}, path


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


def studio_part(path: Path) -> str:
    """Which part of the studio a module belongs to."""
    return path.relative_to(STUDIO).parts[0].removesuffix(".py")


def is_route(name: str) -> bool:
    """Whether a module answers requests."""
    return name.split(".")[-1].endswith(("routes", "_pages"))


def studio_imports(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the package and the full name of every module of the studio that a file imports."""
    for node in statements(path)[0]:
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        for alias in node.names:
            name = f"{node.module}.{alias.name}"
            place = ROOT.parent.joinpath(*name.split("."))
            module = name if place.with_suffix(".py").exists() or place.is_dir() else node.module
            if module.startswith("exactformer.studio."):
                yield module.split(".")[2], module


@pytest.mark.parametrize("own", sorted({studio_part(path) for path in STUDIO_MODULES}))
def test_the_studio_is_built_of_features_over_a_common_ground(own: str) -> None:
    """The ground knows no feature but its tables; a feature knows the services of others, not their
    routes; services know the features before theirs; and only the entrance knows everything."""
    pairs = [
        (path, *imported)
        for path in STUDIO_MODULES
        if studio_part(path) == own
        for imported in studio_imports(path)
    ]
    for path, package, module in pairs:
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
