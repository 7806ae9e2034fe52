"""The files of answers, and lines that say which differ.

An answer that is stored as null was not the same in all the settings in which it was asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

Frozen = dict[str, dict[str, str | None]]
"""For every case, by question, what was answered."""
FOLDER = Path(__file__).parent / "answers"
_ABSENT = "not asked"


def read(family: str) -> Frozen:
    """Return the answers that a family gave when they were written."""
    found: Frozen = json.loads((FOLDER / f"{family}.json").read_text(encoding="utf-8"))
    return found


def write(family: str, answers: Frozen) -> None:
    """Store answers, each on a line of its own."""
    text = json.dumps(answers, indent=0, ensure_ascii=False)
    (FOLDER / f"{family}.json").write_text(text + "\n", encoding="utf-8")


def agreed(*answers: Frozen) -> Frozen:
    """Keep what is the same in all; the rest is None."""
    first, *others = answers
    return {
        case: {
            question: answer
            if all(other.get(case, {}).get(question) == answer for other in others)
            else None
            for question, answer in by_question.items()
        }
        for case, by_question in first.items()
    }


def differences(family: str, old: Frozen, new: Frozen) -> Iterator[str]:
    """Yield a line for every answer that differs: which model, which question, old and new."""
    for case in [*old, *(name for name in new if name not in old)]:
        if case not in new or case not in old:
            yield f"{family} | {case}: {'is gone' if case in old else 'is new'}"
            continue
        yield from (f"{family} | {case} | {line}" for line in _of_case(old[case], new[case]))


def _of_case(old: Mapping[str, str | None], new: Mapping[str, str | None]) -> Iterator[str]:
    for question in [*old, *(name for name in new if name not in old)]:
        before, after = old.get(question, _ABSENT), new.get(question, _ABSENT)
        if before is not None and after is not None and before != after:
            yield f"{question}: {_readable(before)} → {_readable(after)}"


def _readable(answer: str) -> str:
    """Add the decimal number to a hexadecimal one."""
    if not answer.startswith("0x") or " " in answer:
        return answer
    return f"{answer} ({float.fromhex(answer):.6g})"
