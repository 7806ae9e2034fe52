"""A module's functions and constants exchanged for those of another source, while it is in use.

Whoever has imported a function of the module goes on with the changed one: the function stays the same
object and gets other code. So a process can import everything once, fork, and change its copy.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cached_property
from types import FunctionType, ModuleType
from typing import Any


def swap(module: ModuleType, source: str) -> None:
    """Give a module the functions and constants of a changed source."""
    assert module.__file__ is not None
    changed: dict[str, Any] = {"__name__": module.__name__, "__file__": module.__file__}
    exec(compile(source, module.__file__, "exec", dont_inherit=True), changed)
    for name, old in list(vars(module).items()):
        if name in changed and not name.startswith("__"):
            _exchange(module, name, old, changed[name])


def _exchange(module: ModuleType, name: str, old: Any, new: Any) -> None:
    if callable(old) and getattr(old, "__module__", None) != module.__name__:
        return  # imported from elsewhere
    if isinstance(old, type):
        for attribute, value in list(vars(old).items()):
            for was, now in _functions(value, vars(new).get(attribute)):
                _take_over(was, now)
        return
    functions = list(_functions(old, new))
    for was, now in functions:
        _take_over(was, now)
    if not functions and old != new:
        for other in list(sys.modules.values()):
            if getattr(other, "__dict__", {}).get(name) is old:
                setattr(other, name, new)


def _functions(old: Any, new: Any) -> Iterator[tuple[FunctionType, FunctionType]]:
    """Yield the functions behind an attribute, before and after."""
    if isinstance(old, FunctionType):
        # A decorator's wrapper goes on calling the function in its closure: that is the one to change.
        yield getattr(old, "__wrapped__", old), getattr(new, "__wrapped__", new)
    elif isinstance(old, classmethod | staticmethod):
        yield from _functions(old.__func__, new.__func__)
    elif isinstance(old, property):
        yield from _functions(old.fget, new.fget)
    elif isinstance(old, cached_property):
        yield from _functions(old.func, new.func)
    elif hasattr(old, "cache_clear"):
        old.cache_clear()
        yield from _functions(old.__wrapped__, new.__wrapped__)


def _take_over(old: FunctionType, new: FunctionType) -> None:
    old.__defaults__, old.__kwdefaults__ = new.__defaults__, new.__kwdefaults__
    if old.__code__.co_filename == new.__code__.co_filename != "<string>":
        old.__code__ = new.__code__
