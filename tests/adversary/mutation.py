"""Mutation of the proofs: every check is removed or weakened in turn, and some test must fail.

    python -m tests.adversary.mutation [FILES…] [--jobs N] [--json FILE] [--list]

FILES are names of proof modules or of a group of them (``polynomials``, ``programs``, ``sequences``,
…). All tests are collected once. Every mutant is then tried in a fork, in which the changed functions
take the place of the module's; the file on disk stays as it is. Tests that run the changed line are
tried before others (where Python can tell, from 3.12), quick ones before slow ones. A mutant is killed
by the first test that fails, or by the time limit if it hangs. One that survives is a gap in the tests,
unless it is listed with the reason why it changes no verdict.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from math import inf
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.adversary import equivalent_polynomials, equivalent_programs, equivalent_sequences
from tests.adversary.mutants import Mutant, mutants
from tests.adversary.swapping import swap

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "exactformer"
EQUIVALENT = (
    equivalent_polynomials.EQUIVALENT
    | equivalent_programs.EQUIVALENT
    | equivalent_sequences.EQUIVALENT
)
PROFILE = "mutation"
LIMIT = 900
"""Seconds after which a mutant counts as hanging."""

_CERTIFICATES = (
    "polynomials/proof/test_selection_steps.py",
    "polynomials/proof/test_thresholds.py",
    "polynomials/proof/test_tampering.py",
    "polynomials/proof/test_zero_error.py",
    "polynomials/proof/test_certificate.py",
    "polynomials/proof/test_selection.py",
)
_ROUNDING = (
    "polynomials/proof/test_literal_rounding_steps.py",
    "polynomials/proof/test_worst_literal.py",
    "polynomials/proof/test_literal_rounding.py",
    "polynomials/proof/test_rounding.py",
)
_SOFTMAX = (
    "polynomials/proof/test_softmax_error_steps.py",
    "polynomials/proof/test_worst_softmax.py",
    "polynomials/proof/test_softmax_symbolic.py",
    "polynomials/proof/test_softmax_error.py",
    "polynomials/proof/test_softmax_certificate.py",
)
_SEARCH = "adversary/test_polynomials.py"
_SEQUENCES = (
    "sequences/proof/test_lookups.py",
    "sequences/proof/test_forgeries.py",
    "sequences/proof/test_certify.py",
    "sequences/proof/test_softness.py",
    "sequences/test_measure.py",
    "adversary/test_sequences.py",
)
_COUPLINGS = (
    "couplings/proof/test_suprema.py",
    "couplings/proof/test_stated.py",
    "couplings/proof/test_terms.py",
    "couplings/proof/test_bound.py",
    "couplings/test_errata.py",
    "couplings/run/test_runs.py",
    "couplings/test_files_and_bounds.py",
    "couplings/test_model.py",
)
_PROGRAMS = (
    "programs/proof/test_refusals.py",
    "programs/proof/test_forgeries.py",
    "programs/test_model.py",
    "programs/test_library.py",
    "programs/test_random_programs.py",
    "adversary/test_programs.py",
)
_PROGRAM_PROOFS = (
    "arithmetic", "attention", "cases", "certificate", "feed_forward", "induction", "scores", "shapes",
    "state",
)  # fmt: skip
_CLAIMS = (
    "programs/proof/claims/test_rules.py",
    "programs/proof/claims/test_nodes.py",
)
_PROGRAM_CLAIMS = (
    "facts", "claims/aggregates", "claims/differences", "claims/nodes", "claims/selection",
    "claims/selectors",
)  # fmt: skip

GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "polynomials": {
        "polynomials/proof/selection.py": (*_CERTIFICATES, _SEARCH),
        "polynomials/proof/identity.py": (*_CERTIFICATES, _SEARCH),
        "polynomials/proof/certify.py": (*_CERTIFICATES, *_ROUNDING, _SOFTMAX[-1], _SEARCH),
        "polynomials/proof/softmax_certificate.py": (*_SOFTMAX, _SEARCH),
        "polynomials/proof/symbolic.py": (
            "polynomials/proof/test_symbolic.py",
            *_CERTIFICATES,
            *_SOFTMAX,
            _SEARCH,
        ),
        "core/upper.py": ("core/test_upper.py",),
        "polynomials/proof/magnitudes.py": (
            "polynomials/proof/test_magnitudes.py",
            "polynomials/proof/test_worst_closed_form.py",
            *_CERTIFICATES,
            *_ROUNDING,
            "polynomials/run/test_closed_form_module.py",
            _SEARCH,
        ),
        "polynomials/proof/folded_tables.py": (
            "polynomials/proof/test_folded_tables.py",
            *_ROUNDING,
            _SEARCH,
        ),
        "polynomials/proof/shared_polynomials.py": (
            "polynomials/proof/test_softmax_symbolic.py",
            "polynomials/proof/test_symbolic.py",
            *_CERTIFICATES,
            _SEARCH,
        ),
        "polynomials/proof/literal_rounding.py": (
            *_ROUNDING,
            "polynomials/proof/test_folded_tables.py",
            *_SOFTMAX,
            _SEARCH,
        ),
        "polynomials/proof/closed_form_rounding.py": (
            "polynomials/proof/test_closed_form_rounding.py",
            "polynomials/proof/test_worst_closed_form.py",
            "polynomials/run/test_closed_form_module.py",
            *_ROUNDING,
            _SEARCH,
        ),
        "polynomials/proof/softmax_symbolic.py": (*_SOFTMAX, _SEARCH),
        "polynomials/proof/softmax_error.py": (*_SOFTMAX, _SEARCH),
        "core/domain.py": (
            "core/test_domain.py",
            "polynomials/proof/test_magnitudes.py",
            *_CERTIFICATES,
            _SEARCH,
        ),
        "algebra/chebyshev.py": (
            "algebra/test_chebyshev.py",
            "polynomials/proof/test_magnitudes.py",
            "polynomials/proof/test_symbolic.py",
            *_CERTIFICATES,
        ),
    },
    "programs": {
        f"programs/proof/{name}.py": (f"programs/proof/test_{name}.py", *_PROGRAMS)
        for name in _PROGRAM_PROOFS
    }
    | {f"programs/proof/{name}.py": (*_CLAIMS, *_PROGRAMS) for name in _PROGRAM_CLAIMS},
    "sequences": {
        "sequences/proof/certify.py": _SEQUENCES,
        "sequences/proof/lookups.py": _SEQUENCES,
        "sequences/proof/cells.py": ("sequences/proof/test_cells.py", *_SEQUENCES),
        "sequences/proof/integers.py": (
            "sequences/proof/test_integers.py",
            *_SEQUENCES,
        ),
        "sequences/proof/outside.py": ("sequences/proof/test_outside.py", *_SEQUENCES),
        "sequences/proof/softness.py": (
            "sequences/proof/test_relus.py",
            "sequences/proof/test_softness.py",
            *_SEQUENCES,
            "sequences/constructions/test_softening.py",
        ),
        "sequences/proof/leakage.py": (
            "sequences/proof/test_leakage.py",
            "sequences/proof/test_softness.py",
            *_SEQUENCES,
        ),
        "sequences/proof/error.py": (
            "sequences/proof/test_error.py",
            "sequences/test_measure.py",
            *_SEQUENCES,
        ),
        "sequences/proof/relu_rounding.py": (
            "sequences/test_literal.py",
            "sequences/constructions/test_softening.py",
        ),
        "sequences/proof/layer_rounding.py": (
            "sequences/proof/test_layer_rounding.py",
            "sequences/test_floats.py",
        ),
        "sequences/shapes.py": ("sequences/test_shapes.py", *_SEQUENCES),
        "sequences/floats.py": ("sequences/test_floats.py", *_SEQUENCES),
        "sequences/compile.py": (
            "sequences/test_floats.py",
            *_SEQUENCES,
            "sequences/test_model.py",
        ),
        "couplings/proof/bound.py": _COUPLINGS,
        "couplings/proof/stated.py": _COUPLINGS,
        "couplings/proof/rounding.py": (
            "couplings/proof/test_rounding.py",
            *_COUPLINGS,
        ),
        "couplings/proof/slopes.py": ("couplings/proof/test_slopes.py", *_COUPLINGS),
    },
}
"""Proof modules, and for each the tests that are run against its mutants."""

FUNCTIONS: dict[str, tuple[str, ...]] = {
    "polynomials/proof/certify.py": ("SLACK", "certify_blueprint", "_certify_softmax"),
    "core/domain.py": ("enlarged", "reach", "extent", "offset", "root_above"),
    "algebra/chebyshev.py": ("absolute_sum", "_convert", "_matrix"),
    "sequences/compile.py": ("prove_sequence", "prove_stored", "load_sequence_model"),
}
"""Modules of which a proof uses only some functions and constants."""

TESTS = {file: tests for group in GROUPS.values() for file, tests in group.items()}


@dataclass(frozen=True)
class Result:
    """What became of a mutant: ``killed`` (by a test), ``survived``, ``hung`` or ``equivalent``."""

    id: str
    file: str
    function: str
    kind: str
    before: str
    after: str
    outcome: str
    by: str
    seconds: float

    @classmethod
    def of(cls, mutant: Mutant, outcome: str, by: str, seconds: float = 0.0) -> Result:
        """Return the result of a mutant."""
        parts = mutant.file, mutant.function, mutant.kind, mutant.before, mutant.after
        return cls(mutant.id, *parts, outcome, by, round(seconds, 2))


def mutants_of(file: str) -> list[Mutant]:
    """Return the mutants of a proof module, named by its path inside the package."""
    return mutants(file, (PACKAGE / file).read_text(encoding="utf-8"), FUNCTIONS.get(file, ()))


@dataclass(eq=False)
class _Reports:
    """What pytest reports: which tests and files failed, and how long each test took."""

    failed: list[str] = field(default_factory=list)
    seconds: Counter[str] = field(default_factory=Counter)
    lines: dict[str, list[str]] = field(default_factory=dict)
    """For every test, the lines of proof modules that it runs, as ``file:line``."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome of a phase of a test."""
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep a file that could not be read."""
        if report.failed:
            self.failed.append(report.nodeid)


class _Trial:
    """A plugin for pytest that tries mutants in place of running the tests that were collected."""

    def __init__(
        self, chosen: Sequence[Mutant], jobs: int, limit: float, quick: float, budget: float
    ) -> None:
        self.chosen, self.jobs, self.limit = chosen, jobs, limit
        self.quick, self.budget = quick, budget
        self.reports = _Reports()
        self.results: list[Result] = []
        self.keep: Callable[[Result], None] = self.results.append

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run all tests as things are, then those of its module against every mutant."""
        for name in self.reports.failed:
            print(f"left out, as it cannot be read here: {name}")
        items: dict[str, list[pytest.Item]] = {}
        for item in session.items:
            items.setdefault(item.nodeid.partition("::")[0], []).append(item)
        self._try_mutants(items, *self._as_things_are(items))
        return True

    def _as_things_are(
        self, items: dict[str, list[pytest.Item]]
    ) -> tuple[Counter[str], dict[str, set[str]], set[str]]:
        """Return how long every test takes, what it runs, and which fail here in any case."""

        def work(path: str) -> Any:
            for item in items[path]:
                with _lines_run() as lines:
                    _run(item)
                self.reports.lines[item.nodeid] = sorted(lines)
            return self.reports.failed, self.reports.seconds, self.reports.lines

        self.reports.failed.clear()
        seconds, failing = Counter[str](), set[str]()
        runs: dict[str, set[str]] = {}
        for path, answer, output, took in _in_children(items, work, self.jobs, self.limit):
            print(f"{took:8.1f} s  {path}", flush=True)
            if answer is None:
                print(f"left out, as its process ends: {path} {output}", flush=True)
                failing.update(item.nodeid for item in items[path])
                continue
            for name in answer[0]:
                print(f"left out, as it fails without a change: {name}", flush=True)
            failing.update(answer[0])
            seconds.update(answer[1])
            runs |= {test: set(lines) for test, lines in answer[2].items()}
        return seconds, runs, failing

    def _try_mutants(
        self,
        items: dict[str, list[pytest.Item]],
        seconds: Counter[str],
        runs: dict[str, set[str]],
        failing: set[str],
    ) -> None:
        def work(mutant: Mutant) -> Any:
            module = "exactformer." + mutant.file.removesuffix(".py").replace("/", ".")
            paths = [f"tests/{test}" for test in dict.fromkeys(TESTS[mutant.file])]
            tests = [item for path in paths for item in items.get(path, [])]
            try:
                swap(import_module(module), mutant.source)
            except Exception as error:  # a mutant that cannot even be imported
                return f"import: {type(error).__name__}"
            place, left = f"{mutant.file}:{mutant.line}", self.budget
            order = {
                item: (place not in runs.get(item.nodeid, ()), seconds[item.nodeid])
                for item in tests
                if item.nodeid not in failing and seconds[item.nodeid] <= self.quick
            }
            for item in sorted(order, key=lambda item: order[item]):
                left -= seconds[item.nodeid]
                if left < 0:
                    break
                _run(item)
                if self.reports.failed:
                    return self.reports.failed[0]
            return ""

        for mutant, by, output, took in _in_children(self.chosen, work, self.jobs, self.limit):
            if by is None:
                hung = took > self.limit
                self.keep(Result.of(mutant, "hung" if hung else "killed", output, took))
            else:
                self.keep(Result.of(mutant, "killed" if by else "survived", by, took))


