"""A differential search: many candidates, certified where they can be, each certificate tried.

A family makes a candidate from a seed, certifies it, and tries to refute the certificate. Every seed
has one of four outcomes:

* certified: there is a certificate, and nothing was found against it;
* refused: certification raised an error of the package, which is an honest answer;
* false: there is a certificate, and a point where what it claims does not hold;
* crashed: something raised an error that is not one of the package.

The last two are findings. A seed replays its candidate, so a finding is stored as its seed.
"""

from __future__ import annotations

import json
import multiprocessing
import platform
import re
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from exactformer.errors import ExactformerError

FAMILIES = {
    "polynomials": "tests.adversary.polynomials",
    "sequences": "tests.adversary.sequences",
    "couplings": "tests.adversary.couplings",
    "programs": "tests.adversary.programs",
    "tiny-polynomials": "tests.adversary.tiny_polynomials",
    "tiny-couplings": "tests.adversary.tiny_couplings",
    "tiny-programs": "tests.adversary.tiny_programs",
}
"""Modules that hold a ``FAMILY``, by its name."""

CHUNK = 32
"""Seeds that a process takes at a time."""


class Outcome(StrEnum):
    """What became of a candidate."""

    CERTIFIED = "certified"
    REFUSED = "refused"
    FALSE = "false"
    CRASHED = "crashed"


@dataclass(frozen=True)
class Candidate:
    """Something to certify, and in a few words how it came about."""

    subject: Any
    kinds: tuple[str, ...]


class Family(Protocol):
    """Candidates of one sort, the proof that judges them, and the runs that judge the proof."""

    def candidate(self, seed: int) -> Candidate:
        """Return the candidate of a seed, always the same one."""

    def certify(self, candidate: Candidate) -> Any:
        """Return a certificate, or raise an error of the package."""

    def refute(self, candidate: Candidate, certificate: Any, seed: int) -> str | None:
        """Return what is false about a certificate; ``None`` where nothing was found."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of one seed."""

    seed: int
    outcome: Outcome
    kinds: tuple[str, ...]
    check: str = ""
    """The error that refused or crashed, in words that many candidates share."""
    detail: str = ""


