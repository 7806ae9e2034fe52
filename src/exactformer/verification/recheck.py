"""A stored verdict, checked: the model's digest, its counterexamples, and a sample of the rest."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from torch import nn

from exactformer.errors import InputError
from exactformer.verification.exhaustive import LISTED
from exactformer.verification.settling import replay
from exactformer.verification.space import Space
from exactformer.verification.verdict import Verdict
from exactformer.verification.verify import Question, ask

_REPLAYED = 200


@dataclass(frozen=True)
class Recheck:
    """What a check of a stored verdict has confirmed, and what contradicts it."""

    claim: str
    confirmed: int
    """Inputs that were decided again, as the verdict says."""
    replayed: int
    """Counterexamples that were replayed to hundreds of bits, or bounded again."""
    total: int
    problems: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts the verdict."""
        return not self.problems

    @property
    def share(self) -> Fraction:
        """The share of all inputs that this check decided itself."""
        return Fraction(self.confirmed, self.total)

    def __str__(self) -> str:
        if self.problems:
            return "\n".join([f"The verdict is contradicted: {self.claim}", *self.problems])
        return (
            f"Nothing contradicts the verdict: {self.claim}\n"
            f"  same model, {self.replayed:,} counterexamples replayed, {self.confirmed:,} of "
            f"{self.total:,} inputs decided again; the others are stated by the file"
        )


def recheck(
    stored: Verdict,
    thing: nn.Module,
    claim: Callable[..., Any] | nn.Module,
    *,
    vocabulary: Iterable[Any] | None = None,
    answers: Iterable[Any] | None = None,
    batched: bool = False,
    sample: int = 1000,
    seed: int = 0,
) -> Recheck:
    """Check a stored verdict against the model and the claim, which its file does not hold.

    Graph and weights must have the digest that it names; its counterexamples are replayed; a seeded
    sample and the inputs that were closest to being undecided are decided again.

    Raises:
        InputError: where the verdict is about another model.
    """
    space = Space.of(stored.vocabulary if vocabulary is None else vocabulary, stored.lengths)
    options = stored.answers if answers is None else tuple(answers)
    is_model = isinstance(claim, nn.Module)
    question = ask(thing, claim, space, None if is_model else options, stored.arithmetic, batched)
    if question.digests != stored.digests:
        other = stored.versions.get("torch")
        note = f"; it was made with torch {other}" if other != torch.__version__ else ""
        raise InputError(
            f"the verdict is about another model: the SHA-256 of graph and weights differs{note}"
        )
    if space.total != stored.total:
        raise InputError(f"the verdict is about {stored.total:,} inputs, not {space.total:,}")
    problems = list(_counts(stored))
    wrong = {case.number for case in stored.counterexamples}
    doubtful = {case.number for case in stored.undecided}
    numbers = sorted(wrong)[:_REPLAYED]
    for number in numbers:
        if replay(question.walk, number) is not False:
            tokens = list(space.tokens(_ids(question, number)))
            problems.append(f"  {tokens} is called wrong, and is not")
    chosen = random.Random(seed)
    seen = stored.total - stored.unseen
    picked = {chosen.randrange(seen) for _ in range(sample)} if seen else set()
    picked = {k for k in picked | set(stored.closest) if k < seen} - doubtful - wrong
    for number in sorted(picked):
        found = replay(question.walk, number)
        listed = stored.wrong <= LISTED and stored.doubtful <= LISTED
        if found is not True and listed:
            tokens = list(space.tokens(_ids(question, number)))
            word = "wrong" if found is False else "undecided"
            problems.append(f"  {tokens} is called right, and is {word}")
    confirmed = len(picked) + len(numbers) - len(problems)
    return Recheck(stored.claim, max(confirmed, 0), len(numbers), stored.total, tuple(problems))


def _ids(question: Question, number: int) -> list[int]:
    length, start = question.walk.space.locate(number)
    found: list[int] = question.walk.space.rows(torch.tensor([start]), length)[0].tolist()
    return found


def _counts(stored: Verdict) -> Iterable[str]:
    for name, count, cases in (
        ("wrong", stored.wrong, stored.counterexamples),
        ("undecided", stored.doubtful, stored.undecided),
    ):
        if len(cases) != min(count, LISTED):
            yield f"  {count:,} inputs are called {name}, and {len(cases):,} are listed"
        if any(case.number >= stored.total for case in cases):
            yield f"  an input that is called {name} is not one of the {stored.total:,}"
