"""The digest of the code that a cell's numbers come from.

It is made of the versions of Python, torch, numpy and this package, and of the source of the module of
``run`` with every module that it imports, and these import in turn, of exactformer or of the same
top-level package. The engine moves cells about without changing them and is left out. What is imported
by a computed name is not seen.
"""

import ast
import hashlib
import platform
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata, util
from pathlib import Path

import exactformer
from exactformer.errors import ExperimentError
from exactformer.experiments.engine.cell import Run

_LEFT_OUT = re.compile(
    r"exactformer\.(experiments|experiments\.registry|(experiments\.engine|cli|studio)(\..*)?)"
)


def versions() -> dict[str, str]:
    """Return the versions that numbers depend on, by library."""
    libraries = {name: metadata.version(name) for name in ("torch", "numpy")}
    ours = {"exactformer": exactformer.__version__, "python": platform.python_version()}
    return ours | libraries


def code_version(run: Run) -> str:
    """Return the digest of the code behind ``run``, which must be importable by name."""
    module, name = run.__module__, run.__qualname__
    if module == "__main__" or getattr(sys.modules.get(module), name, None) is not run:
        raise ExperimentError(
            f"{module}.{name} cannot be found by worker processes: run must be a function at the "
            f"top level of a module that can be imported (not a script, a lambda or a method)."
        )
    return _digest(module)


@cache
def _digest(module: str) -> str:
    parts = [sorted(versions().items()), sorted(sources(module).items())]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def sources(module: str) -> dict[str, str]:
    """Return the source of a module and of those that it needs, by name."""
    tops, found, waiting = {"exactformer", module.partition(".")[0]}, dict[str, str](), [module]
    while waiting:
        name = waiting.pop()
        if name in found or name.partition(".")[0] not in tops or _LEFT_OUT.fullmatch(name):
            continue
        try:
            spec = util.find_spec(name)
        except ModuleNotFoundError:  # a name within a module
            continue
        if spec is not None and spec.origin is not None:
            found[name] = Path(spec.origin).read_text(encoding="utf-8")
            package = name if spec.submodule_search_locations else name.rpartition(".")[0]
            waiting += _imports(found[name], package)
    return found


def _imports(source: str, package: str) -> Iterator[str]:
    """Yield every name an ``import`` might load: ``from a import b`` gives ``a`` and ``a.b``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = util.resolve_name("." * node.level + (node.module or ""), package)
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))
