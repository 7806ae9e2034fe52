"""One input at a time to hundreds of bits: balls of Arb, rounded outwards by that library.

It shares neither rules nor engine with the balls of this package, so it is an oracle for them, decides
what float64 leaves open in real arithmetic, and replays counterexamples of stored verdicts. Tensors are
NumPy arrays of ``arb``; operators that only move entries are run by torch on the entries' numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from flint import arb, ctx
from numpy.typing import NDArray
from torch import Tensor

from exactformer.verification.graph import Graph, Node, Ref, refusal

Numbers = NDArray[np.object_]
_MOVES = set(
    """view reshape _unsafe_view flatten unflatten transpose t permute unsqueeze squeeze expand slice
    select split chunk contiguous clone alias detach lift_fresh_copy dropout triu
    tril""".split()
)


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Compute with so many bits inside."""
    usual, ctx.prec = ctx.prec, bits
    try:
        yield
    finally:
        ctx.prec = usual


def numbers(values: Tensor) -> Numbers:
    """Return the entries of a tensor as exact numbers."""
    flat = values.detach().to(torch.float64).cpu().reshape(-1).tolist()
    made = np.empty(len(flat), dtype=object)
    made[:] = [arb(x) for x in flat]
    return made.reshape(tuple(values.shape))


def logits(graph: Graph, tokens: Sequence[int], bits: int = 400) -> Numbers:
    """Return the logits of one input, without the axis of the batch, in real arithmetic."""
    env: list[Any] = []
    with precision(bits), torch.no_grad():
        for number, node in enumerate(graph.nodes):
            if number in graph.weights:
                stored = graph.weights[number].cpu()
                env.append(numbers(stored) if stored.dtype.is_floating_point else stored)
            elif node.target is None:
                env.append(torch.tensor([list(tokens)]))
            else:
                env.append(_apply(node, env))
        result: Numbers = env[graph.output][0]
        return result


def _apply(node: Node, env: list[Any]) -> Any:
    def value(argument: Any) -> Any:
        if isinstance(argument, list):
            return [value(part) for part in argument]
        return env[argument.node] if isinstance(argument, Ref) else argument

    args = [value(argument) for argument in node.args]
    kwargs = {name: value(argument) for name, argument in node.kwargs.items()}
    if node.name == "<built-in function getitem>":
        return args[0][args[1]]
    name = node.name.split(".")[1] if node.name.startswith("aten.") else ""
    has_numbers = any(isinstance(a, np.ndarray) for a in [*args, *kwargs.values()]) or (
        name == "cat" and isinstance(args[0][0], np.ndarray)
    )
    if not has_numbers:
        if "device" in kwargs:
            kwargs["device"] = torch.device("cpu")
        made = node.target(*args, **kwargs)
        floats = isinstance(made, Tensor) and made.dtype.is_floating_point
        return numbers(made) if floats else made
    if name in _MOVES:
        return _moved(node, args, kwargs)
    if name not in _OPERATORS:
        raise refusal(node, "it cannot be computed to many digits")
    named: dict[str, Any] = {}
    for place, argument in enumerate(node.target._schema.arguments):
        if place < len(args) or argument.name in kwargs:
            named[argument.name] = args[place] if place < len(args) else kwargs[argument.name]
        elif argument.has_default_value():
            named[argument.name] = argument.default_value
    return _OPERATORS[name](named)


