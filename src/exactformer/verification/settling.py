"""Inputs that the first pass leaves open, decided by dearer means."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from exactformer.core.formats import REAL
from exactformer.verification.engine import Engine
from exactformer.verification.exhaustive import Exhaustive, Tally

if TYPE_CHECKING:
    from exactformer.verification.precise import Numbers

_BITS = (128, 512)


def settle(walk: Exhaustive, tally: Tally, seconds: float | None) -> str:
    """Decide what is left, as long as there is time; return in words what was done."""
    open_ = list(tally.doubtful)
    kinds = {type(e) for e in walk.engines.values()}
    if not open_ or kinds != {Engine} or walk.engines[walk.space.lengths[0]].arithmetic != REAL:
        return ""
    end = None if seconds is None else monotonic() + seconds
    decided = 0
    for number in open_:
        if end is not None and monotonic() > end:
            break
        answer = _precisely(walk, number)
        if answer is None:
            continue
        decided += 1
        tally.doubtful.remove(number)
        tally.doubtful_count -= 1
        if answer:
            tally.right += 1
        else:
            tally.wrong_count += 1
            tally.wrong.append(number)
    tally.wrong.sort()
    return f"{decided:,} of {len(open_):,} close ones to {_BITS[-1]} bits"


def replay(walk: Exhaustive, number: int) -> bool | None:
    """Decide one input again: by balls, and in real arithmetic to hundreds of bits where they fail."""
    length, start = walk.space.locate(number)
    ids = walk.space.ids(length, start, start + 1, walk.device)
    found, overflow = walk.step(ids, length, walk.expected(ids, length, start))
    if not bool(overflow) and bool(found.right[0] | found.wrong[0]):
        return bool(found.right[0])
    return _precisely(walk, number) if walk.engines[length].arithmetic == REAL else None


def _precisely(walk: Exhaustive, number: int) -> bool | None:
    from exactformer.verification.precise import logits, precision  # some machines lack Arb

    length, start = walk.space.locate(number)
    ids = walk.space.ids(length, start, start + 1, walk.device)
    answers = walk.expected(ids, length, start)
    for bits in _BITS:
        first = _rows(logits(walk.engines[length].graph, ids[0].tolist(), bits))
        with precision(bits):
            if answers is not None:
                found = _agrees(first, answers[0].tolist())
            else:
                assert walk.others is not None
                second = _rows(logits(walk.others[length].graph, ids[0].tolist(), bits))
                theirs = [max(range(len(row)), key=lambda k: float(row[k].mid())) for row in second]
                found = _agrees(first, theirs) if _agrees(second, theirs) else None
        if found is not None:
            return found
    return None


def _rows(found: Numbers) -> Numbers:
    return found if found.ndim == 2 else found[None]


def _agrees(rows: Numbers, answers: list[int]) -> bool | None:
    """Whether every row is largest at its answer, for certain; None where that is open."""
    sure = True
    for row, answer in zip(rows, answers, strict=True):
        for k, value in enumerate(row):
            if k == answer:
                continue
            if value > row[answer]:
                return False
            sure = sure and bool(value < row[answer])
    return True if sure else None
