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
from exactformer.core.matrix import Matrix
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions.layout import TokenLayout

OFFSET = Fraction(3)


def scaled(form: RidgeForm, domain: Domain | Fraction) -> Blueprint:
    """Return a transformer of q − 1 blocks that computes the ridge form on a domain."""
    layout = power_layout(form)
    steps = [[(1, s - 1, s)] for s in layout.powers]
    return assemble(form, domain, layout, [multiply(layout, step) for step in steps], "scaled")


def power_layout(form: RidgeForm) -> TokenLayout:
    """Return the token that stores powers 2 … q next to the feature."""
    return TokenLayout(form.width, powers=tuple(range(2, form.degree + 1)))


def multiply(layout: TokenLayout, products: Sequence[tuple[int, int, int]]) -> Block:
    """Return a block that stores t^a · t^b as power c for every (a, b, c), a head each."""

    def head(a: int, b: int, c: int) -> Head:
        return Head(
            query=layout.selector(layout.source(a), OFFSET),
            key=layout.selector(layout.source(b), Fraction(1)),
            value=Matrix.of(layout.width, layout.width, {(layout.power(c), layout.one): 1}),
        )

    w = layout.width
    feed_forward = FeedForward(
        w1=Matrix.of(0, w, {}),
        b1=Matrix.of(0, 1, {}),
        w2=Matrix.of(w, 0, {}),
        b2=Matrix.of(w, 1, {(layout.power(c), 0): -OFFSET for _, _, c in products}),
    )
    heads = tuple(head(*product) for product in products)
    return Block(Attention(heads, Selection(Rule.ONE_HOT_MAX)), feed_forward)


def assemble(
    form: RidgeForm,
    domain: Domain | Fraction,
    layout: TokenLayout,
    blocks: Sequence[Block],
    name: str,
) -> Blueprint:
    """Return the blueprint with scaled features F = Ξ/B, the given blocks, and β[k, s]·B^s."""
    domain = as_domain(domain)
    readout = Readout(layout.readout(scaled_beta(form, domain)), form.constant)
    return scaled_blueprint(form, domain, layout, blocks, readout, name)


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
    layout: TokenLayout,
    blocks: Sequence[Block],
    readout: Readout,
    name: str,
) -> Blueprint:
    """Return the blueprint whose features t_k = ξ_k·u / B_k lie in [−1, 1]."""
    return Blueprint(
        variables=form.variables,
        dimensions=layout.names,
        embedding=layout.embedding(scaled_features(form, domain), domain),
        blocks=tuple(blocks),
        readouts=(readout,),
        domain=domain,
        degree=form.degree,
        construction=name,
        metadata={"directions": form.family},
    )
