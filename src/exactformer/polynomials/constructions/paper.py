"""Theorem 3.5 of Fang et al. 2022, matrix for matrix.

For Q = Q(0) + Σ β[k,s] (ξ_k·x)^s and ‖x‖ ≤ B there is a transformer of q blocks whose output is Q.

A token, with t_i = ξ_i·x and e_i its one-hot position:

    feature | position 1 … n | power 1 … power q | one
      t_i   |      e_i       |   0   …     0     |  1

Block s (Lemma 3.1) multiplies x = ``feature`` by y = ``power s−1`` (``one`` for s = 1). Scores are

    ⟨q_i, k_j⟩ = x_i y_j + 2M²·[i = j],        |x|, |y| ≤ M,

so each token selects itself, the selected score x_i y_i + 2M² lands in ``power s``, and the
feed-forward layer turns it into −x_i y_i. Hence ``power s`` holds (−1)^s t^s, and the readout carries
the sign. Departure from print: M = max(B, B^(s−1)), because B^(s−1) alone is too small for B < 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import comb

from exactformer.algebra.ridge import RidgeForm
from exactformer.core.domain import Ball, Domain, as_domain
from exactformer.core.layers import Attention, Block, FeedForward, Head, Readout, Rule, Selection
from exactformer.core.matrix import column
from exactformer.core.rows import Rows
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions.layout import (
    embedding,
    readout,
    selector,
    token_rows,
)


def paper(form: RidgeForm, domain: Domain | Fraction) -> Blueprint:
    """Return the transformer of Theorem 3.5.

    The offset 2M² just covers the largest difference of scores. On a ball two tokens never attain it
    together; on a box they may, so that B is taken larger there than any |ξ_i·u|.
    """
    q, domain = form.degree, as_domain(domain)
    powers = [f"power {s}" for s in range(1, q + 1)]
    rows = token_rows(form.width, powers)
    B = max(domain.local_reach(direction) for direction in form.directions)
    B = B if isinstance(domain, Ball) else B * Fraction(17, 16)
    bounds = [max(B, B ** (s - 1)) for s in range(1, q + 1)]
    beta = {
        power: [(-1) ** (s + 1) * row[s] for row in form.beta] for s, power in enumerate(powers)
    }
    features = [[c / domain.unit(j) for j, c in enumerate(row)] for row in form.directions]
    return Blueprint(
        variables=form.variables,
        dimensions=rows.names,
        embedding=embedding(rows, features, domain),
        blocks=tuple(map(partial(_block, rows), ["one", *powers], powers, bounds)),
        readouts=(Readout(readout(rows, beta, form.width), form.constant),),
        domain=domain,
        degree=q,
        construction="paper",
        metadata={"directions": form.family},
    )


def _block(rows: Rows, y: str, power: str, M: Fraction) -> Block:
    """Return the block that stores −(feature · y) as a power."""
    offset = 2 * M * M
    head = Head(
        query=selector(rows, {"feature": 1}, position=offset),
        key=selector(rows, {y: 1}),
        value=rows.mixing({power: {"one": 1}}),
    )
    feed_forward = FeedForward(
        w1=rows.reading({power: 1}, {power: -1}),
        b1=column([0, 0]),
        w2=rows.writing({power: -2}, {power: 2}),
        b2=rows.writing({power: offset}),
    )
    return Block(Attention((head,), Selection(Rule.ONE_HOT_MAX)), feed_forward)


@dataclass(frozen=True)
class TheoremCounts:
    """What Theorem 3.5 and Lemma 3.3 say a model costs, for n directions, d variables and degree q."""

    n: int
    d: int
    q: int

    @property
    def lemma_width(self) -> int:
        """n_q, the directions that suffice for every polynomial of this degree."""
        return comb(self.d - 1 + self.q, self.q) if self.d else 1

    @property
    def per_block(self) -> int:
        """Non-zeros of one block."""
        return 2 * self.n + 8

    @property
    def free(self) -> int:
        """Free parameters: F, β and b."""
        return self.n * self.d + self.n * self.q + 1

    @property
    def total(self) -> int:
        """Non-zeros in all."""
        return self.n * self.d + 3 * self.n * self.q + 8 * self.q + 1

    @property
    def free_bound(self) -> int:
        """The theorem's bound on free parameters."""
        return int(self.d ** (self.q + 1) + self.q * self.d**self.q + 1)

    @property
    def total_bound(self) -> int:
        """The theorem's bound on non-zeros."""
        return int(self.d ** (self.q + 1) + 3 * self.q * self.d**self.q + 8 * self.q + 1)