def _moved(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Run an operator on places; 0 stands for an entry that becomes zero."""
    x = args[0]
    places = torch.arange(1, x.size + 1).reshape(x.shape)
    made = node.target(places, *args[1:], **kwargs)
    flat = np.concatenate([np.array([arb(0)], dtype=object), x.reshape(-1)])
    if isinstance(made, Tensor):
        return flat[made.numpy()]
    return [flat[part.numpy()] for part in made]


def _each(function: Callable[[Any], Any]) -> Callable[[Numbers], Numbers]:
    made: Callable[[Numbers], Numbers] = np.frompyfunc(function, 1, 1)
    return made


_exp = _each(lambda x: x.exp())
_relu = _each(lambda x: x.max(arb(0)))
_HALF = arb(1) / 2


def _gelu(named: dict[str, Any]) -> Numbers:
    if named["approximate"] == "tanh":

        def one(x: Any) -> Any:
            inner = (arb(2) / arb.pi()).sqrt() * (x + arb(0.044715) * x**3)
            return _HALF * x * (1 + inner.tanh())
    else:

        def one(x: Any) -> Any:
            return _HALF * x * (1 + (x / arb(2).sqrt()).erf())

    return _each(one)(named["self"])


def _softmax(x: Numbers) -> Numbers:
    weights = _exp(x)
    return np.asarray(weights / weights.sum(-1, keepdims=True))


def _attention(named: dict[str, Any]) -> Numbers:
    q, k, v = named["query"], named["key"], named["value"]
    s = named["scale"]
    scale = 1 / arb(q.shape[-1]).sqrt() if s is None else arb(s)
    scores = (q @ np.swapaxes(k, -1, -2)) * scale
    mask = named["attn_mask"]
    if named["is_causal"]:
        mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    if isinstance(mask, Tensor):
        scores = _choose(mask, scores, arb(float("-inf")))
    elif mask is not None:
        scores = scores + mask
    return np.asarray(_softmax(scores) @ v)


def _norm(named: dict[str, Any], centred: bool) -> Numbers:
    x = named.get("input")
    assert x is not None
    y = x - x.sum(-1, keepdims=True) / x.shape[-1] if centred else x
    variance = (y * y).sum(-1, keepdims=True) / x.shape[-1] + arb(named["eps"])
    z = y * _each(lambda t: t.rsqrt())(variance)
    z = z if named["weight"] is None else z * named["weight"]
    return np.asarray(z if named.get("bias") is None else z + named["bias"])


def _choose(mask: Tensor, first: Any, second: Any) -> Numbers:
    chosen: Any = np.where
    return np.asarray(chosen(mask.numpy(), first, second))


def _where(named: dict[str, Any]) -> Numbers:
    parts = [
        named[k] if isinstance(named[k], np.ndarray) else arb(named[k]) for k in ("self", "other")
    ]
    return _choose(named["condition"], *parts)


def _fill(named: dict[str, Any]) -> Numbers:
    value = named["value"]
    number = value if isinstance(value, np.ndarray) else arb(float(value))
    return _choose(named["mask"], number, named["self"])


def _plain(value: Any) -> Any:
    return value if isinstance(value, np.ndarray) else arb(value)


_OPERATORS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "embedding": lambda n: n["weight"][n["indices"].numpy()],
    "linear": lambda n: n["input"] @ n["weight"].T + (0 if n["bias"] is None else n["bias"]),
    "addmm": lambda n: n["self"] + n["mat1"] @ n["mat2"],
    "matmul": lambda n: n["self"] @ n["other"],
    "bmm": lambda n: n["self"] @ n["mat2"],
    "mm": lambda n: n["self"] @ n["mat2"],
    "add": lambda n: _plain(n["self"]) + _plain(n["other"]),
    "sub": lambda n: _plain(n["self"]) - _plain(n["other"]),
    "mul": lambda n: _plain(n["self"]) * _plain(n["other"]),
    "div": lambda n: _plain(n["self"]) / _plain(n["other"]),
    "neg": lambda n: -n["self"],
    "mean": lambda n: (
        n["self"].sum(n["dim"][0], keepdims=n["keepdim"]) / n["self"].shape[n["dim"][0]]
    ),
    "softmax": lambda n: _softmax(n["self"]),
    "_softmax": lambda n: _softmax(n["self"]),
    "scaled_dot_product_attention": _attention,
    "layer_norm": lambda n: _norm(n, centred=True),
    "rms_norm": lambda n: _norm(n, centred=False),
    "relu": lambda n: _relu(n["self"]),
    "gelu": _gelu,
    "silu": lambda n: _each(lambda x: x / (1 + (-x).exp()))(n["self"]),
    "tanh": lambda n: _each(lambda x: x.tanh())(n["self"]),
    "sigmoid": lambda n: _each(lambda x: 1 / (1 + (-x).exp()))(n["self"]),
    "cos": lambda n: _each(lambda x: x.cos())(n["self"]),
    "sin": lambda n: _each(lambda x: x.sin())(n["self"]),
    "pow": lambda n: n["self"] ** int(n["exponent"]),
    "rsqrt": lambda n: _each(lambda x: x.rsqrt())(n["self"]),
    "where": _where,
    "masked_fill": _fill,
    "to": lambda n: n["self"],
    "_to_copy": lambda n: n["self"],
    "cat": lambda n: np.concatenate(n["tensors"], n["dim"]),
}
