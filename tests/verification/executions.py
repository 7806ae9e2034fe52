"""Executions of a graph as a kernel might order them: sums in random order, fused products or not.

Nothing here is shared with the rules: a graph is walked, and what has no order is left to torch. Every
step is rounded to the number format, which is harsher than kernels that add up in a wider one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from exactformer.verification.graph import Graph, Node, Ref


@contextmanager
def flushing(wanted: bool) -> Iterator[None]:
    """Take subnormal numbers for zero, where the processor can."""
    torch.set_flush_denormal(wanted)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


class Execution:
    """One way of computing a graph in a number format, by seed."""

    def __init__(self, graph: Graph, dtype: torch.dtype, seed: int) -> None:
        self.graph, self.dtype = graph, dtype
        self.random = torch.Generator().manual_seed(seed)
        self.rules: dict[str, Callable[..., Tensor]] = {
            "linear": self.linear,
            "matmul": self.matmul,
            "softmax": self.softmax,
            "scaled_dot_product_attention": self.attention,
            "layer_norm": self.layer_norm,
        }

    def __call__(self, ids: Tensor) -> Tensor:
        """Return logits."""
        env: list[Any] = []
        with torch.no_grad():
            for number, node in enumerate(self.graph.nodes):
                if number in self.graph.weights:
                    w = self.graph.weights[number]
                    env.append(w.to(self.dtype) if w.is_floating_point() else w)
                else:
                    env.append(ids if node.target is None else self._apply(node, env))
        result: Tensor = env[self.graph.output]
        return result

    def _apply(self, node: Node, env: list[Any]) -> Any:
        def value(a: Any) -> Any:
            return (
                [value(b) for b in a]
                if isinstance(a, list)
                else env[a.node]
                if isinstance(a, Ref)
                else a
            )

        args = [value(a) for a in node.args]
        kwargs = {name: value(a) for name, a in node.kwargs.items()}
        if node.name == "<built-in function getitem>":
            return args[0][args[1]]
        dtype = kwargs.get("dtype")
        if dtype is not None and dtype.is_floating_point:
            kwargs["dtype"] = self.dtype
        rule = self.rules.get(node.name.split(".")[1] if node.name.startswith("aten.") else "")
        return node.target(*args, **kwargs) if rule is None else rule(*args, **kwargs)

    def toss(self) -> bool:
        """Return true half of the time."""
        return bool(torch.rand((), generator=self.random) < 0.5)

    def total(self, terms: list[Tensor]) -> Tensor:
        """Add up terms, two random ones at a time."""
        terms = list(terms)
        while len(terms) > 1:
            i, j = torch.randperm(len(terms), generator=self.random)[:2].tolist()
            merged = terms[i] + terms[j]
            terms = [t for k, t in enumerate(terms) if k not in (i, j)] + [merged]
        return terms[0]

    def product(self, a: Tensor, b: Tensor, start: Tensor | None) -> Tensor:
        """Sum a·b over the last axis, of tensors that broadcast, with a term to start from."""
        pairs = [(a[..., k], b[..., k]) for k in range(a.shape[-1])]
        if not self.toss():
            terms = [x * y for x, y in pairs]
            return self.total(terms if start is None else [*terms, start])
        made = pairs[0][0] * pairs[0][1] if start is None else start
        for k in torch.randperm(len(pairs), generator=self.random).tolist():
            if start is not None or k:
                x, y = pairs[k]
                made = (x.double() * y.double() + made.double()).to(self.dtype)
        return made

    def linear(self, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
        return self.product(x[..., None, :], w, bias)

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        return self.product(a[..., :, None, :], b.mT[..., None, :, :], None)

    def softmax(self, x: Tensor, dim: int, dtype: Any = None) -> Tensor:
        weights, total = self.exponentials(x)
        return weights / total if self.toss() else weights * (1 / total)

    def exponentials(self, x: Tensor) -> tuple[Tensor, Tensor]:
        weights = (x - x.amax(-1, keepdim=True)).exp()
        return weights, self.total(list(weights.split(1, -1)))

    def attention(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
    ) -> Tensor:
        s = q.shape[-1] ** -0.5 if scale is None else scale
        way = int(torch.randint(3, (), generator=self.random))
        if way == 0:
            scores = self.matmul(q, k.mT) * s
        elif way == 1:
            scores = self.matmul(q * s, k.mT)
        else:
            scores = self.matmul(q * s**0.5, k.mT * s**0.5)
        if is_causal:
            keep = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
            scores = scores.masked_fill(~keep, -torch.inf)
        weights, total = self.exponentials(scores)
        if self.toss():
            return self.matmul(weights, v) / total
        return self.matmul(weights / total, v)

    def layer_norm(
        self,
        x: Tensor,
        shape: Any,
        weight: Any = None,
        bias: Any = None,
        eps: float = 1e-5,
        *rest: Any,
    ) -> Tensor:
        d = x.shape[-1]
        y = x - self.total(list(x.split(1, -1))) / d
        variance = self.total([t * t for t in y.split(1, -1)]) / d
        z = y * (variance + eps).rsqrt() if self.toss() else y / (variance + eps).sqrt()
        z = z if weight is None else z * weight
        return z if bias is None else z + bias
