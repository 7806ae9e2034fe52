"""Numbers in prose, read from ``results/`` and ``benchmarks/`` when the site is built.

``{{ value: NAME | PATH | FORMAT }}`` is one number of ``results/NAME.json`` or
``benchmarks/NAME.json``, in Python's format language. In results PATH is ``ROW``, for its mean, or
``ROW / COLUMN``. In benchmarks it is a key per level; a level that is a list takes the entry whose
words are the key, as in ``rows / dense 10 5, scaled / terms``. ``PATH ÷ PATH`` is a ratio and
``PATH minus PATH`` a difference. A name, a row or a key that does not exist raises.
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
VALUE = re.compile(r"\{\{ value: ([\w-]+) \| (.+?) \| ([^|{}]+?) \}\}")
MACRO = re.compile(r"\{\{ (?:value|table|figure|benchmark|drawn|gallery)\b.*")


def on_page_markdown(markdown, page, config, files):
    filled = VALUE.sub(lambda match: value(match[1], match[2], match[3]), markdown)
    if left := MACRO.search(filled):
        raise ValueError(f"{page.file.src_uri}: not a macro: {left[0]}")
    return filled


def value(name: str, path: str, form: str) -> str:
    """Return one number as text, such as ``value("jiang-table-2", "RNN, original", ".1e")``."""
    text = format(number(name, path), form)
    return re.sub(r"e([+-])0(\d)", r"e\1\2", text).replace("e+", "e")


def number(name: str, path: str) -> float:
    for operator, apply in (
        (" ÷ ", lambda a, b: a / b),
        (" minus ", lambda a, b: a - b),
    ):
        if operator in path:
            left, right = path.split(operator)
            return apply(number(name, left), number(name, right))
    for folder in ("results", "benchmarks"):
        file = ROOT / folder / f"{name}.json"
        if file.exists():
            data = json.loads(file.read_text())
            keys = path.split(" / ")
            if folder == "results":
                keys = ["rows", keys[0], *(keys[1:] or ["mean"])]
            return _found(data, keys, f"{folder}/{name}.json")
    raise ValueError(f"{name} is neither in results/ nor in benchmarks/")


def _found(data: object, keys: list[str], where: str) -> float:
    for key in keys:
        if isinstance(data, dict) and key in data:
            data = data[key]
        elif isinstance(data, list) and len(entries := [e for e in data if _is_named(e, key)]) == 1:
            (data,) = entries
        else:
            raise ValueError(f"{where} has no {key!r}, or several, on the way {' / '.join(keys)}")
    if not isinstance(data, int | float):
        raise ValueError(f"{where}: {' / '.join(keys)} is not a number but {data!r}")
    return data


def _is_named(entry: dict, key: str) -> bool:
    words = [word for word in entry.values() if isinstance(word, str)]
    return key in words or key == ", ".join(words)
