"""What tests need beyond Python and torch, as markers, and where their seconds go.

A fixture that starts something marks whatever asks for it; files whose tests start something by
themselves, train, or build the models of others are listed here. Nothing that protects a proof is:
golden answers, the adversary, enumeration, forgeries and mutants need Python and torch alone.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

RESOURCES = {
    "browser": "drives Chromium",
    "coq": "asks Coq",
    "postgres": "asks a PostgreSQL server of its own",
    "process": "starts interpreters, workers or servers",
    "training": "trains networks",
    "models": "builds models of transformers or TransformerLens",
}
FIXTURES = {
    "browser": "browser",
    "coq": "coq",
    "postgres": "postgres",
    "live_server": "process",
    "playground": "process",
    "cluster": "process",
}
FILES = {
    "process": re.compile(
        r"tests/(test_imports|cli/test_(app|serve)|docs/test_(pages|blocks)|test_readme"
        r"|experiments/(test_cli|engine/test_(cluster|kill))"
        r"|studio/(test_several_processes|test_nothing_is_lost|playground/test_workers))"
    ),
    "training": re.compile(
        r"tests/(experiments/(fang|jiang|yun|own|models)/|experiments/test_every_experiment"
        r"|learning/(ensembles|laws/trained)/)"
    ),
    "models": re.compile(r"tests/(spectra/|programs/test_(lens|stock_model))"),
}
PLAIN = "plain"


class Resources:
    """Markers before the tests; afterwards a table of seconds, and what was left out."""

    def __init__(self) -> None:
        self.seconds: Counter[tuple[str, str]] = Counter()
        self.left_out: Counter[str] = Counter()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Mark tests by the fixtures that they use and the files that they are in."""
        for item in items:
            found = {
                FIXTURES[name] for name in getattr(item, "fixturenames", ()) if name in FIXTURES
            }
            found |= {name for name, files in FILES.items() if files.match(item.nodeid)}
            for name in found:
                item.add_marker(name)

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Count what a resource alone keeps out of this run."""
        for item in items:
            if not item.get_closest_marker("slow"):
                self.left_out.update([_resource({mark.name for mark in item.iter_markers()})])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the time of a set-up, a call or a tear-down to its house and resource."""
        house = "/".join(report.nodeid.split("/")[:2]).partition("::")[0]
        self.seconds[house, _resource(set(report.keywords))] += report.duration

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Let a worker hand over what it left out."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["left_out"] = dict(self.left_out)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker left out; every worker collects the same."""
        self.left_out = Counter(getattr(node, "workeroutput", {}).get("left_out", {}))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the table, and what `make check` would add."""
        if sum(self.seconds.values()) > 60:
            self._print_table(terminalreporter)
        adds = [f"{count} {name}" for name, count in self.left_out.most_common() if name != PLAIN]
        if adds:
            terminalreporter.write_line(f"`make check` would add: {', '.join(adds)} tests.")

    def _print_table(self, terminalreporter: Any) -> None:
        columns = [name for name in (PLAIN, *RESOURCES) if any(self._of(name).values())]
        terminalreporter.section("seconds of tests by house and resource")
        terminalreporter.write_line(f"{'':24}" + "".join(f"{name:>10}" for name in columns))
        houses = Counter[str]()
        for (house, _), seconds in self.seconds.items():
            houses[house] += seconds
        for house, _ in houses.most_common():
            cells = [self.seconds[house, name] for name in columns]
            row = "".join(f"{cell:10.1f}" if cell else f"{'':10}" for cell in cells)
            terminalreporter.write_line(f"{house:24}{row}")
        sums = "".join(f"{sum(self._of(name).values()):10.1f}" for name in columns)
        terminalreporter.write_line(f"{'all':24}{sums}")

    def _of(self, resource: str) -> dict[str, float]:
        return {house: s for (house, name), s in self.seconds.items() if name == resource}


def _resource(names: set[str]) -> str:
    """The first resource among markers: a browser needs a process, too, and counts as one browser."""
    return next((name for name in RESOURCES if name in names), PLAIN)
