"""Verdicts: what was decided about a model, in words, numbers and cases, and how it is stored."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from exactformer.core.header import (
    entry,
    integer,
    list_of,
    mapping,
    parse,
    text,
    texts,
)
from exactformer.core.whole_files import whole_file
from exactformer.core.words import at_least, at_most, plural
from exactformer.errors import FileFormatError
from exactformer.progress import duration

FORMAT = "exactformer verdict 1"
_MOST = 2**2048


@dataclass(frozen=True)
class Case:
    """One input: its tokens, what the model answers when it is run, and what is right."""

    number: int
    """Its place among all inputs."""
    tokens: tuple[Any, ...]
    says: tuple[Any, ...]
    right: tuple[Any, ...]
    reason: str = ""
    """Why it is undecided."""

    def __str__(self) -> str:
        says, right = (_answer(x) for x in (self.says, self.right))
        return f"{list(self.tokens)}: says {says}, right is {right}"


def _answer(answers: tuple[Any, ...]) -> str:
    return repr(answers[0]) if len(answers) == 1 else repr(list(answers))


@dataclass(frozen=True)
class Verdict:
    """What is decided about a model on all inputs of a space."""

    claim: str
    """The claim in words, with the arithmetic it is about."""
    arithmetic: str
    assumptions: str
    method: str
    vocabulary: tuple[Any, ...]
    lengths: tuple[int, ...]
    answers: tuple[Any, ...]
    """What the logits stand for, in order."""
    total: int
    right: int
    wrong: int
    doubtful: int
    """Inputs that were tried and remain undecided; the rest of the total was not reached."""
    counterexamples: tuple[Case, ...]
    undecided: tuple[Case, ...]
    reasons: dict[str, int]
    """Why inputs are undecided, and how many."""
    margin: float | None
    """The least margin among inputs that were proven right, rounding not subtracted."""
    bound: float | None
    """The largest bound of a margin's error."""
    closest: tuple[int, ...]
    """The numbers of the inputs that were closest to being undecided."""
    points: tuple[tuple[float, float], ...]
    """Margins and bounds of some inputs, for the picture."""
    digests: dict[str, str]
    """SHA-256 of graph and weights for each length, of each model."""
    versions: dict[str, str]
    seconds: float
    device: str
    stated: bool = field(default=False)
    """Whether this was read from a file, and nothing was checked since."""

    @property
    def agrees(self) -> bool | None:
        """Whether the claim holds on every input; None where that is not decided."""
        if self.wrong:
            return False
        return True if self.right == self.total else None

    @property
    def share(self) -> tuple[Fraction, Fraction]:
        """The share of inputs on which the claim holds, from below and above."""
        return Fraction(self.right, self.total), Fraction(self.total - self.wrong, self.total)

    @property
    def unseen(self) -> int:
        """How many inputs were not reached."""
        return self.total - self.right - self.wrong - self.doubtful

    def __str__(self) -> str:
        """Return ten lines for a person."""
        word = {True: "agrees", False: "does not agree", None: "undecided"}[self.agrees]
        low, high = (f"{float(x):.9g}" for x in self.share)
        share = f"{low}" if self.share[0] == self.share[1] else f"between {low} and {high}"
        if self.share[0] != 1 and low == "1":
            share = f"1 − {Fraction(self.total - self.right, self.total)}"
        open_ = plural(self.doubtful, "input")
        lines = [
            f"Verdict: {word}" + (" (stated by the file, not checked)" if self.stated else ""),
            f"  claim        {self.claim}",
            f"  inputs       {self.total:,}: {self.right:,} right, {self.wrong:,} wrong, "
            f"{self.doubtful:,} undecided"
            + (f", {self.unseen:,} not reached" if self.unseen else ""),
            f"  share right  {share}",
            f"  wrong        {self.counterexamples[0] if self.counterexamples else 'none found'}",
            f"  undecided    {open_ + ': ' + self._reason() if self.doubtful else 'none'}",
            f"  margins      {self._margins()}",
            f"  assumes      {self.assumptions}",
            f"  method       {self.method}, {duration(self.seconds)} on {self.device}",
            f"  model        SHA-256 {next(iter(self.digests.values()), '')[:16]}…, "
            + ", ".join(f"{k} {v}" for k, v in self.versions.items()),
        ]
        return "\n".join(lines)

    def _reason(self) -> str:
        return max(self.reasons, key=lambda reason: self.reasons[reason], default="")

    def _margins(self) -> str:
        if self.margin is None or self.bound is None:
            return "none proven"
        return f"at least {at_least(self.margin)}, each off by at most {at_most(self.bound)}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        fields = asdict(self)
        del fields["stated"]
        fields["agrees"] = self.agrees
        fields["share"] = [str(x) for x in self.share]
        return {"format": FORMAT, **fields}

    def save(self, path: str | Path) -> None:
        """Write the verdict as JSON."""
        document = json.dumps(self.to_dict(), indent=1, default=_plain)
        with whole_file(path) as file:
            file.write(document + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Verdict:
        """Read a verdict; what it says is stated by the file until it is checked."""
        try:
            document = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise FileFormatError(f"cannot read {path}: {error}") from None
        fields = mapping(parse(document, floats=True), "a verdict")
        if fields.get("format") != FORMAT:
            raise FileFormatError(f"{path} is not a verdict: its format is not {FORMAT!r}")
        counts = {
            name: integer(entry(fields, name), name, 0, _MOST)
            for name in ("total", "right", "wrong", "doubtful")
        }
        if counts["total"] < 1 or sum(counts.values()) > 2 * counts["total"]:
            raise FileFormatError(f"{path} was altered: its counts do not add up")
        words: dict[str, Any] = {
            name: text(entry(fields, name), name)
            for name in ("claim", "arithmetic", "assumptions", "method", "device")
        }
        numbers: dict[str, Any] = counts
        verdict = cls(
            **words,
            **numbers,
            vocabulary=list_of(entry(fields, "vocabulary"), "vocabulary", _token),
            lengths=list_of(entry(fields, "lengths"), "lengths", _number),
            answers=list_of(entry(fields, "answers"), "answers", _token),
            counterexamples=list_of(entry(fields, "counterexamples"), "counterexamples", _case),
            undecided=list_of(entry(fields, "undecided"), "undecided", _case),
            reasons={
                text(k, "a reason"): integer(v, "a count", 0, _MOST)
                for k, v in mapping(entry(fields, "reasons"), "reasons").items()
            },
            margin=_float(entry(fields, "margin"), "margin"),
            bound=_float(entry(fields, "bound"), "bound"),
            closest=list_of(entry(fields, "closest"), "closest", _number),
            points=list_of(entry(fields, "points"), "points", _point),
            digests=texts(entry(fields, "digests"), "digests"),
            versions=texts(entry(fields, "versions"), "versions"),
            seconds=_float(entry(fields, "seconds"), "seconds") or 0.0,
            stated=True,
        )
        told = (entry(fields, "agrees"), entry(fields, "share"))
        if told != (verdict.agrees, [str(x) for x in verdict.share]):
            raise FileFormatError(f"{path} was altered: its answer is not that of its counts")
        return verdict


def _number(value: Any, name: str) -> int:
    return integer(value, name, 0, _MOST)


def _float(value: Any, name: str) -> float | None:
    if value is not None and type(value) not in (int, float):
        raise FileFormatError(f"{name} must be a number, not {value!r:.60}")
    return None if value is None else float(value)


def _point(value: Any, name: str) -> tuple[float, float]:
    x, y = list_of(value, name, lambda v, n: _float(v, n) or 0.0, 2, 2)
    return x, y


def _token(value: Any, name: str) -> Any:
    if isinstance(value, list):
        return tuple(_token(part, name) for part in value)
    if value is None or isinstance(value, str | int | float):
        return value
    raise FileFormatError(f"{name} is not a token: {value!r:.60}")


def _case(value: Any, name: str) -> Case:
    fields = mapping(value, name)
    parts = {
        part: list_of(entry(fields, part), part, _token) for part in ("tokens", "says", "right")
    }
    number = integer(entry(fields, "number"), "number", 0, _MOST)
    return Case(number=number, reason=text(entry(fields, "reason"), "reason"), **parts)


def _plain(value: Any) -> Any:
    """Return a token as JSON has it; one that JSON lacks by its text."""
    return value.item() if hasattr(value, "item") else str(value)
