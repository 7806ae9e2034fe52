"""Settings of all tests."""

import gc
import math
import os
import re
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.resources import Resources

# A shell that runs jobs in the background has them ignore Ctrl-C, and so would every program that
# tests start in order to interrupt it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Virtual machines may announce a matrix unit for bfloat16 (AMX) that they do not grant: torch then
# fails or dies in its first product. The next best instructions are on every machine that has it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# No outcome depends on how busy the machine is, and `make test` tries the same few examples every time.
# `make test-all` tries many more and other ones each time; in CI it repeats them, so that a change is
# never blamed for what it did not cause. Tests that name a count scale it: tests/examples.py.
settings.register_profile(
    "reproducible",
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile(
    "thorough",
    settings.get_profile("reproducible"),
    max_examples=500,
    derandomize="CI" in os.environ,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "reproducible"))

# Nothing of what collection makes is garbage before the end, and looking for it takes seconds.
gc.disable()

# What one worker alone runs, since what it starts is dear: a browser and the server that it visits,
# Coq's library, the playground's worker. All other tests go to workers by file, and share what a file
# sets up. These begin first, in this order.
TOGETHER = {
    "browser": re.compile(
        r"tests/studio/(flows/|playground/test_(layout|pictures)|test_every_page|.*(browser|embedding))"
    ),
    "coq": re.compile(r"tests/coq/"),
    "playground": re.compile(r"tests/studio/(playground/|test_permissions)"),
}


def pytest_configure(config: pytest.Config) -> None:
    """Mark tests by what they need, and count their seconds."""
    config.pluginmanager.register(Resources())


def pytest_collection_finish() -> None:
    """Look for garbage again, but not among the tests."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say what goes to one worker, begin with what takes it long, and thin out tables of cases."""
    tests: dict[Any, list[pytest.Function]] = {}
    for item in items:
        file = item.nodeid.partition("::")[0]
        group = next((name for name, files in TOGETHER.items() if files.search(file)), file)
        if item.get_closest_marker("postgres"):
            group = "postgres"  # another worker's writes are changes to the same server
        item.add_marker(pytest.mark.xdist_group(group))
        if isinstance(item, pytest.Function):
            tests.setdefault(item.function, []).append(item)
    order = {name: place for place, name in enumerate(TOGETHER)}
    items.sort(key=lambda item: order.get(_group(item), len(order)))
    for cases in tests.values():
        if spread := cases[0].get_closest_marker("spread"):
            for case in _others(cases, *spread.args):
                case.add_marker(pytest.mark.slow)


def _group(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    assert mark is not None
    return str(mark.args[0])


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