@dataclass
class Tally:
    """The outcomes of many seeds."""

    outcomes: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, Counter[str]] = field(default_factory=dict)
    findings: list[Verdict] = field(default_factory=list)

    def add(self, verdict: Verdict) -> None:
        """Count one verdict."""
        self.outcomes[verdict.outcome] += 1
        for kind in set(verdict.kinds):
            self.kinds.setdefault(kind, Counter())[verdict.outcome] += 1
        if verdict.outcome is Outcome.REFUSED:
            self.checks[verdict.check] += 1
        if verdict.outcome in (Outcome.FALSE, Outcome.CRASHED):
            self.findings.append(verdict)

    @property
    def count(self) -> int:
        """How many seeds were tried."""
        return self.outcomes.total()

    @property
    def certified_share(self) -> float:
        """The part of the candidates that was certified."""
        return self.outcomes[Outcome.CERTIFIED] / self.count

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, the most frequent first."""
        kinds = {kind: dict(counts.most_common()) for kind, counts in sorted(self.kinds.items())}
        return {
            "count": self.count,
            "outcomes": {outcome.value: self.outcomes[outcome] for outcome in Outcome},
            "refused by": dict(self.checks.most_common()),
            "kinds": kinds,
            "findings": [asdict(verdict) for verdict in self.findings],
        }

    def __str__(self) -> str:
        lines = [f"{self.count:>8,}  candidates"]
        lines += [f"{self.outcomes[outcome]:>8,}  {outcome}" for outcome in Outcome]
        lines += ["", "refused by"]
        lines += [f"{count:>8,}  {check}" for check, count in self.checks.most_common()]
        lines += ["", "".join(f"{outcome:>10}" for outcome in Outcome) + "  kind"]
        for kind, counts in sorted(self.kinds.items()):
            lines.append("".join(f"{counts[outcome]:>10,}" for outcome in Outcome) + f"  {kind}")
        for verdict in self.findings:
            lines += ["", f"seed {verdict.seed}: {verdict.outcome} {verdict.check}".rstrip()]
            lines += [f"  {', '.join(verdict.kinds)}", f"  {verdict.detail}"]
        return "\n".join(lines)


def examine(family: Family, seed: int) -> Verdict:
    """Make, certify and try one candidate."""
    kinds: tuple[str, ...] = ()
    try:
        candidate = family.candidate(seed)
        kinds = candidate.kinds
        try:
            certificate = family.certify(candidate)
        except ExactformerError as error:
            return Verdict(seed, Outcome.REFUSED, kinds, check_name(error))
        finding = family.refute(candidate, certificate, seed)
    except Exception as error:
        where = "".join(traceback.format_exception(error)[-3:])
        return Verdict(seed, Outcome.CRASHED, kinds, check_name(error), where)
    if finding is not None:
        return Verdict(seed, Outcome.FALSE, kinds, detail=finding)
    return Verdict(seed, Outcome.CERTIFIED, kinds)


def search(name: str, seeds: Iterable[int], jobs: int = 1) -> Tally:
    """Examine seeds of a family, in this process or in several."""
    tally = Tally()
    for verdict in _verdicts(name, list(seeds), jobs):
        tally.add(verdict)
    tally.findings.sort(key=lambda verdict: verdict.seed)
    return tally


def family_named(name: str) -> Family:
    """Return a family by its name."""
    family: Family = import_module(FAMILIES[name]).FAMILY
    return family


def write(
    tally: Tally, path: str | Path, name: str, first: int, version: str, commit: str | None
) -> None:
    """Write the counts as JSON, with what is needed to repeat them."""
    provenance = {
        "family": name,
        "first seed": first,
        "last seed": first + tally.count - 1,
        "version": version,
        "commit": commit,
        "python": platform.python_version(),
    }
    text = json.dumps({"provenance": provenance, **tally.to_dict()}, indent=1, ensure_ascii=False)
    Path(path).write_text(text + "\n", encoding="utf-8")


_PLACE = re.compile(r"^((block|head|token|unit|output|of the model)( #)?[,:]? )+")
_NUMBER = re.compile(r"-?\d[\d./]*(e[+-]?\d+)?")
_PATH = re.compile(r"(?:/\S*/|\b)[a-z]\w*(\.\w+)+")
_WORDS = 7


def check_name(error: BaseException) -> str:
    """Name an error by its class and the first words of its message, without places and numbers.

    >>> check_name(ValueError("block 2, head 1: token 3 is not shown to be 4.5 or so"))
    'ValueError: is not shown to be # or'
    """
    text = _PATH.sub("PATH", re.sub(r"\([^()]*\)", "", str(error)))
    words = _PLACE.sub("", _NUMBER.sub("#", text)).split()[:_WORDS]
    return f"{type(error).__name__}: {' '.join(words)}"


def _verdicts(name: str, seeds: list[int], jobs: int) -> Iterator[Verdict]:
    if jobs <= 1:
        family = family_named(name)
        yield from (examine(family, seed) for seed in seeds)
        return
    chunks = [(name, seeds[k : k + CHUNK]) for k in range(0, len(seeds), CHUNK)]
    # Fresh processes: threads of numerical libraries do not survive a fork.
    with multiprocessing.get_context("spawn").Pool(jobs, _use_one_thread) as pool:
        for verdicts in pool.imap_unordered(_examine_all, chunks):
            yield from verdicts


def _examine_all(task: tuple[str, list[int]]) -> list[Verdict]:
    name, seeds = task
    family = family_named(name)
    return [examine(family, seed) for seed in seeds]


def _use_one_thread() -> None:
    import torch

    torch.set_num_threads(1)
