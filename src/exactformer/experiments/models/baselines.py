"""The paper's two ReLU networks (tables 2 and 3), with about as many free parameters as ours.

NN_width has one hidden layer of as many units as ours has directions, C(d + q + 1, q); NN_depth has
as many hidden layers, q + 1, as ours has blocks and one linear map.

    target   ours (n·d + n·q + 1)   NN_width   NN_depth
    f₁*      41                     41         57
    f₂*      65,521                 52,417     74,041
"""

from __future__ import annotations

from itertools import pairwise

from torch import nn

from exactformer.learning.laws.dense.directions import paper_width

_DEPTH_UNITS = {(2, 2): 4, (10, 5): 120}
"""Units of a hidden layer of NN_depth for (d, q), as printed."""


def relu_network(widths: list[int]) -> nn.Module:
    """Return linear maps with ReLU between them; the last has one output. Maps (N, d) to (N,)."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 1), nn.Flatten(0))


def nn_depth(dimension: int, degree: int) -> nn.Module:
    """Return NN_depth: q + 1 hidden layers, elsewhere with about as many parameters as ours."""
    units = _DEPTH_UNITS.get((dimension, degree)) or _matching(dimension, degree)
    return relu_network([dimension] + [units] * (degree + 1))


def _matching(dimension: int, degree: int) -> int:
    budget = paper_width(dimension, degree) * (dimension + degree) + 1
    units = 1
    while degree * units * units + (dimension + degree + 2) * units + 1 < budget:
        units += 1
    return units
