"""What changed between two versions of a text: first line by line, then word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import groupby, takewhile
from typing import Literal, NamedTuple

MOST_PAIRS = 90_000
"""Where more pairs (of lines, of words) would have to be compared, all is shown as replaced."""

_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_WORDS = re.compile(r"\w+\s*|[^\w\s]\s*|\s+")


class Stretch(NamedTuple):
    """A piece of text that both versions have, or only the one before or after."""

    kind: Literal["same", "gone", "new"]
    text: str


def differences(before: str, after: str) -> tuple[Stretch, ...]:
    """Return the stretches that lead from ``before`` to ``after``.

    >>> [tuple(stretch) for stretch in differences("a good bound", "a better bound")]
    [('same', 'a '), ('gone', 'good '), ('new', 'better '), ('same', 'bound')]
    """
    pieces = _compare(before, after, [_LINES, _WORDS])
    return tuple(
        Stretch(kind, text)
        for kind, group in groupby(pieces, key=lambda piece: piece.kind)
        if (text := "".join(piece.text for piece in group))
    )


def _compare(before: str, after: str, grains: list[re.Pattern[str]]) -> Iterator[Stretch]:
    """Compare grain by grain; what differs is compared again by the next finer one."""
    if not grains or not before or not after:
        yield Stretch("gone", before)
        yield Stretch("new", after)
        return
    old, new = grains[0].findall(before), grains[0].findall(after)
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    yield Stretch("same", "".join(old[:start]))
    yield from _middle(old[start : len(old) - end], new[start : len(new) - end], grains[1:])
    yield Stretch("same", "".join(old[len(old) - end :]))


def _middle(old: list[str], new: list[str], finer: list[re.Pattern[str]]) -> Iterator[Stretch]:
    if len(old) * len(new) > MOST_PAIRS:
        yield from _compare("".join(old), "".join(new), finer)
        return
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            yield Stretch("same", "".join(old[a:b]))
        else:
            yield from _compare("".join(old[a:b]), "".join(new[c:d]), finer)


def _common(old: list[str], new: list[str]) -> int:
    pairs = zip(old, new, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
