"""The paper's three networks: the transformer, and two ReLU networks (tables 2 and 3) of its size.

NN_width has one hidden layer of as many units as ours has directions, C(d + q + 1, q); NN_depth has
as many hidden layers, q + 1, as ours has blocks and one linear map. Free parameters:

    target   ours (n·d + n·q + 1)   NN_width   NN_depth
    f₁*      41                     41         57
    f₂*      65,521                 52,417     74,041
"""

from itertools import pairwise

import numpy as np
import torch
from torch import nn

from exactformer.experiments.fang.data import Array, Target
from exactformer.learning.laws.dense.directions import paper_width, unit_directions
from exactformer.learning.laws.trained.network import PolynomialAttention

_ROWS = 16_384
_DEPTH_UNITS = {(2, 2): 4, (10, 5): 120}
"""Units of a hidden layer of NN_depth for (d, q), as printed."""


def build(model: str, target: Target, width: int, seed: int, device: str) -> nn.Module:
    """Return an untrained network; ``width`` is the number of directions or of hidden units."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if model == "attention":
            drawn = unit_directions(width, target.dimension, np.random.default_rng(seed))
            directions = torch.as_tensor(drawn, dtype=torch.float32)
            return PolynomialAttention(
                directions.to(device), target.degree, compiled=device != "cpu"
            )
        if model == "width":
            return relu_network([target.dimension, width]).to(device)
        return nn_depth(target.dimension, target.degree).to(device)


def predict(network: nn.Module, x: Array) -> Array:
    """Return the network's values at rows of ``x``."""
    parameter = next(network.parameters())
    rows = torch.as_tensor(x).to(parameter.device, parameter.dtype)
    with torch.no_grad():
        values = torch.cat([network(part) for part in torch.split(rows, _ROWS)])
    return np.asarray(values.double().cpu().numpy())


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
