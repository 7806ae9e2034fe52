"""A blueprint run in floats with every sum in a random order: what "any order" has to cover.

Every product and every addition is one elementwise torch operation, so each is rounded once in the
format itself. Products, residuals and biases of one entry go into one sum, whose terms are combined
two at a time at random.
"""

from __future__ import annotations

import random

import torch
from torch import Tensor

from exactformer.core.layers import RELU, Rule
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.run.halving import halving_sum
from exactformer.polynomials.run.literal import rounded_weights


def run_shuffled(blueprint: Blueprint, x: Tensor, rng: random.Random) -> Tensor:
    """Points ``(N, d)`` to values ``(N,)`` in the format of ``x``."""
    weights = rounded_weights(blueprint, x.dtype)
    n, w = blueprint.tokens, blueprint.width
    stream = weights["embedding.constant"].expand(len(x), n, w).clone()
    F, place = weights["embedding.features"], blueprint.embedding.dimension
    for i in range(n):
        terms = [x[:, j] * F[i, j] for j in range(F.shape[1]) if F[i, j] != 0]
        constant = stream[:, i, place].clone()
        stream[:, i, place] = _any(terms + ([constant] if bool(constant.any()) else []), x, rng)
    for b, block in enumerate(blueprint.blocks):
        path = f"blocks.{b}"
        added: list[list[list[Tensor]]] = [[[] for _ in range(w)] for _ in range(n)]
        for h in range(len(block.attention.heads)):
            q, k, v = (
                _linear(weights[f"{path}.heads.{h}.{name}"], stream, rng)
                for name in ("query", "key", "value")
            )
            scores = torch.stack(
                [
                    torch.stack(
                        [
                            _any([q[:, i, r] * k[:, j, r] for r in range(q.shape[2])], x, rng)
                            for j in range(n)
                        ],
                        dim=1,
                    )
                    for i in range(n)
                ],
                dim=1,
            )
            largest, chosen = scores.max(dim=-1)
            if block.attention.selection.rule is Rule.HARD_MAX:
                largest = torch.ones_like(largest)
            values = v.gather(1, chosen.unsqueeze(-1).expand(-1, -1, w))
            for i in range(n):
                for r in range(w):
                    added[i][r].append(largest[:, i] * values[:, i, r])
        stream = _plus(stream, added, x, rng)
        layer = f"{path}.feed_forward"
        hidden = _linear(weights[f"{layer}.w1"], stream, rng, weights[f"{layer}.b1"][:, 0])
        if block.feed_forward.activation == RELU:
            hidden = hidden.relu()
        w2, b2 = weights[f"{layer}.w2"], weights[f"{layer}.b2"][:, 0]
        added = [
            [
                [hidden[:, i, u] * w2[r, u] for u in range(w2.shape[1]) if w2[r, u] != 0]
                + ([b2[r].expand(len(x))] if b2[r] != 0 else [])
                for r in range(w)
            ]
            for i in range(n)
        ]
        stream = _plus(stream, added, x, rng)
    terms = stream * weights["readouts.0.beta"]
    return halving_sum(halving_sum(terms)) + weights["readouts.0.bias"][0, 0]


def _plus(stream: Tensor, added: list[list[list[Tensor]]], x: Tensor, rng: random.Random) -> Tensor:
    rows = [
        torch.stack(
            [
                _any([stream[:, i, r], *terms], x, rng) if terms else stream[:, i, r]
                for r, terms in enumerate(row)
            ],
            dim=1,
        )
        for i, row in enumerate(added)
    ]
    return torch.stack(rows, dim=1)


def _linear(
    matrix: Tensor, stream: Tensor, rng: random.Random, bias: Tensor | None = None
) -> Tensor:
    out = stream.new_zeros(*stream.shape[:2], len(matrix))
    for i in range(stream.shape[1]):
        for r in range(len(matrix)):
            columns = [c for c in range(matrix.shape[1]) if matrix[r, c] != 0]
            terms = [stream[:, i, c] * matrix[r, c] for c in columns]
            if bias is not None and bias[r] != 0:
                terms.append(bias[r].expand(len(stream)))
            out[:, i, r] = _any(terms, stream[:, 0], rng)
    return out


def _any(terms: list[Tensor], like: Tensor, rng: random.Random) -> Tensor:
    """Add terms two at a time, each time a random pair."""
    if not terms:
        return like.new_zeros(len(like))
    terms = list(terms)
    while len(terms) > 1:
        a = terms.pop(rng.randrange(len(terms)))
        b = terms.pop(rng.randrange(len(terms)))
        terms.append(a + b)
    return terms[0]
