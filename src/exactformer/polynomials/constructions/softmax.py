"""Powers by ordinary softmax attention: no custom selection, no feed-forward layer.

Two extra tokens stand beside the n ordinary ones. A token, with t_i = ξ_i·x/B and b_i its number in
binary:

             feature | bit 1, not 1, … | power 2 … power q | one | null | sink
    token i    t_i   |  b_i, 1 − b_i   |   0   …     0     |  1  |  0   |  0
    null        0    |       0         |   0   …     0     |  0  |  1   |  0
    sink        0    |       0         |   0   …     0     |  0  |  0   |  1

A head that multiplies x = t^a by y = t^b with node ε and weight c has the logits

    token i → token j     ε x_i y_j − L·(number of bits in which i and j differ)
    token i → null        0
    token i → sink        −L
    null, sink → sink     L,            to all others 0,

and the values c at a token, −c at the null token. So token i shares its attention between itself and
the null token, and receives c·tanh(ε x_i y_i/2); k heads extrapolate to x_i y_i
(:mod:`exactformer.polynomials.constructions.tanh_extrapolation`). The mask costs no digit: it adds
an exact zero to the logits that count. The sink keeps the null token clean: whatever it looks at has
the value 0. Powers come by doubling, ⌈log₂ q⌉ blocks deep. Binary positions make a token
2⌈log₂ n⌉ + q + 3 wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from exactformer.algebra.ridge import RidgeForm
from exactformer.core.domain import Domain, as_domain
from exactformer.core.layers import Attention, Block, Head, Readout, Rule, Selection
from exactformer.core.rows import Rows
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions.layout import embedding, readout
from exactformer.polynomials.constructions.scaled import (
    bias_only,
    power,
    scaled_beta,
    scaled_features,
)
from exactformer.polynomials.constructions.tanh_extrapolation import Extrapolation

MASK = Fraction(64)
"""L: e^(−64) is 2e-28, far below every rounding; more would gain nothing."""

DEFAULT = Extrapolation(heads=12, span=Fraction(13, 8))
"""Near the smallest total error of float64."""


def _rows(bits: int, degree: int) -> Rows:
    digits = (f"{word} {r + 1}" for r in range(bits) for word in ("bit", "not"))
    powers = (power(s) for s in range(2, degree + 1))
    return Rows("feature", *digits, *powers, "one", "null", "sink")


def _digit(r: int, value: int) -> str:
    """Return the row in which a token says whether digit r of its number is ``value``."""
    return f"{'bit' if value else 'not'} {r + 1}"


def _head(rows: Rows, a: int, b: int, c: int, node: Fraction, weight: Fraction) -> Head:
    """Return the head that adds ``weight``·tanh(node·t^a·t^b/2) to power c."""
    # Digits that differ: mine is set and the other's is not, or the other way round.
    digits = [(r, value) for r in range(len(rows.every("bit"))) for value in (0, 1)]
    differing = ({_digit(r, value): -MASK} for r, value in digits)
    others = ({_digit(r, 1 - value): 1} for r, value in digits)
    return Head(
        rows.reading({power(a): node}, *differing, {"one": -MASK, "null": MASK, "sink": MASK}),
        rows.reading({power(b): 1}, *others, {"sink": 1}),
        rows.mixing({power(c): {"one": weight, "null": -weight}}),
    )


def _block(
    rows: Rows, products: Sequence[tuple[int, int, int]], extrapolation: Extrapolation
) -> Block:
    """Return a block that stores t^a · t^b as power c for every (a, b, c)."""
    scales = list(zip(extrapolation.nodes, extrapolation.weights, strict=True))
    heads = tuple(_head(rows, *product, *scale) for product in products for scale in scales)
    return Block(Attention(heads, Selection(Rule.SOFTMAX)), bias_only(rows, {}))


def softmax(
    form: RidgeForm, domain: Domain | Fraction, extrapolation: Extrapolation = DEFAULT
) -> Blueprint:
    """Return a softmax transformer of ⌈log₂ q⌉ blocks that approximates the ridge form."""
    domain = as_domain(domain)
    n, bits = form.width, (form.width - 1).bit_length()
    rows = _rows(bits, form.degree)
    numbers = [{_digit(r, i >> r & 1): 1 for r in range(bits)} for i in range(n)]
    marks = [*({**number, "one": 1} for number in numbers), {"null": 1}, {"sink": 1}]
    beta = {power(s): column for s, column in scaled_beta(form, domain).items()}
    blocks = []
    known = 1
    while known < form.degree:
        reached = min(2 * known, form.degree)
        steps = [(known, s - known, s) for s in range(known + 1, reached + 1)]
        blocks.append(_block(rows, steps, extrapolation))
        known = reached
    return Blueprint(
        variables=form.variables,
        dimensions=rows.names,
        embedding=embedding(rows, scaled_features(form, domain), domain, marks),
        blocks=tuple(blocks),
        readouts=(Readout(readout(rows, beta, n + 2), form.constant),),
        domain=domain,
        degree=form.degree,
        construction="softmax",
        metadata={"directions": form.family, **extrapolation.to_metadata()},
    )