@contextlib.contextmanager
def _lines_run() -> Iterator[set[str]]:
    """Collect the lines of proof modules that are run, as ``file:line``; none before Python 3.12."""
    lines: set[str] = set()
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is None:
        yield lines
        return
    files = {str(PACKAGE / file): file for file in TESTS}

    def met(code: CodeType, line: int) -> Any:
        if code.co_filename in files:
            lines.add(f"{files[code.co_filename]}:{line}")
        return monitoring.DISABLE

    tool, event = monitoring.COVERAGE_ID, monitoring.events.LINE
    monitoring.use_tool_id(tool, PROFILE)
    monitoring.register_callback(tool, event, met)
    monitoring.restart_events()
    monitoring.set_events(tool, event)
    try:
        yield lines
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)


def _run(item: pytest.Item) -> None:
    """Run one test with all its fixtures, and take them down."""
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)


@dataclass
class _Child:
    task: Any
    started: float
    answer: Path


def _in_children(
    tasks: Iterable[Any], work: Any, jobs: int, limit: float
) -> Iterator[tuple[Any, Any, str, float]]:
    """Do work on each task in a fork; yield task, answer (``None`` if it ended), output, seconds."""
    running: dict[int, _Child] = {}
    waiting = iter(tasks)
    exhausted = False
    with tempfile.TemporaryDirectory() as folder:
        count = 0
        while running or not exhausted:
            while len(running) < jobs and not exhausted:
                task = next(waiting, None)
                if task is None:
                    exhausted = True
                    break
                place = Path(folder) / str(count)
                count += 1
                running[_fork(work, task, place)] = _Child(task, time.monotonic(), place)
            for process, child in list(running.items()):
                seconds = time.monotonic() - child.started
                ended = os.waitpid(process, os.WNOHANG)[0] == process
                if not ended and seconds <= limit:
                    continue
                if not ended:
                    os.killpg(process, signal.SIGKILL)
                    os.waitpid(process, 0)
                del running[process]
                yield child.task, *_answer(child.answer), seconds
            time.sleep(0.02)


