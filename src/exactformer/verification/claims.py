"""What a model is claimed to answer: by a function of tokens, or by another model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any

import torch
from torch import Tensor

from exactformer.errors import InputError
from exactformer.verification.space import Space


@dataclass
class FunctionClaim:
    """Right answers from a function: one input at a time, or many at once."""

    function: Callable[[Any], Any]
    space: Space
    answers: tuple[Any, ...]
    """Answers in the order of the model's logits."""
    batched: bool = False
    """Whether the function takes a tensor of ids of shape (batch, n) and returns one of ids."""
    _inputs: tuple[int, int, Iterator[Any]] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._numbers = {answer: k for k, answer in enumerate(self.answers)}

    @property
    def words(self) -> str:
        """What is claimed, as far as a function has a name."""
        name = getattr(self.function, "__name__", None) or type(self.function).__name__
        return "a function" if name == "<lambda>" else str(name)

    def __call__(self, ids: Tensor, length: int, start: int, positions: int) -> Tensor:
        """Return the ids of right answers for consecutive inputs, of shape (batch, positions).

        ``positions`` is 0 where the model has one answer per input, and none for each position.
        """
        if self.batched:
            return self._many(ids, positions)
        rows = self._tokens(length, start, len(ids))
        try:
            if not positions:
                found = [[number] for number in map(self._numbers.__getitem__, self._each(rows))]
            else:
                found = [
                    [self._numbers[x] for x in self._row(answer, positions)]
                    for answer in self._each(rows)
                ]
        except Exception:
            for row in self._tokens(length, start, len(ids)):
                self._explain(row, positions)
            raise
        return torch.tensor(found, device=ids.device)

    def _each(self, rows: Iterator[Any]) -> Iterator[Any]:
        return map(self.function, rows)

    def at(self, ids: Sequence[int], positions: int) -> list[int]:
        """Return the right answers for one input."""
        if self.batched:
            return self._many(torch.tensor([list(ids)]), positions)[0].tolist()
        return self._explain(self.space.tokens(ids), positions)

    def _row(self, answer: Any, positions: int) -> Any:
        if isinstance(answer, str) or len(answer) != positions:
            raise ValueError
        return answer

    def _tokens(self, length: int, start: int, count: int) -> Iterator[Any]:
        """Return inputs as tuples of tokens; consecutive calls continue one enumeration."""
        known = self._inputs
        if known is None or known[:2] != (length, start):
            rows: Iterator[Any] = product(self.space.vocabulary, repeat=length)
            next(islice(rows, start, start), None)
        else:
            rows = known[2]
        self._inputs = (length, start + count, rows)
        return islice(rows, count)

    def _explain(self, tokens: tuple[Any, ...], positions: int) -> list[int]:
        """Return the right answers for one input, or raise what is wrong with them."""
        try:
            answer = self.function(tokens)
        except Exception as error:
            raise InputError(
                f"the claim raises {type(error).__name__} on {list(tokens)}: {error}. It must answer "
                "every input; choose a vocabulary and a length for which it does"
            ) from error
        parts = [answer]
        if positions:
            try:
                parts = list(self._row(answer, positions))
            except (TypeError, ValueError):
                raise InputError(
                    f"the claim answers {list(tokens)} with {_short(answer)}; the model has logits at "
                    f"{positions} positions, so it must return {positions} answers"
                ) from None
        try:
            return [self._numbers[x] for x in parts]
        except (KeyError, TypeError):
            raise InputError(
                f"the claim answers {list(tokens)} with {_short(answer)}, which is not among the "
                f"model's {len(self.answers)} answers {_short(list(self.answers))}; name them in the "
                "order of the logits with answers="
            ) from None

    def _many(self, ids: Tensor, positions: int) -> Tensor:
        try:
            found = self.function(ids.clone())
        except Exception as error:
            raise InputError(
                f"the claim raises {type(error).__name__} on ids of shape {tuple(ids.shape)}: {error}"
            ) from error
        wanted = (len(ids), positions) if positions else (len(ids),)
        if not isinstance(found, Tensor) or found.dtype.is_floating_point:
            raise InputError("a batched claim must return a tensor of the ids of answers")
        if tuple(found.shape) != wanted:
            raise InputError(
                f"the claim returns shape {tuple(found.shape)} for {len(ids)} inputs; it must be "
                f"{wanted}"
            )
        found = found.reshape(len(ids), positions or 1).long()
        if not bool(((found >= 0) & (found < len(self.answers))).all()):
            raise InputError(f"the claim returns ids outside 0 to {len(self.answers) - 1}")
        return found


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
