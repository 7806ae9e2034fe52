"""Chebyshev polynomials instead of powers: high degree without loss of digits.

On [−1, 1] powers look more and more alike, and a polynomial of degree 60 in them is a difference of
huge numbers. T_0, …, T_q are as different as can be and never exceed 1. Blocks compute them by

    T_{a+b} = 2 T_a T_b − T_{a−b},        a ≥ b,

which for b = 1 is the three-term recurrence. As with doubling, a block that finds T_1, …, T_k in the
stream leaves T_1, …, T_2k: ⌈log₂ q⌉ blocks, and errors grow like q² instead of exponentially.

    feature | position 1 … n | Chebyshev 2 … Chebyshev q | one
      t_i   |      e_i       |      0      …      0      |  1

A head's score is 2 T_a(t_i) T_b(t_j) − T_{a−b}(t_i) + 5·[i = j]. Off the diagonal scores differ by at
most 4, so every token selects itself by a margin of 1, and the bias −5 removes the offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from exactformer.algebra.chebyshev import from_powers
from exactformer.algebra.ridge import RidgeForm
from exactformer.core.domain import Domain, as_domain
from exactformer.core.layers import Attention, Block, FeedForward, Head, Readout, Rule, Selection
from exactformer.core.matrix import Matrix
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions.layout import TokenLayout
from exactformer.polynomials.constructions.scaled import scaled_beta, scaled_blueprint

OFFSET = Fraction(5)


def chebyshev(form: RidgeForm, domain: Domain | Fraction) -> Blueprint:
    """Return a transformer of ⌈log₂ q⌉ blocks that computes the ridge form on a domain."""
    domain, q = as_domain(domain), form.degree
    layout = TokenLayout(form.width, tuple(range(2, q + 1)), "Chebyshev")
    blocks, known = [], 1
    while known < q:
        reached = min(2 * known, q)
        blocks.append(_block(layout, [(known, s - known) for s in range(known + 1, reached + 1)]))
        known = reached
    beta = scaled_beta(form, domain)
    rows = [from_powers([Fraction(0), *row]) for row in zip(*beta.values(), strict=True)]
    constant = form.constant + sum((row[0] for row in rows), Fraction(0))
    columns = {s: [row[s] if s < len(row) else Fraction(0) for row in rows] for s in beta}
    readout = Readout(layout.readout(columns), constant)
    return scaled_blueprint(form, domain, layout, blocks, readout, "chebyshev")


def _block(layout: TokenLayout, products: Sequence[tuple[int, int]]) -> Block:
    """Return a block that stores T_{a+b} for every (a, b), a head each."""
    w = layout.width
    feed_forward = FeedForward(
        w1=Matrix.of(0, w, {}),
        b1=Matrix.of(0, 1, {}),
        w2=Matrix.of(w, 0, {}),
        b2=Matrix.of(w, 1, {(layout.power(a + b), 0): -OFFSET for a, b in products}),
    )
    heads = tuple(_head(layout, a, b) for a, b in products)
    return Block(Attention(heads, Selection(Rule.ONE_HOT_MAX)), feed_forward)


def _head(layout: TokenLayout, a: int, b: int) -> Head:
    """Return the head 2 T_a T_b − T_{a−b}: two rows of products, then the positions."""
    n, w, one = layout.tokens, layout.width, layout.one
    difference = one if a == b else layout.source(a - b)
    query = {(0, layout.source(a)): Fraction(2), (1, difference): Fraction(-1)}
    key = {(0, layout.source(b)): Fraction(1), (1, one): Fraction(1)}
    for i in range(n):
        query[2 + i, layout.position(i)] = OFFSET
        key[2 + i, layout.position(i)] = Fraction(1)
    value = {(layout.power(a + b), one): Fraction(1)}
    return Head(Matrix.of(n + 2, w, query), Matrix.of(n + 2, w, key), Matrix.of(w, w, value))
