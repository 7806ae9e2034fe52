"""Walks through the code: how often a reader changes package along the way of a call.

    python -m tests.walks

Functions are taken in the order of their first call. A package is a folder directly inside the library.
The last column leaves out methods: arithmetic on upper bounds, properties of a domain or a matrix are
words of a sentence, not places that a reader goes to.
The second table counts imports among the families and the core that stay inside one of them or lead to
the core.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import exactformer as ef

ROOT = Path(ef.__file__).parent
FAMILIES = ("core", "polynomials", "sequences", "couplings")

WALKS: dict[str, Callable[[], Any]] = {
    'ef.compile("x^2+y^2", radius=2)': lambda: ef.compile("x^2+y^2", radius=2),
    "ef.compile_sequence(sort, tokens=3, dim=1, delta='1/8')": lambda: ef.compile_sequence(
        lambda X: np.sort(X, axis=0), tokens=3, dim=1, delta="1/8", positional=True
    ),
    "ef.compile_coupling(sine_family(…), head_dim=3)": lambda: ef.compile_coupling(
        ef.targets.sine_family([1.0, 0.5, 0.25], tau=4), head_dim=3
    ),
}


def functions_along(call: Callable[[], Any]) -> list[tuple[Path, str]]:
    """Return file and name of every function of the library, in the order of first calls."""
    seen: set[Any] = set()
    order: list[tuple[Path, str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code not in seen and code.co_filename.startswith(str(ROOT)):
            seen.add(code)
            if not code.co_name.startswith("<"):
                order.append((Path(code.co_filename).relative_to(ROOT), code.co_qualname))

    call()  # what is imported on the way is not part of it
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return order


def changes(files: list[Path]) -> int:
    """Return how often neighbours are in different packages."""
    return sum(a.parts[0] != b.parts[0] for a, b in pairwise(files))


def is_method(name: str) -> bool:
    """Whether a qualified name is that of a method."""
    return "." in name.replace(".<locals>.", "")


def local_imports() -> tuple[int, int]:
    """Return how many imports of families and core stay inside or lead to the core, and all."""
    inside = total = 0
    for family in FAMILIES:
        for path in (ROOT / family).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.ImportFrom) or node.module is None:
                    continue
                parts = node.module.split(".")
                if parts[0] == "exactformer" and len(parts) > 1 and parts[1] in FAMILIES:
                    total += 1
                    inside += parts[1] in (family, "core")
    return inside, total


def main() -> None:
    """Print both tables."""
    print(f"{'functions':>9} {'files':>6} {'package changes':>16} {'without methods':>16}")
    for name, call in WALKS.items():
        order = functions_along(call)
        files = [path for path, _ in order]
        plain = [path for path, function in order if not is_method(function)]
        counts = f"{changes(files):>16} {changes(plain):>16}"
        print(f"{len(files):>9} {len(set(files)):>6} {counts}  {name}")
    inside, total = local_imports()
    print(
        f"\n{inside} of {total} imports ({inside / total:.0%}) stay in a family or lead to the core"
    )


if __name__ == "__main__":
    main()
