"""A blueprint or a fused form as an ONNX graph, built node by node from the exact weights.

Nothing is traced: every matrix is rounded once and every node is one operation of the definition, so
a file is the same each time and reads like the theorem:

    literal   Z = constant, with F·x added in the feature's column
              scores = (Z W_Qᵀ)(Z W_Kᵀ)ᵀ, selection by ArgMax: the first of equals, as the rule says
              Z + Σ_heads selection·(Z W_Vᵀ), then + σ(Z W_1ᵀ + b_1ᵀ) W_2ᵀ + b_2ᵀ, last ⟨β, Z⟩ + b
    fused     t = F·(x − centre), Horner's or Clenshaw's recurrence, a sum over the tokens, + b; for
              float16 in float32, rounded at the end

A value is named by its place (``block_2/head_1/scores``), a weight by where it is used, transposed
where ``MatMul`` takes it from the right. Sums over tokens, and those of the readout, are written out
by halving, as the modules have them. A runtime may take the sums of a ``MatMul`` in any order, and fuse
a product with a sum: the bounds cover that. A file cannot raise, so where a domain is given points
outside it are answered with NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from exactformer.algebra.rational import to_float
from exactformer.core.domain import Ball, Domain
from exactformer.core.layers import RELU, Block, Rule, Selection
from exactformer.core.onnx_graph import AnyArray, Graph, finished
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.run.closed_form import Basis

if TYPE_CHECKING:
    import onnx

INPUT, OUTPUT = "x", "y"


def literal_graph(blueprint: Blueprint, arrays: Mapping[str, AnyArray]) -> tuple[Graph, str]:
    """Return every matrix of a blueprint at work, and the name of its values (N, outputs)."""
    graph = Graph(arrays["embedding.features"].dtype)
    stream = _embedding(graph, blueprint.embedding.dimension, arrays)
    for b, block in enumerate(blueprint.blocks):
        name, start = f"block_{b + 1}", f"blocks.{b}."
        weights = {p.removeprefix(start): a for p, a in arrays.items() if p.startswith(start)}
        stream = _attention(graph, name, block, stream, weights, blueprint.tokens)
        stream = _feed_forward(graph, f"{name}/feed_forward", block, stream, weights)
    outputs = range(len(blueprint.readouts))
    beta = np.stack([arrays[f"readouts.{k}.beta"].ravel() for k in outputs])
    bias = np.concatenate([arrays[f"readouts.{k}.bias"].ravel() for k in outputs])
    rows = graph.node("readout/stream", "Unsqueeze", stream, graph.weight("readout/axis", [1]))
    read = graph.weight("readout/beta", beta.reshape(len(beta), blueprint.tokens, blueprint.width))
    terms = graph.node("readout/terms", "Mul", rows, read)
    sums = _halving_sum(graph, "readout/dimensions", terms, blueprint.width, 3)
    total = _halving_sum(graph, "readout/tokens", sums, blueprint.tokens, 2)
    return graph, graph.plus("readout/bias", total, bias)


def _embedding(graph: Graph, dimension: int, arrays: Mapping[str, AnyArray]) -> str:
    constant = arrays["embedding.constant"]
    after = constant.shape[1] - 1 - dimension
    t = graph.linear("embedding/features", INPUT, arrays["embedding.features"])
    t = graph.node("embedding/column", "Unsqueeze", t, graph.weight("embedding/axis", [2]))
    margins = graph.weight("embedding/margins", [0, 0, dimension, 0, 0, after])
    return graph.plus("embedding/tokens", graph.node("embedding/pad", "Pad", t, margins), constant)


def _attention(
    graph: Graph, name: str, block: Block, stream: str, weights: Mapping[str, AnyArray], n: int
) -> str:
    attended = stream
    for h in range(len(block.attention.heads)):
        head = f"{name}/head_{h + 1}"
        query, key, value = (
            graph.linear(f"{head}/{part}", stream, weights[f"heads.{h}.{part}"])
            for part in ("query", "key", "value")
        )
        keys = graph.node(f"{head}/keys", "Transpose", key, perm=[0, 2, 1])
        scores = graph.node(f"{head}/scores", "MatMul", query, keys)
        selection = _select(graph, f"{head}/selection", scores, block.attention.selection, n)
        mixed = graph.node(f"{head}/mixed", "MatMul", selection, value)
        attended = graph.node(f"{head}/residual", "Add", attended, mixed)
    return attended


def _select(graph: Graph, name: str, scores: str, selection: Selection, n: int) -> str:
    if selection.rule is Rule.ONE_HOT_MAX:
        place = graph.node(f"{name}/place", "ArgMax", scores, axis=-1, keepdims=1)
        order = graph.weight(f"{name}/order", np.arange(n))
        chosen = graph.node(f"{name}/chosen", "Equal", place, order)
        return graph.node(name, "Where", chosen, scores, graph.weight(f"{name}/zero", 0.0))
    if selection.rule is Rule.HARD_MAX:
        largest = graph.node(f"{name}/largest", "ReduceMax", scores, axes=[-1], keepdims=1)
        chosen = graph.node(f"{name}/chosen", "Equal", scores, largest)
        ones = graph.node(f"{name}/ones", "CastLike", chosen, scores)
        axis = graph.weight(f"{name}/axis", [-1])
        count = graph.node(f"{name}/count", "ReduceSum", ones, axis, keepdims=1)
        return graph.node(name, "Div", ones, count)
    temperature = graph.weight(f"{name}/temperature", float(selection.temperature))
    scaled = graph.node(f"{name}/scaled", "Div", scores, temperature)
    return graph.node(name, "Softmax", scaled, axis=-1)


def _feed_forward(
    graph: Graph, name: str, block: Block, stream: str, weights: Mapping[str, AnyArray]
) -> str:
    w1, b1, w2, b2 = (weights[f"feed_forward.{part}"] for part in ("w1", "b1", "w2", "b2"))
    output = stream
    if len(w1):
        hidden = graph.plus(f"{name}/b1", graph.linear(f"{name}/w1", stream, w1), b1.T)
        if block.feed_forward.activation == RELU:
            hidden = graph.node(f"{name}/relu", "Relu", hidden)
        change = graph.linear(f"{name}/w2", hidden, w2)
        output = graph.node(f"{name}/residual", "Add", stream, change)
    return graph.plus(f"{name}/b2", output, b2.T)


def fused_graph(arrays: Mapping[str, AnyArray], dtype: np.dtype[Any]) -> tuple[Graph, str]:
    """Return the closed form for points of ``dtype``, and the name of its values (N, outputs)."""
    features, coefficients = arrays["features"], arrays["coefficients"]
    graph, wide = Graph(dtype), features.dtype
    x = graph.plus("features/centred", graph.cast("features/x", INPUT, wide), -arrays["centre"])
    t = graph.linear("features/product", x, features)
    t = graph.node("features/t", "Unsqueeze", t, graph.weight("features/axis", [1]))
    rows = coefficients.reshape(len(coefficients), arrays["bias"].size, len(features))
    if not len(rows):  # a constant: the term 0·t
        rows = np.zeros((1, *rows.shape[1:]), wide)
    recurrence = _horner if arrays["basis"] == Basis.POWER else _clenshaw
    terms = recurrence(graph, t, rows)
    total = _halving_sum(graph, "sum", terms, len(features), 2)
    values = graph.plus("bias", total, arrays["bias"].reshape(-1))
    return graph, graph.cast("rounded", values, wide, back=True)


def _halving_sum(graph: Graph, name: str, terms: str, size: int, axis: int) -> str:
    """Sum an axis as the module does: neighbours in pairs, and their sums in pairs."""
    place, step = graph.weight(f"{name}/axis", [axis]), graph.weight(f"{name}/step", [2])
    level = 0
    while size > 1:
        level += 1
        at, even = f"{name}/level_{level}", size - size % 2
        ends = graph.weight(f"{at}/end", [even])
        first, second = (
            graph.node(
                f"{at}/{word}",
                "Slice",
                terms,
                graph.weight(f"{at}/{word}_start", [k]),
                ends,
                place,
                step,
            )
            for k, word in enumerate(("first", "second"))
        )
        pairs = graph.node(f"{at}/pairs", "Add", first, second)
        if even < size:
            start, end = (
                graph.weight(f"{at}/last_{w}", [k]) for w, k in (("start", even), ("end", size))
            )
            last = graph.node(f"{at}/last", "Slice", terms, start, end, place)
            pairs = graph.node(f"{at}/all", "Concat", pairs, last, axis=axis)
        terms, size = pairs, size // 2 + size % 2
    return graph.node(name, "Squeeze", terms, place)


def _horner(graph: Graph, t: str, coefficients: AnyArray) -> str:
    """t (c_1 + t (c_2 + …))."""
    value = ""
    for s in range(len(coefficients), 0, -1):
        c = graph.weight(f"power_{s}/coefficients", coefficients[s - 1])
        value = graph.node(f"power_{s}/sum", "Add", value, c) if value else c
        value = graph.node(f"power_{s}", "Mul", value, t)
    return value


def _clenshaw(graph: Graph, t: str, coefficients: AnyArray) -> str:
    """b_s = c_s + 2t·b_(s+1) − b_(s+2), then t·b_1 − b_2."""
    twice = graph.node("features/2t", "Add", t, t)
    current = above = ""
    for s in range(len(coefficients), 0, -1):
        name = f"chebyshev_{s}"
        value = graph.weight(f"{name}/coefficients", coefficients[s - 1])
        if above:
            value = graph.node(f"{name}/difference", "Sub", value, above)
        if current:
            product = graph.node(f"{name}/product", "Mul", twice, current)
            value = graph.node(name, "Add", value, product)
        above, current = current, value
    last = graph.node("chebyshev/product", "Mul", t, current)
    return graph.node("chebyshev", "Sub", last, above) if above else last


def onnx_model(
    graph: Graph,
    values: str,
    blueprint: Blueprint,
    metadata: Mapping[str, str],
    inside: float | None,
) -> onnx.ModelProto:
    """Return a model from ``x`` (batch, d) to ``y``, (batch,) or (batch, outputs).

    Points outside the domain, enlarged by the factor ``inside``, become NaN; ``None`` checks nothing.
    """
    from onnx import helper

    d, outputs = len(blueprint.variables), len(blueprint.readouts)
    if inside is not None and d:
        known = _inside(graph, blueprint.domain, d, inside)
        nan = graph.weight("domain/nan", float("nan"))
        values = graph.node("domain/values", "Where", known, values, nan)
    if blueprint.vector:
        graph.node(OUTPUT, "Identity", values)
    else:
        graph.node(OUTPUT, "Squeeze", values, graph.weight("y/axis", [1]))
    kind = helper.np_dtype_to_tensor_dtype(graph.dtype)
    shape: list[str | int] = ["batch", outputs] if blueprint.vector else ["batch"]
    given = helper.make_tensor_value_info(INPUT, kind, ["batch", d], ", ".join(blueprint.variables))
    return finished(graph, [given], [helper.make_tensor_value_info(OUTPUT, kind, shape)], metadata)


def _inside(graph: Graph, domain: Domain, d: int, limit: float) -> str:
    """Whether points lie in the domain, (batch, 1), in float64 whatever the graph's format."""
    from onnx import TensorProto

    centre = np.array([to_float(domain.offset(j)) for j in range(d)])
    rest = np.array([to_float(domain.offset(j) - Fraction(centre[j])) for j in range(d)])
    extent = np.array([to_float(domain.extent(j)) for j in range(d)])
    x = graph.node("domain/x", "Cast", INPUT, to=TensorProto.DOUBLE)
    away = graph.plus("domain/centred", x, -centre)
    if rest.any():  # what rounding took from the centre
        away = graph.plus("domain/settled", away, -rest)
    local = graph.node("domain/local", "Div", away, graph.weight("domain/extent", extent))
    most = graph.weight("domain/limit", np.array(limit))
    if isinstance(domain, Ball):
        square = graph.node("domain/squares", "Mul", local, local)
        axis = graph.weight("domain/axis", [1])
        total = graph.node("domain/sum", "ReduceSum", square, axis, keepdims=1)
        norm = graph.node("domain/norm", "Sqrt", total)
        return graph.node("domain/inside", "LessOrEqual", norm, most)
    size = graph.node("domain/size", "Abs", local)
    each = graph.node("domain/each", "LessOrEqual", size, most)
    counted = graph.node("domain/counted", "Cast", each, to=TensorProto.INT32)
    least = graph.node("domain/least", "ReduceMin", counted, axes=[1], keepdims=1)
    return graph.node("domain/inside", "Cast", least, to=TensorProto.BOOL)
