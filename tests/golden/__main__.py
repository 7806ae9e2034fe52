"""Golden answers from the command line.

python -m tests.golden write             ask in seven settings; store what all of them agree on
python -m tests.golden compare           ask here; print every answer that differs from what is stored
python -m tests.golden against REVISION  ask here and in another commit, bits too; print what differs
python -m tests.golden ask FILE          write answers to a file, with ``--bits`` those of runs as well

``compare`` and ``against`` return 1 where anything differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from tests.golden.stored import Frozen, agreed, differences, read, write

ROOT = Path(__file__).parents[2]
PROCESSORS = ("Prescott", "Sandybridge", "Haswell", "Zen", "SkylakeX")
"""For which OpenBLAS has products of their own."""
Everything = dict[str, Frozen]


def main() -> int:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.golden",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("write")
    commands.add_parser("compare")
    commands.add_parser("against").add_argument("revision")
    asking = commands.add_parser("ask")
    asking.add_argument("file", type=Path)
    asking.add_argument("--bits", action="store_true")
    given = parser.parse_args()
    match given.command:
        case "write":
            return _write()
        case "compare":
            return _print(_compared())
        case "against":
            return _print(_against(given.revision))
    given.file.write_text(json.dumps(_all_answers(given.bits)), encoding="utf-8")
    return 0


def _all_answers(bits: bool) -> Everything:
    """Return all stored answers, or with bits everything that can be asked."""
    import torch

    from tests.golden.asking import ask, asked, run
    from tests.golden.families import FAMILIES, cases_of

    if not bits:
        return {
            family: {c.name: asked(c) for c in cases_of(family).values() if c.stored}
            for family in FAMILIES
        }
    torch.set_num_threads(1)
    return {
        family: {name: {**ask(case), **run(case)} for name, case in cases_of(family).items()}
        for family in FAMILIES
    }


def _settings() -> list[dict[str, str]]:
    """Return settings in which numerical libraries take other instructions and orders of summation."""
    import numpy as np

    shown = np.show_config(mode="dicts")
    found = shown["SIMD Extensions"].get("found", []) if shown else []
    oldest = {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_CBWR": "COMPATIBLE",
        "NPY_DISABLE_CPU_FEATURES": " ".join(found),
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA,-AVX",
    }
    return [
        {"OMP_NUM_THREADS": "1"},
        {"OMP_NUM_THREADS": "2", "OPENBLAS_CORETYPE": "Nehalem", **oldest},
        *({"OMP_NUM_THREADS": "2", "OPENBLAS_CORETYPE": name} for name in PROCESSORS),
    ]


def _asked_in(trees: Iterable[tuple[Path, Mapping[str, str]]], *options: str) -> list[Everything]:
    """Ask in processes of their own, two at a time: source trees, and variables of the environment."""
    waiting, found = list(trees), []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        for start in range(0, len(waiting), 2):
            started = []
            for k, (tree, variables) in enumerate(waiting[start : start + 2], start):
                file = Path(folder, f"{k}.json")
                command = [sys.executable, "-m", "tests.golden", "ask", str(file), *options]
                environment = {**os.environ, **variables, "PYTHONPATH": str(tree / "src")}
                process = subprocess.Popen(command, cwd=tree, env=environment)
                running.callback(process.kill)
                started.append((process, file))
            for process, file in started:
                if process.wait():
                    raise SystemExit(f"{' '.join(map(str, process.args))} failed")
                found.append(json.loads(file.read_text(encoding="utf-8")))
    return found


def _write() -> int:
    found = _asked_in([(ROOT, variables) for variables in _settings()])
    for family in found[0]:
        answers = agreed(*(each[family] for each in found))
        write(family, answers)
        local = [(case, q) for case, by in answers.items() for q, a in by.items() if a is None]
        for case, question in local:
            print(f"{family} | {case} | {question}: depends on the setting, and is not stored")
        count = sum(map(len, answers.values()))
        print(f"{family}: {len(answers)} models, {count} answers, {len(local)} of them not stored")
    return 0


def _compared() -> list[str]:
    new = _all_answers(bits=False)
    return [line for family in new for line in differences(family, read(family), new[family])]


def _against(revision: str) -> list[str]:
    git = ["git", "-C", str(ROOT)]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        subprocess.run([*git, "worktree", "add", "--quiet", "--detach", tree, revision], check=True)
        try:
            if not (tree / "tests" / "golden" / "__main__.py").exists():
                raise SystemExit(f"{revision} has no tests/golden, so there is nobody to ask")
            threads = {"OMP_NUM_THREADS": "1"}
            old, new = _asked_in([(tree, threads), (ROOT, threads)], "--bits")
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", tree], check=True)
    families = [*old, *(family for family in new if family not in old)]
    return [
        line
        for family in families
        for line in differences(family, old.get(family, {}), new.get(family, {}))
    ]


def _print(lines: list[str]) -> int:
    print("\n".join(lines) or "all answers are the same")
    return bool(lines)


if __name__ == "__main__":
    raise SystemExit(main())
