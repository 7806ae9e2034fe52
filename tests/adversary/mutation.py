"""Mutation of the proofs: every check is removed or weakened in turn, and some test must fail.

    python -m tests.adversary.mutation [FILES…] [--jobs N] [--json FILE] [--list]

FILES are names of proof modules or of a group of them (``polynomials``, ``sequences``). Every mutant is
tried in a process of its own, in which the changed source takes the module's place; the file on disk
stays as it is. A mutant is killed by the first test that fails, or by the time limit if it hangs. One
that survives is a gap in the tests, unless it is listed with the reason why it changes no verdict.
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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType
from typing import Any

from tests.adversary import equivalent_polynomials, equivalent_sequences
from tests.adversary.mutants import Mutant, mutants

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "exactformer"
EQUIVALENT = equivalent_polynomials.EQUIVALENT | equivalent_sequences.EQUIVALENT
HEAVY = ("torch", "numpy", "scipy.special", "sympy", "flint", "hypothesis", "pytest", "safetensors")
"""Modules that the parent imports once for all."""
PROFILE = "mutation"
LIMIT = 900
"""Seconds after which a mutant counts as hanging."""

_CERTIFICATES = (
    "certificates/test_selection.py",
    "certificates/test_zero_error.py",
    "certificates/test_certificate.py",
    "certificates/test_tampering.py",
)
_ROUNDING = ("execution/test_bounds.py", "certificates/test_rounding.py")
_SOFTMAX = (
    "execution/test_softmax_run.py",
    "execution/test_softmax_bounds.py",
    "certificates/test_softmax_certificate.py",
)
_SEARCH = "adversary/test_polynomials.py"
_SEQUENCES = (
    "certificates/test_sequence_forgeries.py",
    "certificates/test_sequence_certificate.py",
    "certificates/test_sequence_softness.py",
    "model/test_sequence_errors.py",
    "adversary/test_sequences.py",
)
_COUPLINGS = (
    "model/test_coupling_bound.py",
    "model/test_coupling_errata.py",
    "execution/test_coupling_runs.py",
    "model/test_coupling_files.py",
    "model/test_coupling_models.py",
)

GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "polynomials": {
        "certificates/selection.py": (*_CERTIFICATES, _SEARCH),
        "certificates/identity.py": (*_CERTIFICATES, _SEARCH),
        "certificates/certify.py": (*_CERTIFICATES, *_ROUNDING, _SOFTMAX[-1], _SEARCH),
        "certificates/softmax.py": (*_SOFTMAX, _SEARCH),
        "execution/symbolic.py": ("execution/test_symbolic.py", *_CERTIFICATES, *_SOFTMAX, _SEARCH),
        "execution/magnitudes.py": (
            "execution/test_magnitudes.py",
            *_CERTIFICATES,
            *_ROUNDING,
            "execution/test_fused.py",
            _SEARCH,
        ),
        "execution/bounds.py": (*_ROUNDING, *_SOFTMAX, _SEARCH),
        "execution/fused_bounds.py": ("execution/test_fused.py", *_ROUNDING, _SEARCH),
        "execution/expanded_bounds.py": ("execution/test_expanded.py", _SEARCH),
        "execution/softmax_run.py": (*_SOFTMAX, _SEARCH),
        "execution/softmax_bounds.py": (*_SOFTMAX, _SEARCH),
        "blueprint/domain.py": ("blueprint/test_domain.py", *_CERTIFICATES, _SEARCH),
        "algebra/chebyshev.py": (
            "algebra/test_conversions.py",
            "execution/test_magnitudes.py",
            "execution/test_symbolic.py",
            *_CERTIFICATES,
        ),
    },
    "sequences": {
        "certificates/sequences.py": _SEQUENCES,
        "certificates/sequence_algebra.py": _SEQUENCES,
        "certificates/sequence_cells.py": _SEQUENCES,
        "certificates/sequence_integers.py": _SEQUENCES,
        "certificates/sequence_outside.py": _SEQUENCES,
        "certificates/sequence_softness.py": (
            "certificates/test_sequence_softness.py",
            *_SEQUENCES,
        ),
        "certificates/sequence_leakage.py": ("certificates/test_sequence_softness.py", *_SEQUENCES),
        "certificates/sequence_errors.py": ("model/test_sequence_errors.py", *_SEQUENCES),
        "blueprint/sequence_shapes.py": _SEQUENCES,
        "model/sequences.py": (*_SEQUENCES, "model/test_sequence_models.py"),
        "model/coupling_bound.py": _COUPLINGS,
        "model/coupling_stated.py": ("model/test_coupling_files.py", *_COUPLINGS),
        "execution/coupling_rounding.py": ("execution/test_coupling_runs.py", *_COUPLINGS),
        "blueprint/coupling_slopes.py": ("blueprint/test_coupling_interpolant.py", *_COUPLINGS),
    },
}
"""Proof modules, and for each the tests that are run against its mutants, the most telling first."""

FUNCTIONS: dict[str, tuple[str, ...]] = {
    "blueprint/domain.py": ("enlarged", "reach", "extent", "offset", "root_above"),
    "algebra/chebyshev.py": ("absolute_sum", "_convert", "_matrix"),
}
"""Modules of which a proof uses only some functions."""

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


class _Finder(MetaPathFinder):
    """Finds the one module that is changed, before all others do."""

    def __init__(self, mutant: Mutant) -> None:
        self.module = "exactformer." + mutant.file.removesuffix(".py").replace("/", ".")
        self._path = str(PACKAGE / mutant.file)
        self._source = mutant.source

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        """Return the changed module's specification; ``None`` for every other module."""
        if name != self.module:
            return None
        loader = _Loader(name, self._path, self._source)
        return spec_from_file_location(name, self._path, loader=loader)


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        """Compile the changed source; neither file nor cached code is read."""
        return compile(self._source, self.path, "exec", dont_inherit=True)


