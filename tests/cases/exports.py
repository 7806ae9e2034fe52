"""Models that between them have everything an export must carry, and what judges the result."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

import exactformer as ef

F2 = "x1^5 + 3 x2^4 + 2 x3^3 + 5 x3 x4 + 3 x5^2 + 2 x6 x7 x8 + 2 x9"

MODELS: dict[str, dict[str, Any]] = {
    "f2": {"target": F2, "radius": 4},
    "paper": {"target": "2 x^3 - x y + 1/3", "radius": 3, "construction": "paper"},
    "doubling": {"target": "x^6 - 2 x y^2", "radius": 2, "construction": "doubling"},
    "vector": {"target": ["x^2 y - 1/7", "x", "3"], "radius": "1/3"},
    "vector of one": {"target": ["x y"], "radius": 1},
    "box": {"target": "x^3 + x y", "domain": [(0, 1), ("-1/2", 3)]},
    "chebyshev": {
        "target": ["8 x^7 - y^3 + 1", "x y"],
        "domain": [(1, 2), (0, "1/3")],
        "construction": "chebyshev",
    },
    "chebyshev of degree 1": {"target": "2 x - 1", "radius": 3, "construction": "chebyshev"},
    "softmax": {"target": ["x^3 - 2 x y + 1", "y"], "radius": 2, "construction": "softmax"},
    "constant": {"target": "7/2", "variables": ["x"], "radius": 1},
    "constants": {"target": ["7/3", "0"], "variables": ["x"], "radius": 1},
    "no variables": {"target": "7/2", "variables": [], "radius": 1},
}

FUSED = tuple(name for name in MODELS if name != "softmax")
"""Those that have a closed form."""


def model_of(name: str, **options: Any) -> ef.PolynomialModel:
    return ef.compile(**(MODELS[name] | options))


def inner_points(model: ef.PolynomialModel, count: int, seed: int = 0) -> NDArray[Any]:
    """Points of the domain in the model's format; rounding does not take them out of it."""
    domain, d = model.blueprint.domain, len(model.blueprint.variables)
    rng = np.random.default_rng(seed)
    local = rng.normal(size=(count, d))
    lengths = np.linalg.norm(local, axis=1, keepdims=True)
    local *= 0.98 * rng.random((count, 1)) ** 0.25 / np.where(lengths > 0, lengths, 1)
    centre = np.array([float(domain.offset(j)) for j in range(d)])
    extent = np.array([float(domain.extent(j)) for j in range(d)])
    return (centre + local * extent).astype(str(model.dtype).removeprefix("torch."))


def worst_error(model: ef.PolynomialModel, x: NDArray[Any], values: NDArray[Any]) -> Fraction:
    """The largest difference to the target, in exact arithmetic; checks the shape on the way."""
    outputs = len(model.blueprint.readouts)
    assert values.shape == ((len(x), outputs) if model.blueprint.vector else (len(x),))
    texts = model.target.removesuffix(";").split(";")
    targets = [ef.Polynomial.parse(text, model.blueprint.variables) for text in texts]
    computed = values.astype(np.float64).reshape(len(x), outputs).tolist()
    return max(
        abs(Fraction(value) - target.at(point))
        for point, row in zip(x.astype(np.float64).tolist(), computed, strict=True)
        for value, target in zip(row, targets, strict=True)
    )


def session(contents: bytes, optimise: bool = True) -> Any:
    """An onnxruntime session on one core."""
    import onnxruntime

    options, level = onnxruntime.SessionOptions(), onnxruntime.GraphOptimizationLevel
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimise else level.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(contents, options, providers=["CPUExecutionProvider"])
