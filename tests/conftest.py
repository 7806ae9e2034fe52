"""Settings of all tests."""

import fcntl
import functools
import gc
import math
import os
import re
import signal
from collections.abc import Generator
from typing import Any

import pytest
import typer.testing
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.internal.conjecture import providers
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

# No outcome depends on how busy the machine is, and `make test` tries the same few examples every time.
# `make test-all` tries many more and other ones each time; in CI it repeats them, so that a change is
# never blamed for what it did not cause.
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
FEW_EXAMPLES = 10
settings.load_profile(PROFILE)

# Hypothesis also tries the constants of whatever modules of ours are loaded, so the examples of a test
# would depend on which tests its worker ran before; and reading them takes every worker seconds.
if PROFILE == "reproducible":
    providers._get_local_constants = lambda: providers._local_constants

# Nothing of what collection makes is garbage before the end, and looking for it takes seconds.
gc.disable()

TOGETHER = {
    "browser": re.compile(
        r"tests/studio/(flows/|playground/test_(layout|pictures)|test_every_page|.*(browser|embedding))"
    ),
    "coq": re.compile(r"tests/coq/"),
    "playground": re.compile(r"tests/studio/(playground/|test_permissions)"),
}


def _group(file: str) -> str:
    return next((name for name, files in TOGETHER.items() if files.search(file)), file)


class _ByFile(LoadFileScheduling):
    """A worker gets a file at a time, whose tests share what they set up, in the order of the files.

    Tests in a browser go to one worker, which alone starts a browser and the server that it visits;
    those of Coq to one that builds its library, those of the playground to one that starts its worker.
    """

    def _split_scope(self, nodeid: str) -> str:
        return _group(super()._split_scope(nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """Let workers collect one after another: the later ones read what the first compiles."""
    if not hasattr(session.config, "workerinput"):
        return (yield)
    with open(__file__) as mine:
        fcntl.flock(mine, fcntl.LOCK_EX)
        return (yield)


def pytest_collection_finish() -> None:
    """Look for garbage again, but not among the tests."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _ByFile:
    """Choose what a worker gets."""
    config.option.loadscopereorder = False
    return _ByFile(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes one worker long, thin out tables of cases, and scale properties."""
    items.sort(key=lambda item: _group(item.nodeid) not in TOGETHER)
    tests: dict[Any, list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function):
            tests.setdefault(item.function, []).append(item)
    for test, cases in tests.items():
        if spread := cases[0].get_closest_marker("spread"):
            for case in _others(cases, *spread.args):
                case.add_marker(pytest.mark.slow)
        if is_hypothesis_test(test):
            usual = test._hypothesis_internal_use_settings
            scaled = settings(usual, max_examples=_examples(usual.max_examples))
            test._hypothesis_internal_use_settings = scaled


def _others(cases: list[pytest.Function], count: int) -> list[pytest.Function]:
    """All but so many cases, which lie apart and have every value of every parameter if they can."""
    golden = (math.sqrt(5) - 1) / 2
    quick = [case for case in cases if not case.get_closest_marker("slow")]
    left = [quick[k] for k in sorted(range(len(quick)), key=lambda k: k * golden % 1)]
    seen: set[tuple[str, int]] = set()
    for _ in range(min(count, len(left))):
        chosen = max(left, key=lambda case: len(case.callspec.indices.items() - seen))
        seen.update(chosen.callspec.indices.items())
        left.remove(chosen)
    return left


def _examples(usual: int) -> int:
    """Five times as many in `make test-all`, a quarter in `make test`, where few stay as they are."""
    return 5 * usual if PROFILE == "thorough" else max(usual // 4, min(usual, FEW_EXAMPLES))
