"""Which code a cell's numbers come from, as one digest.

Three things decide:

* the versions of Python, torch, numpy and this package;
* in the module of ``run``: the function itself and whatever at the top level it refers to, directly
  or not. The figure, the table, the statements (functions called ``_``) and the grid beside
  it may be edited without making cells stale;
* the whole source of every module these import, and of those that they import in turn, as far as
  it belongs to the same top-level package or to exactformer. Importing a *package* takes in all its
  files, since its ``__init__`` may load them lazily, unless that holds a docstring and nothing else.

The engine and this folder's ``__init__`` are left out: they move cells about without changing them.
What is imported or looked up by a computed name is not seen.
"""

import ast
import hashlib
import importlib
import platform
import re
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import exactformer
from exactformer.errors import ExperimentError
from exactformer.experiments.engine.cell import Run

_PACKAGE = "exactformer"
_LEFT_OUT = re.compile(
    r"exactformer\.(experiments|experiments\.registry|(experiments\.engine|cli|studio)(\..*)?)"
)


def versions() -> dict[str, str]:
    """Return the versions that numbers depend on, by library."""
    return {
        "exactformer": exactformer.__version__,
        "python": platform.python_version(),
        "torch": metadata.version("torch"),
        "numpy": metadata.version("numpy"),
    }


def code_version(run: Run) -> str:
    """Return the digest of the code behind ``run``, which must be importable by name."""
    module, name = run.__module__, run.__qualname__
    found = None if module == "__main__" else getattr(importlib.import_module(module), name, None)
    if found is not run:
        raise ExperimentError(
            f"{module}.{name} cannot be found by worker processes: run must be a function at the "
            f"top level of a module that can be imported (not a script, a lambda or a method)."
        )
    return _digest(module, name)


@cache
def _digest(module: str, function: str) -> str:
    digest = hashlib.sha256(repr(sorted(versions().items())).encode())
    for name, source in sorted(sources(module, function).items()):
        digest.update(f"\n{name}\n{len(source)}\n".encode() + source.encode())
    return digest.hexdigest()


def sources(module: str, function: str) -> dict[str, str]:
    """Return the source that ``function`` of ``module`` depends on, by module."""
    roots = {_PACKAGE: Path(exactformer.__file__).parent, **_root_of(module)}
    start = _locate(module, roots)
    if start is None:
        raise ExperimentError(f"The source of {module} cannot be read, so its cells have no name.")
    own = _needed_by(function, ast.parse(start.read_bytes()))
    found = {module: ast.unparse(own)}
    waiting = list(_imports(own, module, start.name == "__init__.py"))
    while waiting:
        name = waiting.pop()
        if name in found or _LEFT_OUT.fullmatch(name):
            continue
        path = _locate(name, roots)
        if path is None:
            continue
        found[name] = path.read_text(encoding="utf-8")
        is_package = path.name == "__init__.py"
        tree = ast.parse(found[name])
        if is_package and any(_bound(statement) != [] for statement in tree.body):
            waiting += [f"{name}.{child}" for child in _children(path.parent)]
        waiting += _imports(tree, name, is_package)
    return found


def _needed_by(function: str, module: ast.Module) -> ast.Module:
    """Return the part of ``module`` that ``function`` refers to, in order.

    Definitions, imports and plain assignments are taken if something taken uses their name; any
    other statement at the top level may have effects and is always taken.
    """
    binders: dict[str, list[ast.stmt]] = {}
    taken: set[ast.stmt] = set()
    for statement in module.body:
        names = _bound(statement)
        if names is None:
            taken.add(statement)
        for name in names or []:
            binders.setdefault(name, []).append(statement)
    seen: set[str] = set()
    waiting = {function} | {name for statement in taken for name in _used(statement)}
    while waiting:
        name = waiting.pop()
        seen.add(name)
        for statement in binders.get(name, []):
            taken.add(statement)
            waiting |= _used(statement) - seen
    return ast.Module([statement for statement in module.body if statement in taken], [])


def _bound(statement: ast.stmt) -> list[str] | None:
    """Return the names a statement only binds, or ``None`` if it may do more."""
    match statement:
        case ast.FunctionDef(name="_"):  # a statement of the claim, which its decorator has taken
            return []
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [alias.asname or alias.name.partition(".")[0] for alias in names]
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Expr(value=ast.Constant()):  # a docstring
            return []
    return None


def _used(statement: ast.stmt) -> set[str]:
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}


def _root_of(module: str) -> dict[str, Path]:
    top = module.partition(".")[0]
    file = importlib.import_module(module).__file__
    if file is None:
        return {}
    path = Path(file)
    depth = module.count(".") + (path.name == "__init__.py")
    return {top: path.parents[depth - 1] if depth else path}


def _locate(name: str, roots: dict[str, Path]) -> Path | None:
    top, *rest = name.split(".")
    if top not in roots:
        return None
    base = roots[top].joinpath(*rest)
    candidates = [base / "__init__.py", base.with_suffix(".py")]
    return next((path for path in candidates if path.is_file()), None)


def _children(folder: Path) -> Iterator[str]:
    for path in folder.iterdir():
        if path.suffix == ".py" and path.stem != "__init__":
            yield path.stem
        elif (path / "__init__.py").is_file():
            yield path.name


def _imports(module: ast.Module, name: str, is_package: bool) -> Iterator[str]:
    """Yield every name an ``import`` might load: ``from a import b`` gives ``a`` and ``a.b``."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = name.split(".")
                parts = parts[: len(parts) - node.level + is_package]
                base = ".".join([*parts, base]).rstrip(".")
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
