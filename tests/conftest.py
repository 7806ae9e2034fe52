"""Settings of all tests."""

import functools
import os
import re
import signal
from typing import Any

import pytest
import typer.testing
from hypothesis import HealthCheck, is_hypothesis_test, settings
from xdist.scheduler import LoadFileScheduling

# A shell that runs jobs in the background has them ignore Ctrl-C, and so would every program that
# tests start in order to interrupt it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Virtual machines may announce a matrix unit for bfloat16 (AMX) that they do not grant: torch then
# fails or dies in its first product. The next best instructions are on every machine that has it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# Typer builds every command anew for each call; once is enough for a process.
typer.testing._get_command = functools.cache(typer.testing._get_command)

# No outcome depends on how busy the machine is, and `make test` tries the same examples every time.
# `make test-all` tries more examples and other ones each time; in CI it repeats them, so that a change
# is never blamed for what it did not cause.
settings.register_profile(
    "reproducible",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile(
    "thorough", settings.get_profile("reproducible"), derandomize="CI" in os.environ
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "reproducible")
MORE_EXAMPLES = 5 if PROFILE == "thorough" else 1
settings.load_profile(PROFILE)

IN_A_BROWSER = re.compile(r"studio/(flows/|test_every_page|.*browser)")


class _ByFile(LoadFileScheduling):
    """A worker gets a file at a time, whose tests share what they set up, in the order of the files.

    Tests in a browser go to one worker, which alone starts a browser and the server that it visits.
    """

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return "browser" if IN_A_BROWSER.search(file) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _ByFile:
    """Choose what a worker gets."""
    config.option.loadscopereorder = False
    return _ByFile(config, log)


@pytest.fixture
def hardly_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let recommendations come from models that hardly trained: the test is not about the verdict."""
    recommending = "exactformer.learning.recommending"
    monkeypatch.setattr(f"{recommending}.gru._FEWEST", 12)
    monkeypatch.setattr(f"{recommending}.gru._MOST", 12)
    monkeypatch.setattr(f"{recommending}.heads._ROUNDS", 1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Multiply the examples of every property, also of one that sets a number of its own."""
    tests = {item.function for item in items if isinstance(item, pytest.Function)}
    for test in filter(is_hypothesis_test, tests):
        usual = test._hypothesis_internal_use_settings
        more = settings(usual, max_examples=MORE_EXAMPLES * usual.max_examples)
        test._hypothesis_internal_use_settings = more
