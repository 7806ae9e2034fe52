"""The default construction: Theorem 3.5 with scaled features and leaner blocks.

Features are t_i = ξ_i·x / B, so |t| ≤ 1 whatever the radius, and B^s goes into β: the offset that
makes tokens select themselves stays 3 and costs the same few units of rounding for every B. In a box
each token has its own B_i, the largest |ξ_i·u| there.

    feature | position 1 … n | power 2 … power q | one
      t_i   |      e_i       |   0   …     0     |  1

Departures from the paper, each of which saves work and loses nothing:

* The feature is its own first power, so q − 1 blocks suffice; the paper's first only copies it.
* The selected score t_i·t_i^(s−1) + 3 needs no ReLU: the bias −3 alone removes the offset, with the
  sign already right. A block has 2n + 4 non-zeros instead of 2n + 8.
* Scores differ off the diagonal by at most 2, so the offset 3 leaves a margin of at least 1 for any
  directions, while t^s + 3 stays in [2, 4], where float spacing is the same as for the offset 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from exactformer.algebra.ridge import RidgeForm
from exactformer.core.domain import Domain, as_domain
from exactformer.core.layers import Attention, Block, FeedForward, Head, Readout, Rule, Selection
from exactformer.core.matrix import column
from exactformer.core.rows import Rows, Weights
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions.layout import (
    embedding,
    readout,
    selector,
    token_rows,
)

OFFSET = Fraction(3)


def scaled(form: RidgeForm, domain: Domain | Fraction) -> Blueprint:
    """Return a transformer of q − 1 blocks that computes the ridge form on a domain."""
    rows = power_rows(form)
    blocks = [multiply(rows, [(1, s - 1, s)]) for s in range(2, form.degree + 1)]
    return assemble(form, domain, rows, blocks, "scaled")


def power(s: int) -> str:
    """Return the row of t^s; the feature is its own first power."""
    return "feature" if s == 1 else f"power {s}"


def power_rows(form: RidgeForm) -> Rows:
    """Return the rows of a token that stores powers 2 … q next to the feature."""
    return token_rows(form.width, (power(s) for s in range(2, form.degree + 1)))


def multiply(rows: Rows, products: Sequence[tuple[int, int, int]]) -> Block:
    """Return a block that stores t^a · t^b as power c for every (a, b, c), a head each."""
    heads = tuple(
        Head(
            query=selector(rows, {power(a): 1}, position=OFFSET),
            key=selector(rows, {power(b): 1}),
            value=rows.mixing({power(c): {"one": 1}}),
        )
        for a, b, c in products
    )
    lowered = bias_only(rows, {power(c): -OFFSET for _, _, c in products})
    return Block(Attention(heads, Selection(Rule.ONE_HOT_MAX)), lowered)


def bias_only(rows: Rows, bias: Weights) -> FeedForward:
    """Return a feed-forward layer without units: it adds its bias."""
    return FeedForward(rows.reading(), column([]), rows.writing(), rows.writing(bias))


def assemble(
    form: RidgeForm,
    domain: Domain | Fraction,
    rows: Rows,
    blocks: Sequence[Block],
    name: str,
) -> Blueprint:
    """Return the blueprint with scaled features F = Ξ/B, the given blocks, and β[k, s]·B^s."""
    domain = as_domain(domain)
    columns = {power(s): column for s, column in scaled_beta(form, domain).items()}
    output = Readout(readout(rows, columns, form.width), form.constant)
    return scaled_blueprint(form, domain, rows, blocks, output, name)


def scaled_beta(form: RidgeForm, domain: Domain) -> dict[int, list[Fraction]]:
    """Return {s: the weights β[k, s]·B_k^s of t_k^s}."""
    reaches = [domain.local_reach(direction) for direction in form.directions]
    return {
        s: [row[s - 1] * reach**s for row, reach in zip(form.beta, reaches, strict=True)]
        for s in range(1, form.degree + 1)
    }


def scaled_features(form: RidgeForm, domain: Domain) -> list[list[Fraction]]:
    """Return F, one direction per row, with features t_k = ξ_k·u / B_k in [−1, 1]."""
    units = [domain.unit(j) for j in range(len(form.variables))]
    reaches = [domain.local_reach(direction) for direction in form.directions]
    return [
        [c / (unit * reach) for c, unit in zip(direction, units, strict=True)]
        for direction, reach in zip(form.directions, reaches, strict=True)
    ]


def scaled_blueprint(
    form: RidgeForm,
    domain: Domain,
    rows: Rows,
    blocks: Sequence[Block],
    output: Readout,
    name: str,
) -> Blueprint:
    """Return the blueprint whose features t_k = ξ_k·u / B_k lie in [−1, 1]."""
    return Blueprint(
        variables=form.variables,
        dimensions=rows.names,
        embedding=embedding(rows, scaled_features(form, domain), domain),
        blocks=tuple(blocks),
        readouts=(output,),
        domain=domain,
        degree=form.degree,
        construction=name,
        metadata={"directions": form.family},
    )
