"""How far a grid is, on standard error: a live bar in a terminal, a line now and then elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from exactformer.experiments.engine.cell import Failure, Outcome

if TYPE_CHECKING:
    from rich.console import Console

_SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def progress(title: str, total: int, kept: int) -> Iterator[Callable[[Outcome], None]]:
    """Show ``kept`` of ``total`` cells, then one more at each call of the yielded function."""
    from rich.console import Console

    console = Console(stderr=True)
    if kept:
        console.print(f"{title}: {kept} of {total} cells are finished already", highlight=False)
    if kept == total:
        yield lambda outcome: None
    elif console.is_terminal:
        with _bar(console, title, total, kept) as advance:
            yield advance
    else:
        yield _lines(console, title, total, kept)


@contextmanager
def _bar(
    console: "Console", title: str, total: int, kept: int
) -> Iterator[Callable[[Outcome], None]]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]}", style="red"),
    )
    # Cells may take minutes: the speed is taken over the whole run, not over the last seconds.
    with Progress(*columns, console=console, speed_estimate_period=float("inf")) as bar:
        grid = bar.add_task(title, total=total, completed=kept, failed="")
        failed = 0

        def advance(outcome: Outcome) -> None:
            nonlocal failed
            failed += isinstance(outcome, Failure)
            bar.update(grid, advance=1, failed=f"{failed} failed" if failed else "")

        yield advance


def _lines(console: "Console", title: str, total: int, kept: int) -> Callable[[Outcome], None]:
    start = said = monotonic()
    done = failed = 0

    def advance(outcome: Outcome) -> None:
        nonlocal said, done, failed
        done += 1
        failed += isinstance(outcome, Failure)
        now, last = monotonic(), kept + done == total
        if last or now - said >= _SECONDS_BETWEEN_LINES:
            said = now
            left = (now - start) / done * (total - kept - done)
            trouble = f", {failed} failed" if failed else ""
            rest = "" if last else f", about {duration(left)} left"
            console.print(
                f"{title}: {kept + done} of {total} cells{trouble}{rest}", highlight=False
            )

    return advance


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
