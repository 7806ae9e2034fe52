import io
import itertools
from contextlib import redirect_stderr

import pytest

from exactformer.progress import duration, progress, waiting


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that advances by a second whenever it is read."""
    ticks = itertools.count()
    monkeypatch.setattr("exactformer.progress.monotonic", lambda: next(ticks))


def test_a_bar_appears_once_two_seconds_have_passed(clock, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stderr(Terminal()) as terminal, progress("points", 10) as update:
        update(1)
        assert terminal.getvalue() == ""
        update(2)
        assert "points" in terminal.getvalue()


def test_a_bar_with_a_unit_counts_and_shows_the_note(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    bar = progress("toy", 10, unit="cells", done=3, patience=0, lines=True)
    with redirect_stderr(Terminal()) as terminal, bar as update:
        assert "3/10" in terminal.getvalue()
        update(4, "1 failed [sic]")
    assert "4/10" in terminal.getvalue()
    assert "1 failed [sic]" in terminal.getvalue()


@pytest.mark.parametrize("lines", [False, True])
def test_nothing_is_shown_where_nobody_wants_it(lines):
    bar = progress("points", 10, show=False, lines=lines, patience=0)
    with redirect_stderr(Terminal()) as terminal, bar as update:
        update(10)
    assert terminal.getvalue() == ""


def test_nothing_is_shown_of_work_that_was_done_before():
    bar = progress("toy", 10, done=10, patience=0, lines=True)
    with redirect_stderr(Terminal()) as terminal, bar:
        pass
    assert terminal.getvalue() == ""


def test_outside_a_terminal_only_those_who_ask_get_lines(capsys, clock):
    with progress("points", 30, patience=0) as update:
        update(30)
    assert capsys.readouterr().err == ""
    with progress("toy", 40, unit="cells", done=20, lines=True) as update:
        for done in range(21, 41):
            update(done)
    assert capsys.readouterr().err.splitlines() == [
        "toy: 30 of 40 cells, about 10 s left",
        "toy: 40 of 40 cells",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.1234, "0.12 s"), (42, "42 s"), (75, "1 min 15 s"), (7260, "2 h 1 min")]
)
def test_durations_read_as_one_says_them(seconds, text):
    assert duration(seconds) == text


@pytest.fixture
def instant(monkeypatch):
    """Timers that go off at once."""

    class Timer:
        def __init__(self, seconds, action):
            assert seconds == 2
            self.start = action
            self.cancel = self.join = lambda: None

    monkeypatch.setattr("threading.Timer", Timer)
    monkeypatch.setenv("TERM", "xterm")


def test_a_spinner_says_what_takes_long_and_goes_away(instant):
    with redirect_stderr(Terminal()) as terminal:
        with waiting("Prove [sic]", True):
            pass
        shown = terminal.getvalue()
        with pytest.raises(KeyboardInterrupt), waiting("Prove", True):
            raise KeyboardInterrupt
    assert "Prove [sic] …" in shown
    assert shown.endswith("\x1b[2K")  # the line is wiped


def test_no_spinner_outside_a_terminal_or_in_a_script(instant, capsys, monkeypatch):
    with waiting("Prove", True):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.delattr("sys.ps1", raising=False)
    with redirect_stderr(Terminal()) as terminal, waiting("Prove"):
        pass
    assert terminal.getvalue() == ""
    monkeypatch.setattr("sys.ps1", ">>> ", raising=False)
    with redirect_stderr(Terminal()) as terminal, waiting("Prove"):
        pass
    assert "Prove" in terminal.getvalue()


def test_short_work_shows_no_spinner(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stderr(Terminal()) as terminal, waiting("Prove", True):
        pass
    assert terminal.getvalue() == ""
