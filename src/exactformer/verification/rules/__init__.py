"""Rules: for each operator of a graph, the ball of its result from the balls of its arguments."""

from exactformer.verification.rules import (
    attention,
    masks,
    normalisation,
    pointwise,
    products,
    shapes,
)
from exactformer.verification.rules.table import RULES, Context, NotCoveredError

__all__ = [
    "RULES",
    "Context",
    "NotCoveredError",
    "attention",
    "masks",
    "normalisation",
    "pointwise",
    "products",
    "shapes",
]
