"""Progress on standard error: a bar in a terminal, and elsewhere nothing or a line now and then."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic
from typing import Protocol

PATIENCE = 2.0
"""Seconds before a bar appears: shorter work shows none."""
_SECONDS_BETWEEN_LINES = 10.0


class Update(Protocol):
    """Takes how much is done in all, and a note to show behind it."""

    def __call__(self, done: int, note: str = "") -> None:
        """Show it."""


@contextmanager
def progress(
    title: str,
    total: int | None,
    show: bool = True,
    *,
    unit: str = "",
    done: int = 0,
    patience: float = PATIENCE,
    lines: bool = False,
) -> Iterator[Update]:
    """Yield the function to call as work gets done; ``show=False`` shows nothing.

    A terminal shows a bar after ``patience`` seconds: in percent, or with a ``unit`` as "3/10". Where
    standard error is not a terminal, ``lines`` prints a line every ten seconds and one at the end.
    Work that prints lines leaves its finished bar behind, too.
    """
    begin, start = monotonic(), done
    with ExitStack() as stack:
        if not show or (lines and done == total):
            yield _nothing
        elif not sys.stderr.isatty():
            yield _lines(title, total, unit, done, begin) if lines and total else _nothing
        else:
            bar: Callable[[int, str], None] | None = None

            def update(done: int, note: str = "") -> None:
                nonlocal bar
                if bar is None and monotonic() - begin >= patience:
                    bar = stack.enter_context(_bar(title, total, unit, start, not lines))
                if bar is not None:
                    bar(done, note)

            if not patience:
                update(done)
            yield update


@contextmanager
def waiting(what: str, show: bool | None = None) -> Iterator[None]:
    """Show a spinner in a terminal once the work inside takes longer than two seconds.

    ``show=None`` shows it only where Python is used interactively.
    """
    from threading import Timer

    if not sys.stderr.isatty() or not (hasattr(sys, "ps1") if show is None else show):
        yield
        return
    stack = ExitStack()

    def spin() -> None:
        from rich.console import Console
        from rich.text import Text

        stack.enter_context(Console(stderr=True).status(Text(f"{what} …")))

    timer = Timer(PATIENCE, spin)
    timer.daemon = True
    timer.start()
    with stack:
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # a spinner that has just begun is ended, too


def duration(seconds: float) -> str:
    """Return a length of time as one reads it.

    >>> duration(0.1234), duration(75), duration(7260)
    ('0.12 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _nothing(done: int, note: str = "") -> None:
    pass


def _lines(title: str, total: int, unit: str, start: int, begin: float) -> Update:
    printed = begin

    def update(done: int, note: str = "") -> None:
        nonlocal printed
        now = monotonic()
        if done < total and now - printed < _SECONDS_BETWEEN_LINES:
            return
        printed = now
        left = (now - begin) / max(1, done - start) * (total - done)
        parts = [f"{title}: {done} of {total} {unit}", note]
        parts += [f"about {duration(left)} left"] if done < total else []
        print(", ".join(part for part in parts if part), file=sys.stderr, flush=True)

    return update


@contextmanager
def _bar(
    title: str, total: int | None, unit: str, start: int, transient: bool
) -> Iterator[Callable[[int, str], None]]:
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.MofNCompleteColumn() if unit or total is None else rich.TaskProgressColumn(),
        rich.TimeElapsedColumn(),
        rich.TextColumn("left"),
        rich.TimeRemainingColumn(),
        rich.TextColumn("{task.fields[note]}", markup=False),
    )
    console = Console(stderr=True)
    # A step may take minutes: the speed is taken over the whole run, not over the last seconds.
    with rich.Progress(
        *columns, console=console, transient=transient, speed_estimate_period=float("inf")
    ) as bar:
        task = bar.add_task(title, total=total, completed=start, note="")
        yield lambda done, note: bar.update(task, completed=done, note=note)
