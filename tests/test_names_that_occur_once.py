"""Every public function and class is named somewhere besides its definition."""

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
READ = ("src", "tests", "docs", "examples", "benchmarks")
KINDS = {".py", ".md", ".html", ".js", ".yml", ".toml"}


def enters(decorator: ast.expr) -> bool:
    """Whether a decorator enters what it decorates somewhere, as those of routes and statements do."""
    return isinstance(decorator, ast.Call) and ast.unparse(decorator.func) != "dataclass"


def public(path: Path) -> list[str]:
    """Names that a module defines, or a class in it, and that no decorator enters somewhere."""
    tree = ast.parse(path.read_text())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    own = [node for body in (tree.body, *(c.body for c in classes)) for node in body]
    return [
        node.name
        for node in own
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not any(map(enters, node.decorator_list))
    ]


def test_no_public_name_occurs_once() -> None:
    words: Counter[str] = Counter()
    for path in (p for room in READ for p in (ROOT / room).rglob("*") if p.suffix in KINDS):
        words.update(re.findall(r"\w+", path.read_text()))
    defined = {n: str(p) for p in (ROOT / "src").rglob("*.py") for n in public(p)}
    assert {name: place for name, place in defined.items() if words[name] == 1} == {}
