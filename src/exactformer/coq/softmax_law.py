"""The Coq file of a model with ordinary softmax attention: its law with a certified error.

The error in the theorem is twice what Python finds for exact arithmetic, truncation and leakage,
rounded up to two digits. Coq finds its own bound, by other means, which must not exceed it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from exactformer.coq.logistic import Tangent, tangent
from exactformer.coq.text import listed, matrix, rational, row, two_digits
from exactformer.core.formats import FORMATS
from exactformer.core.layers import BiasedHead, Block, Head, Rule
from exactformer.errors import CertificationError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.proof.certify import SLACK
from exactformer.polynomials.proof.softmax_error import softmax_bound
from exactformer.polynomials.proof.softmax_symbolic import ALONE, SoftmaxRun, run_softmax

FACTOR = 2
"""How much larger the error of the theorem is than Python's for exact arithmetic."""

_SHARE = Fraction(1, 64)
"""Of the truncation, what the polynomial in place of tanh may add."""


@dataclass(frozen=True)
class SoftData:
    """What the law of a softmax model states and brings along besides the weights."""

    error: Fraction
    guess: Tangent


def soft_data(blueprint: Blueprint) -> SoftData:
    """Return the error of the theorem, and the polynomial in place of tanh that Coq needs."""
    run = run_softmax(blueprint, blueprint.domain.enlarged(SLACK))
    bound = softmax_bound(run, FORMATS["float64"])
    if bound.truncation is None or bound.leakage is None:
        raise CertificationError(f"there is no bound of the error to state: {bound.reason}")
    return SoftData(two_digits(FACTOR * (bound.truncation + bound.leakage)), _guess(run))


def soft_model(blueprint: Blueprint, guess: Tangent) -> str:
    """Return the transformer and the guess as data."""
    F, E = blueprint.embedding.features, blueprint.embedding.constant
    rows = [listed(rational(F[i, j]) for j in range(F.columns)) for i in range(F.rows)]
    marks = [row(sorted(E.by_row.get(i, []))) for i in range(E.rows)]
    names = _shared_keys(blueprint)
    blocks = [_block(block, names) for block in blueprint.blocks]
    outputs = [f"({matrix(r.beta, 5)}, {rational(r.bias)})" for r in blueprint.readouts]
    keys = [f"Definition {name} : matrix :=\n  {key}.\n" for key, name in names.items()]
    return "\n".join(
        [
            *keys,
            "Definition model : soft_transformer := {|",
            f"  soft_features :=\n   {listed(rows, 3, lines=True)};",
            f"  soft_feature := {blueprint.embedding.dimension};",
            f"  soft_constant :=\n   {listed(marks, 3, lines=True)};",
            f"  soft_blocks :=\n   {listed(blocks, 3, lines=True)};",
            f"  soft_readouts :=\n   {listed(outputs, 3, lines=True)}",
            "|}.",
            "",
            "(** Close to tanh (u / 2): coefficients of u, u^3, u^5, ... Coq finds out how close. *)",
            f"Definition tangent : guess := {{| upto := {rational(guess.upto)}; odd :=",
            f"   {listed(map(rational, guess.odd), 3, lines=True)} |}}.",
        ]
    )


def _block(block: Block, names: dict[str, str]) -> str:
    selection, layer = block.attention.selection, block.feed_forward
    if selection.rule is not Rule.SOFTMAX or selection.temperature != 1:
        raise CertificationError("softmax at temperature 1 stands alone in the Coq library")
    if layer.w1.rows or layer.b2.nonzeros or layer.successive is not None:
        raise CertificationError(
            "softmax with feed-forward layers has no semantics in the Coq library"
        )
    return listed((_head(head, names) for head in block.attention.heads), 4, lines=True)


def _head(head: Head, names: dict[str, str]) -> str:
    if isinstance(head, BiasedHead):
        raise CertificationError("softmax with a query bias is not covered by the Coq library")
    space = "\n" + " " * 7
    query, value = matrix(head.query, 7, whole=True), matrix(head.value, 7)
    return f"Head{space}{query}{space}{names[matrix(head.key, 2)]}{space}{value}"


def _shared_keys(blueprint: Blueprint) -> dict[str, str]:
    """Return names by text for the keys, which all heads of a product share."""
    heads = (head for block in blueprint.blocks for head in block.attention.heads)
    keys = dict.fromkeys(matrix(head.key, 2) for head in heads)
    return {key: f"key_{number}" for number, key in enumerate(keys, start=1)}


def _guess(run: SoftmaxRun) -> Tangent:
    """Return a polynomial for the logits that are met, close enough to hide behind the truncation."""
    upto, accuracy = Fraction(1, 16), Fraction(1, 4)
    for block in run.shared:
        for product in block.products:
            heads = [block.heads[h] for h in product.heads]
            own = [i for i, p in enumerate(heads[0].partner) if p != ALONE]
            sizes = run.sizes.column(product.differences).values[:, 0]
            z = max((Fraction(float(sizes[i])) for i in own), default=Fraction(0))
            z += Fraction(1, 256)
            left = z
            weights = Fraction(0)
            for head in heads:
                square = (head.scale * z) ** 2
                left *= square / (Fraction(9869, 1000) + square)
                upto = max(upto, abs(head.scale) * z)
                for i in own[:1]:
                    here, there = head.values[i], head.values[heads[0].partner[i]]
                    weights += max(
                        (
                            abs(here.get(d, Fraction(0)) - there.get(d, Fraction(0))) / 2
                            for d in {*here, *there}
                        ),
                        default=Fraction(0),
                    )
            if weights and left:
                accuracy = min(accuracy, _SHARE * left / weights)
    return tangent(Fraction(ceil(upto * 16), 16), _power_of_two(accuracy))


def _power_of_two(value: Fraction) -> Fraction:
    """Return a power of two that is at most the value."""
    result = Fraction(1)
    while result > value:
        result /= 2
    return result
