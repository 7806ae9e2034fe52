"""Every input, one batch after another, on whatever device the module is on."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple

import torch
from torch import Tensor

from exactformer.progress import duration, progress
from exactformer.verification.balls import Ball
from exactformer.verification.claims import FunctionClaim
from exactformer.verification.decision import Decision, compare, decide
from exactformer.verification.engine import Engine
from exactformer.verification.space import Space

LISTED = 1000
"""Cases that a verdict lists of each kind; all are counted."""
_CLOSEST = 200
_POINTS = 2000


class Batch(NamedTuple):
    """What is proven of the inputs of a batch, and whether something may overflow in it."""

    decision: Decision
    overflow: Tensor


@dataclass
class Tally:
    """Counts and cases so far. ``next`` is the number of the first input that was not tried."""

    next: int = 0
    right: int = 0
    wrong: list[int] = field(default_factory=list)
    wrong_count: int = 0
    doubtful: list[int] = field(default_factory=list)
    doubtful_count: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    margin: float = torch.inf
    bound: float = 0.0
    points: list[tuple[float, float]] = field(default_factory=list)
    _closest: list[tuple[float, int]] = field(default_factory=list)

    @property
    def closest(self) -> tuple[int, ...]:
        """The inputs that were proven right with least to spare, the closest first."""
        return tuple(number for _, number in sorted(self._closest, reverse=True))

    def add(self, found: Decision, first: int) -> None:
        """Count a batch of consecutive inputs."""
        right, wrong = found.right, found.wrong
        count = len(right)
        proven, refuted = int(right.sum()), int(wrong.sum())
        self.right += proven
        self.wrong_count += refuted
        self.doubtful_count += count - proven - refuted
        for mask, many, places in (
            (wrong, refuted, self.wrong),
            (~right & ~wrong, count - proven - refuted, self.doubtful),
        ):
            if many and len(places) < LISTED:
                places += (torch.nonzero(mask)[:, 0][:LISTED] + first).tolist()
        if proven:
            margin = torch.where(right, found.margin, torch.inf)
            self.margin = min(self.margin, float(margin.min()))
            self.bound = max(self.bound, float(torch.where(right, found.bound, 0.0).max()))
            spare = torch.where(right, found.margin - found.bound, torch.inf)
            values, places_ = spare.topk(min(4, count), largest=False)
            for value, place in zip(values.tolist(), places_.tolist(), strict=True):
                if value < torch.inf:
                    heapq.heappush(self._closest, (-value, first + place))
                    if len(self._closest) > _CLOSEST:
                        heapq.heappop(self._closest)
        if len(self.points) < _POINTS:
            some = slice(0, count, max(1, count // 16))
            self.points += [
                (m, b)
                for m, b in zip(
                    found.margin[some].tolist(), found.bound[some].tolist(), strict=True
                )
                if abs(m) < torch.inf and b < torch.inf
            ]
        self.next = first + count


@dataclass
class Exhaustive:
    """All inputs by balls: a function's answers, or those of a second model."""

    space: Space
    engines: dict[int, Engine]
    others: dict[int, Engine] | None
    """Engines of the second model."""
    answers: FunctionClaim | None
    positions: dict[int, int]
    """Positions with logits by length; 0 for one answer per input."""
    device: torch.device
    _compiled: dict[tuple[int, int], Callable[..., Batch]] = field(default_factory=dict)

    def step(self, ids: Tensor, length: int, answers: Tensor | None) -> Batch:
        """Decide a batch; on a CPU without what torch keeps for gradients, which takes longer."""
        quick = torch.inference_mode() if self.device.type == "cpu" else nullcontext()
        with quick:
            return self._step(ids, length, answers)

    def _step(self, ids: Tensor, length: int, answers: Tensor | None) -> Batch:
        first, peaks = self._logits(self.engines[length], ids)
        if self.others is not None:
            second, more = self._logits(self.others[length], ids)
            return Batch(compare(first, second), torch.logical_or(peaks, more))
        assert answers is not None
        return Batch(decide(first, answers), peaks)

    def _logits(self, engine: Engine, ids: Tensor) -> tuple[Ball, Tensor]:
        ctx = engine.context()
        logits = engine(ids, ctx)
        if logits.c.ndim == 2:
            logits = Ball(logits.c[:, None], None if logits.r is None else logits.r[:, None])
        largest = engine.arithmetic.largest
        flags = [~(peak < largest) for peak in ctx.peaks]
        none = torch.zeros((), dtype=torch.bool, device=self.device)
        return logits, torch.stack(flags).any() if flags else none

    def expected(self, ids: Tensor, length: int, first: int) -> Tensor | None:
        """Return the right answers for consecutive inputs, or None where a model gives them."""
        if self.answers is None:
            return None
        if len(ids) == 1:  # anywhere in the enumeration
            one = self.answers.at(ids[0].tolist(), self.positions[length])
            return torch.tensor([one], device=self.device)
        return self.answers(ids, length, first, self.positions[length]).to(self.device)

    def batch(self, tally: Tally, length: int, start: int, stop: int) -> None:
        """Decide inputs of one length by number, and count them.

        Where something in the batch may overflow, halves of it are decided on their own: only inputs
        that overflow alone are undecided for it.
        """
        ids = self.space.ids(length, start, stop, self.device)
        answers = self.expected(ids, length, start)
        for piece, first, overflow in self._pieces(ids, answers, length, start):
            if overflow:
                none = torch.zeros_like(piece.right)
                piece = piece._replace(right=none, wrong=none)
                tally.reasons["an intermediate result may overflow"] += len(none)
            tally.add(piece, self.space.start(length) + first)

    def _pieces(
        self, ids: Tensor, answers: Tensor | None, length: int, start: int
    ) -> list[tuple[Decision, int, bool]]:
        decide = self._compiled.get((length, len(ids)))
        decision, overflow = (decide or self.step)(ids, length, answers)
        if not bool(overflow) or len(ids) == 1:
            return [(decision, start, bool(overflow))]
        half = len(ids) // 2
        rest = None if answers is None else answers[half:]
        return self._pieces(
            ids[:half], None if answers is None else answers[:half], length, start
        ) + self._pieces(ids[half:], rest, length, start + half)

    def run(self, tally: Tally, size: int | None, seconds: float | None, show: bool) -> str | None:
        """Decide all inputs from the tally's next one on; return why it ended early, or None."""
        begin, total = monotonic(), self.space.total
        size = self._size() if size is None else size
        if self.device.type == "cuda":
            self._compile(size)
        try:
            with progress("Verify", total, show, unit="inputs", done=tally.next, lines=True) as bar:
                first = tally.next
                while tally.next < total:
                    length, start = self.space.locate(tally.next)
                    stop = min(start + size, self.space.count(length))
                    self.batch(tally, length, start, stop)
                    elapsed = max(monotonic() - begin, 1e-9)
                    bar(tally.next, f"{(tally.next - first) / elapsed:,.0f} per second")
                    if seconds is not None and elapsed > seconds and tally.next < total:
                        return f"the {duration(seconds)} given were over"
        except KeyboardInterrupt:
            return "it was interrupted"
        return None

    def rate(self, size: int, length: int) -> float:
        """Return inputs per second of one batch, without the claim."""
        ids = self.space.ids(length, 0, min(size, self.space.count(length)), self.device)
        shape = (len(ids), self.positions[length] or 1)
        answers = (
            None
            if self.answers is None
            else torch.zeros(shape, dtype=torch.long, device=self.device)
        )
        self.step(ids, length, answers)
        least = torch.inf
        for _ in range(3):
            begin = monotonic()
            bool(self.step(ids, length, answers).overflow)
            least = min(least, monotonic() - begin)
        return len(ids) / max(least, 1e-9)

    def _compile(self, size: int) -> None:
        """Trace a whole step once, and compile what was traced: a GPU waits for Python otherwise."""
        for length in self.space.lengths:
            if self.space.count(length) >= 64 * size:
                self._compiled[length, size] = self._compiled_step(size, length)

    def _compiled_step(self, size: int, length: int) -> Callable[..., Batch]:
        from torch.fx.experimental.proxy_tensor import make_fx

        ids = self.space.ids(length, 0, size, self.device)
        given = [ids]
        if self.answers is not None:
            shape = (size, self.positions[length] or 1)
            given.append(torch.zeros(shape, dtype=torch.long, device=self.device))

        def alone(ids: Tensor) -> Batch:
            return self.step(ids, length, None)

        def compared(ids: Tensor, answers: Tensor) -> Batch:
            return self.step(ids, length, answers)

        one: Callable[..., Batch] = alone if self.answers is None else compared
        one(*given)  # what weights alone decide is computed here, once
        trace: Any = make_fx(one)
        graph = trace(*given)
        graph.graph.eliminate_dead_code()
        graph.recompile()
        run: Any = torch.compile(graph, dynamic=False)

        def step(ids: Tensor, length: int, answers: Tensor | None) -> Batch:
            decision, overflow = run(ids) if answers is None else run(ids, answers)
            return Batch(Decision(*decision), overflow)

        return step

    def _size(self) -> int:
        """Return the size of batches that is fastest here."""
        length = self.space.lengths[-1]
        size = 64 if self.device.type == "cpu" else 2**12
        if self.space.count(length) < 2**14:
            return 512
        best, speed = size, self.rate(size, length)
        while size < (2**13 if self.device.type == "cpu" else 2**17):
            size *= 2
            now = self.rate(size, length)
            if now > speed * 1.05:
                best, speed = size, now
            elif size >= 4 * best:
                break
        return best