def _fork(work: Any, task: Any, answer: Path) -> int:
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.setpgid(0, 0)
        with open(f"{answer}.out", "wb") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        text = json.dumps(work(task))
        answer.write_text(text, encoding="utf-8")
        code = 0
    except BaseException as error:
        with contextlib.suppress(OSError):
            print(f"{type(error).__name__}: {error}", flush=True)
    finally:
        os._exit(code)


def _answer(path: Path) -> tuple[Any, str]:
    """Return what a child wrote; of one that was ended, the last line of its output."""
    try:
        return json.loads(path.read_text(encoding="utf-8")), ""
    except (OSError, ValueError):
        output = Path(f"{path}.out")
        text = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
        return None, "".join(text.strip().splitlines()[-1:])


def examine(
    chosen: Sequence[Mutant],
    jobs: int = 1,
    limit: float = LIMIT,
    quick: float = inf,
    budget: float = inf,
    keep: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Try mutants; ``keep`` is given each result as it comes.

    Tests that take more than ``quick`` seconds are left out, and those of one mutant that would
    together take more than ``budget``.
    """
    import torch

    os.chdir(ROOT)
    torch.set_num_threads(1)
    # No shrinking: that a test fails is enough.
    settings.register_profile(
        PROFILE,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    os.environ["HYPOTHESIS_PROFILE"] = PROFILE
    known = [mutant for mutant in chosen if mutant.name in EQUIVALENT]
    rest = [mutant for mutant in chosen if mutant.name not in EQUIVALENT]
    trial = _Trial(rest, jobs, limit, quick, budget)

    def both(result: Result) -> None:
        trial.results.append(result)
        keep(result)

    trial.keep = both
    for mutant in known:
        both(Result.of(mutant, "equivalent", EQUIVALENT[mutant.name]))
    paths = dict.fromkeys(f"tests/{test}" for mutant in rest for test in TESTS[mutant.file])
    # The plugin of Hypothesis has been imported before pytest could rewrite its assertions.
    rewritten = "-Wignore::pytest.PytestAssertRewriteWarning"
    options = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line", rewritten]
    options.append("--continue-on-collection-errors")
    if paths:
        pytest.main([*options, *paths], plugins=[trial, trial.reports])
    return trial.results


def _files(wanted: Sequence[str]) -> list[str]:
    if not wanted:
        return list(TESTS)
    files: list[str] = []
    for name in wanted:
        found = list(GROUPS.get(name, ())) or [
            file for file in TESTS if file == name or name.endswith(f"/{file}") or name in file
        ]
        if not found:
            raise SystemExit(f"{name} is not a proof module; these are: {', '.join(TESTS)}")
        files += found
    return list(dict.fromkeys(files))


def _chosen(options: argparse.Namespace) -> list[Mutant]:
    found = [mutant for file in _files(options.files) for mutant in mutants_of(file)]
    if options.only:
        found = [mutant for mutant in found if any(part in mutant.id for part in options.only)]
    if options.again:
        results = json.loads(Path(options.again).read_text(encoding="utf-8"))
        ids = {
            (result["id"], result["after"]) for result in results if result["outcome"] == "survived"
        }
        found = [mutant for mutant in found if (mutant.id, mutant.after) in ids]
    part, parts = map(int, options.part.split("/"))
    return found[part - 1 :: parts]


def table(results: Sequence[Result]) -> str:
    """Return the counts by file, and every survivor."""
    outcomes = ("killed", "hung", "equivalent", "survived")
    lines = [f"{'mutants':>8}" + "".join(f"{outcome:>12}" for outcome in outcomes)]
    for file in dict.fromkeys(result.file for result in results):
        counts = Counter(result.outcome for result in results if result.file == file)
        numbers = "".join(f"{counts[outcome]:>12}" for outcome in outcomes)
        lines.append(f"{counts.total():>8}{numbers}  {file}")
    for result in sorted(results, key=lambda result: result.id):
        if result.outcome == "survived":
            lines += ["", f"{result.id} in {result.function}"]
            lines.append(f"    {result.before} → {result.after}")
    return "\n".join(lines)


def main() -> int:
    """Try the mutants, print the table, and return 1 where one survives."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.adversary.mutation", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("files", nargs="*", metavar="FILES", help="proof modules, or a group")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--json", help="file for all results, written as they come")
    parser.add_argument("--list", action="store_true", help="print the mutants and try none")
    parser.add_argument("--only", action="append", help="mutants whose id contains this")
    parser.add_argument("--again", help="the survivors of this JSON file")
    parser.add_argument("--part", default="1/1", help="I/N: the I-th of N parts")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds that count as a hang")
    parser.add_argument("--tests", action="append", help="a test file in place of the table's")
    parser.add_argument("--quick", type=float, default=inf, help="leave out tests of more seconds")
    parser.add_argument("--budget", type=float, default=inf, help="seconds of tests per mutant")
    options = parser.parse_args()
    if options.tests:
        TESTS.update(dict.fromkeys(TESTS, tuple(options.tests)))
    chosen = _chosen(options)
    if options.list:
        for mutant in chosen:
            print(f"{mutant.id}  {mutant.function}  {mutant.name[2]}")
        print(f"{len(chosen)} mutants")
        return 0
    results: list[Result] = []

    def keep(result: Result) -> None:
        results.append(result)
        if result.outcome != "equivalent":
            print(
                f"{result.seconds:8.1f} s  {result.outcome:9}{result.id}  {result.by}", flush=True
            )
        if options.json:
            text = json.dumps([asdict(r) for r in results], indent=1, ensure_ascii=False)
            Path(options.json).write_text(text + "\n", encoding="utf-8")

    examine(chosen, options.jobs, options.limit, options.quick, options.budget, keep)
    print(table(results))
    if len(results) < len(chosen):
        raise SystemExit(f"only {len(results)} of {len(chosen)} mutants were tried")
    return int(any(result.outcome == "survived" for result in results))


if __name__ == "__main__":
    # Children are forks: threads of numerical libraries would not survive in them.
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    raise SystemExit(main())
