"""Recipes: what of a Dask graph has to be computed for one block of rows, as one piece.

Tasks that serve one block alone, such as reading its file, run together with the pass's own work.
Run one by one they would hand whole blocks of rows from task to task, often to another worker. A task
that serves several blocks stays Dask's: it is computed once and its result given to each. So do all
tasks of collections that are in the memory of workers already.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Recipe:
    """Tasks of one block by key, the keys of its parts, and results it gets from elsewhere.

    ``shared`` has one of Dask's delayed objects for each of the keys ``given``.
    """

    tasks: dict[Any, Any]
    parts: list[Any]
    given: list[Any]
    shared: tuple[Any, ...]

    def rows(self, shared: Sequence[Any]) -> list[Any]:
        """Return the parts of the block, from the results that it shares with others."""
        from dask import get

        return list(get({**self.tasks, **dict(zip(self.given, shared, strict=True))}, self.parts))


def recipes(parts: Sequence[Any]) -> list[Recipe]:
    """Return a recipe for each block of Dask arrays that are cut into the same blocks of rows."""
    from dask import optimize
    from dask.core import flatten, get_dependencies
    from dask.delayed import Delayed

    if _in_memory(parts):
        pairs = zip(*(part.to_delayed().ravel() for part in parts), strict=True)
        return [Recipe({}, [d.key for d in pair], [d.key for d in pair], pair) for pair in pairs]
    parts = optimize(*parts)
    graph = {key: task for part in parts for key, task in dict(part.__dask_graph__()).items()}
    blocks = list(zip(*(list(flatten(part.__dask_keys__())) for part in parts), strict=True))
    needs = {key: get_dependencies(graph, key) for key in graph}
    owner: dict[Any, int | None] = {}
    for place, ends in enumerate(blocks):
        waiting: list[tuple[Any, int | None]] = [(key, place) for key in ends]
        while waiting:
            key, asking = waiting.pop()
            own = asking if owner.get(key, asking) == asking else None
            if key not in owner or owner[key] != own:
                owner[key] = own
                waiting += [(other, own) for other in needs[key]]
    elsewhere = {key: graph[key] for key, own in owner.items() if own is None}
    delayed = {key: Delayed(key, elsewhere) for key in elsewhere}
    tasks: list[dict[Any, Any]] = [{} for _ in blocks]
    for key, own in owner.items():
        if own is not None:
            tasks[own][key] = graph[key]
    found = []
    for ends, alone in zip(blocks, tasks, strict=True):
        asked = {*ends, *(other for key in alone for other in needs[key])}
        given = [key for key in asked if key not in alone]
        found.append(Recipe(alone, list(ends), given, tuple(delayed[key] for key in given)))
    return found


def _in_memory(parts: Sequence[Any]) -> bool:
    """Whether workers hold results that collections are made of."""
    if "distributed" not in sys.modules:
        return False
    from distributed import futures_of

    return bool(futures_of(list(parts)))
