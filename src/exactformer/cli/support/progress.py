"""A progress bar for what takes longer than two seconds, on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from exactformer.cli.support.output import console

PATIENCE = 2.0


@contextmanager
def progress(
    what: str, total: int | None, patience: float = PATIENCE
) -> Iterator[Callable[[int], None]]:
    """Give a function that is told how much is done; the bar appears only if it is worth it."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    screen = console(stderr=True)
    bar = Progress(
        TextColumn("[cyan]{task.description}"),
        BarColumn(bar_width=40),
        TextColumn("{task.percentage:>3.0f} %" if total else "{task.completed:,}"),
        TimeRemainingColumn(compact=True),
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    )
    task = bar.add_task(what, total=total)
    begin = monotonic()

    def advance(done: int) -> None:
        bar.update(task, completed=done)
        if not bar.live.is_started and monotonic() - begin >= patience:
            bar.start()

    try:
        yield advance
    finally:
        bar.stop()
