"""From balls of logits to decisions: right, wrong, or neither proven."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from exactformer.verification.balls import UNIT, Ball


class Decision(NamedTuple):
    """What is proven of each input of a batch."""

    right: Tensor
    """Every execution answers as claimed, at every position."""
    wrong: Tensor
    """Every execution answers otherwise, at some position."""
    margin: Tensor
    """The least distance of the right logit from another, at the centre."""
    bound: Tensor
    """What that distance can be off by, where it is closest to being used up."""


def decide(logits: Ball, answers: Tensor) -> Decision:
    """Compare logits of shape (batch, positions, answers) with right answers.

    An execution answers with its largest logit. The difference of two computed logits is off by the sum
    of their radii; the sums here round, which costs a few units of the magnitudes. Logits that are not
    finite prove nothing, in either direction.
    """
    c, r = logits.c, logits.radius
    place = answers[..., None]
    own, own_radius = c.gather(-1, place), r.gather(-1, place)
    other = c - own
    bound = (r + own_radius) * (1 + 8 * UNIT) + (c.abs() + own.abs()) * (4 * UNIT)
    high = (other + bound).scatter(-1, place, -torch.inf)
    low = (other - bound).scatter(-1, place, -torch.inf)
    finite = (torch.isfinite(c) & torch.isfinite(r)).all(-1).all(-1)
    right = (high < 0).all(-1).all(-1) & finite
    wrong = (low > 0).any(-1).any(-1) & finite
    flat = high.flatten(1)
    closest = flat.argmax(-1, keepdim=True)
    margin = -other.flatten(1).gather(1, closest)[:, 0]
    return Decision(right, wrong, margin, bound.flatten(1).gather(1, closest)[:, 0])


def sure(logits: Ball) -> tuple[Tensor, Tensor]:
    """Return the answer at the centre, and where every execution gives it."""
    answers = logits.c.argmax(-1)
    c, r = logits.c, logits.radius
    place = answers[..., None]
    bound = (r + r.gather(-1, place)) * (1 + 8 * UNIT) + c.abs() * (8 * UNIT)
    high = (c - c.gather(-1, place) + bound).scatter(-1, place, -torch.inf)
    finite = (torch.isfinite(c) & torch.isfinite(r)).all(-1)
    return answers, (high < 0).all(-1) & finite


def compare(first: Ball, second: Ball) -> Decision:
    """Compare the answers of two models, at every position."""
    ours, known = sure(first)
    theirs, also = sure(second)
    both = known & also
    right = (both & (ours == theirs)).all(-1)
    wrong = (both & (ours != theirs)).any(-1)
    one, two = decide(first, ours), decide(second, theirs)
    smaller = one.margin - one.bound < two.margin - two.bound
    return Decision(
        right,
        wrong,
        torch.where(smaller, one.margin, two.margin),
        torch.where(smaller, one.bound, two.bound),
    )
