"""A progress bar for what takes longer than two seconds, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic

_PATIENCE = 2.0


@contextmanager
def progress(steps: int) -> Iterator[Callable[[str], None]]:
    """Give a function that is told what begins; in a terminal it draws a bar."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    begin, done = monotonic(), 0
    columns = (TextColumn("{task.description:22}"), BarColumn(), TimeElapsedColumn())
    with ExitStack() as stack:
        bar = Progress(*columns, console=Console(stderr=True), transient=True)
        task = bar.add_task("", total=steps)

        def tell(what: str) -> None:
            nonlocal done
            bar.update(task, completed=done, description=what)
            done += 1
            late = monotonic() - begin >= _PATIENCE
            if late and sys.stderr.isatty() and not bar.live.is_started:
                stack.enter_context(bar)

        yield tell
