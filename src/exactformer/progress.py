"""A progress bar for what takes longer than two seconds, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic

_PATIENCE = 2.0


@contextmanager
def progress(what: str, total: int | None, show: bool = True) -> Iterator[Callable[[int], None]]:
    """Give a function that is told how much is done; in a terminal it draws a bar.

    ``show=False`` draws none.
    """
    begin, update = monotonic(), None
    with ExitStack() as stack:

        def tell(done: int) -> None:
            nonlocal update
            patient = monotonic() - begin < _PATIENCE
            if show and update is None and not patient and sys.stderr.isatty():
                update = stack.enter_context(_bar(what, total))
            if update is not None:
                update(done)

        yield tell


@contextmanager
def _bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)
