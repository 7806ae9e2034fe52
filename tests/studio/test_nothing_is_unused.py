"""Nothing in the studio is there for nobody: every name, template and style occurs somewhere else."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from exactformer.studio.settings import PACKAGE

HOOKS = {"process_bind_param", "process_result_value", "upgrade", "htmx-request"}
"""Names by which a library calls or marks what is ours."""


def read(folder: Path, *kinds: str) -> dict[Path, str]:
    files = (path for kind in kinds for path in folder.rglob(f"*.{kind}"))
    return {path: path.read_text() for path in files if "vendor" not in path.parts}


SOURCES = read(PACKAGE, "py", "html", "js")
OTHERS = read(PACKAGE.parent / "cli", "py")


def test_every_function_class_and_constant_is_used() -> None:
    counted = Counter(re.findall(r"\w+", "\n".join([*SOURCES.values(), *OTHERS.values()])))
    unused = []
    for path, text in SOURCES.items():
        if path.suffix != ".py" or "versions" in path.parts:
            continue
        tree = ast.parse(text)
        named = [
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and not node.decorator_list
        ]
        assigned = [node.targets for node in tree.body if isinstance(node, ast.Assign)]
        named += [each.id for targets in assigned for each in targets if isinstance(each, ast.Name)]
        unused += [
            f"{path}: {name}" for name in named if counted[name] == 1 and not name.startswith("__")
        ]
    assert [each for each in unused if each.rpartition(" ")[2] not in HOOKS] == []


def test_every_template_is_named() -> None:
    texts = "\n".join(SOURCES.values())
    templates = PACKAGE / "templates"
    names = [str(path.relative_to(templates)) for path in templates.rglob("*.html")]
    assert [name for name in names if name not in texts] == []


def test_every_style_has_an_element() -> None:
    texts = "\n".join(SOURCES.values())
    words = set(re.findall(r"[\w-]+", texts))
    unused = []
    for path, text in read(PACKAGE / "static", "css").items():
        rules = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        for name in set(re.findall(r"\.([a-zA-Z_][\w-]*)(?=[^{}]*\{)", rules)) - words - HOOKS:
            stem, variant, _ = name.partition("--")  # "badge--" and a tone make a class
            if not variant or f"{stem}--" not in texts:
                unused.append(f"{path.name}: {name}")
    assert unused == []
