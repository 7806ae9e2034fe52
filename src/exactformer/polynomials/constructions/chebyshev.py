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
from exactformer.core.layers import Attention, Block, Head, Readout, Rule, Selection
from exactformer.core.rows import Rows
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions.layout import readout, selector, token_rows
from exactformer.polynomials.constructions.scaled import (
    bias_only,
    scaled_beta,
    scaled_blueprint,
)

OFFSET = Fraction(5)


def chebyshev(form: RidgeForm, domain: Domain | Fraction) -> Blueprint:
    """Return a transformer of ⌈log₂ q⌉ blocks that computes the ridge form on a domain."""
    domain, q = as_domain(domain), form.degree
    rows = token_rows(form.width, (_row(s) for s in range(2, q + 1)))
    blocks, known = [], 1
    while known < q:
        reached = min(2 * known, q)
        blocks.append(_block(rows, [(known, s - known) for s in range(known + 1, reached + 1)]))
        known = reached
    beta = scaled_beta(form, domain)
    series = [from_powers([Fraction(0), *row]) for row in zip(*beta.values(), strict=True)]
    constant = form.constant + sum((c[0] for c in series), Fraction(0))
    columns = {_row(s): [c[s] if s < len(c) else Fraction(0) for c in series] for s in beta}
    output = Readout(readout(rows, columns, form.width), constant)
    return scaled_blueprint(form, domain, rows, blocks, output, "chebyshev")


def _row(s: int) -> str:
    """Return the row of T_s."""
    return {0: "one", 1: "feature"}.get(s, f"Chebyshev {s}")


def _block(rows: Rows, products: Sequence[tuple[int, int]]) -> Block:
    """Return a block that stores T_{a+b} for every (a, b), a head each: 2 T_a T_b − T_{a−b}."""
    heads = tuple(
        Head(
            selector(rows, {_row(a): 2}, {_row(a - b): -1}, position=OFFSET),
            selector(rows, {_row(b): 1}, {"one": 1}),
            rows.mixing({_row(a + b): {"one": 1}}),
        )
        for a, b in products
    )
    lowered = bias_only(rows, {_row(a + b): -OFFSET for a, b in products})
    return Block(Attention(heads, Selection(Rule.ONE_HOT_MAX)), lowered)
