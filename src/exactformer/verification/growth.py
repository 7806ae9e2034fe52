"""Where in a model the radius of its balls grows."""

from __future__ import annotations

from exactformer.core.words import at_most
from exactformer.verification.balls import Ball
from exactformer.verification.exhaustive import Exhaustive
from exactformer.verification.graph import Node, references


def growth(walk: Exhaustive, number: int) -> str:
    """Return, in words, the operator that most multiplies the radius, for one input by number."""
    length, start = walk.space.locate(number)
    engine = walk.engines[length]
    radii: dict[int, float] = {}
    worst, told = 1.0, ""

    def observe(place: int, node: Node, ball: Ball) -> None:
        nonlocal worst, told
        radii[place] = radius = float(ball.radius.max())
        before = [radii[k] for k in references((node.args, node.kwargs)) if k in radii]
        most = max(before, default=0.0)
        if most > 0 and not radius / most <= worst:
            worst = radius / most
            told = f": from {at_most(most)} to {at_most(radius)} at {node}"

    engine(walk.space.ids(length, start, start + 1, walk.device), observe=observe)
    return told
