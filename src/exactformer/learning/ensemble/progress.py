"""A progress bar for training that takes longer than two seconds, on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

_PATIENCE = 2.0


@contextmanager
def progress(models: int, total: int) -> Iterator[Callable[[int], None]]:
    """Give a function that is told how many steps are done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    screen = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Remaining())
    bar = Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal)
    task, begin = bar.add_task(f"{models} models", total=total), monotonic()

    def tell(done: int) -> None:
        bar.update(task, completed=done)
        if not bar.live.is_started and monotonic() - begin >= _PATIENCE:
            bar.start()

    try:
        yield tell
    finally:
        bar.stop()