class _Failures:
    """A plugin for pytest that keeps the names of tests and files that failed."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep a test that failed, in whichever phase."""
        if report.failed:
            self.names.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        """Keep a file that could not be read."""
        if report.failed:
            self.names.append(report.nodeid)


def _run_tests(tests: Sequence[str], mutant: Mutant | None, deselected: Iterable[str]) -> list[str]:
    """Run tests in this process, against a mutant or as things are; return what failed."""
    import pytest

    if mutant is not None:
        sys.meta_path.insert(0, _Finder(mutant))
    failures = _Failures()
    # The parent has imported a plugin's module before pytest could rewrite its assertions.
    rewritten = "-Wignore::pytest.PytestAssertRewriteWarning"
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line", rewritten, *tests]
    options += [f"--deselect={name}" for name in deselected]
    pytest.main(["-x", *options] if mutant else options, plugins=[failures])
    return failures.names


def _import_once() -> None:
    """Import what every child needs, and settle how tests choose their examples."""
    for name in HEAVY:
        import_module(name)
    import torch
    from hypothesis import HealthCheck, Phase, settings

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


@dataclass
class _Child:
    task: Any
    started: float
    answer: Path


def _in_children(
    tasks: Iterable[Any], work: Any, jobs: int, limit: float
) -> Iterator[tuple[Any, list[str] | None, str, float]]:
    """Do work on each task in a fork; yield task, answer (``None``: hung), trouble and seconds."""
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
                answer = Path(folder) / str(count)
                count += 1
                running[_fork(work, task, answer)] = _Child(task, time.monotonic(), answer)
            for process, child in list(running.items()):
                seconds = time.monotonic() - child.started
                ended = os.waitpid(process, os.WNOHANG)[0] == process
                if not ended and seconds <= limit:
                    continue
                if not ended:
                    os.killpg(process, signal.SIGKILL)
                    os.waitpid(process, 0)
                del running[process]
                answer, trouble = _answer(child.answer) if ended else (None, "")
                yield child.task, answer, trouble, seconds
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


def _answer(path: Path) -> tuple[list[str] | None, str]:
    """Return what a child wrote; for one that died without a word, the end of its output."""
    try:
        return json.loads(path.read_text(encoding="utf-8")), ""
    except (OSError, ValueError):
        output = Path(f"{path}.out")
        text = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
        return ["(the process died)"], text[-2000:]


def examine(chosen: Sequence[Mutant], jobs: int = 1, limit: float = LIMIT) -> Iterator[Result]:
    """Try mutants; yield each result as it comes."""
    os.environ["HYPOTHESIS_PROFILE"] = PROFILE
    os.chdir(ROOT)
    _import_once()
    known = [mutant for mutant in chosen if mutant.name in EQUIVALENT]
    for mutant in known:
        yield Result.of(mutant, "equivalent", EQUIVALENT[mutant.name])
    rest = [mutant for mutant in chosen if mutant.name not in EQUIVALENT]
    paths = {test: f"tests/{test}" for mutant in rest for test in TESTS[mutant.file]}

    def as_things_are(path: str) -> list[str]:
        return _run_tests([path], None, ())

    # A test that fails on this machine without any change has nothing to say about changes.
    failing: set[str] = set()
    for path, names, trouble, seconds in _in_children(paths.values(), as_things_are, jobs, limit):
        print(f"{seconds:8.1f} s  {path}", flush=True)
        for name in [path] if names is None or trouble else names:
            print(f"          fails without a change, left out: {name} {trouble}", flush=True)
            failing.add(name)

    if paths and failing.issuperset(paths.values()):
        raise SystemExit("no test passes without a change")

    def against(mutant: Mutant) -> list[str]:
        tests = [paths[test] for test in dict.fromkeys(TESTS[mutant.file])]
        return _run_tests([test for test in tests if test not in failing], mutant, failing)

    for mutant, names, trouble, seconds in _in_children(rest, against, jobs, limit):
        if names is None:
            yield Result.of(mutant, "hung", "", seconds)
        elif names:
            yield Result.of(mutant, "killed", f"{names[0]} {trouble}".strip(), seconds)
        else:
            yield Result.of(mutant, "survived", "", seconds)


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
        names = {(r["file"], r["function"], f"{r['before']} → {r['after']}") for r in results
                 if r["outcome"] == "survived"}  # fmt: skip
        found = [mutant for mutant in found if mutant.name in names]
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
    options = parser.parse_args()
    chosen = _chosen(options)
    if options.list:
        for mutant in chosen:
            print(f"{mutant.id}  {mutant.function}  {mutant.before} → {mutant.after}")
        print(f"{len(chosen)} mutants")
        return 0
    results: list[Result] = []
    for result in examine(chosen, options.jobs, options.limit):
        results.append(result)
        if result.outcome != "equivalent":
            print(
                f"{result.seconds:8.1f} s  {result.outcome:9}{result.id}  {result.by}", flush=True
            )
        if options.json:
            text = json.dumps([asdict(r) for r in results], indent=1, ensure_ascii=False)
            Path(options.json).write_text(text + "\n", encoding="utf-8")
    print(table(results))
    return int(any(result.outcome == "survived" for result in results))


if __name__ == "__main__":
    # Children are forks: threads of numerical libraries would not survive in them.
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    raise SystemExit(main())
