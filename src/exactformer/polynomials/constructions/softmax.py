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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from exactformer.algebra.ridge import RidgeForm
from exactformer.core.domain import Domain, as_domain
from exactformer.core.layers import (
    Attention,
    Block,
    Embedding,
    FeedForward,
    Head,
    Readout,
    Rule,
    Selection,
)
from exactformer.core.matrix import Matrix
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions.scaled import scaled_beta, scaled_features
from exactformer.polynomials.constructions.tanh_extrapolation import Extrapolation

MASK = Fraction(64)
"""L: e^(−64) is 2e-28, far below every rounding; more would gain nothing."""

DEFAULT = Extrapolation(heads=12, span=Fraction(13, 8))
"""Near the smallest total error of float64."""


@dataclass(frozen=True)
class _SharedLayout:
    """Places of the named dimensions, for ``tokens`` ordinary tokens and degree ``degree``."""

    tokens: int
    degree: int

    @property
    def bits(self) -> int:
        """How many binary digits number the tokens."""
        return (self.tokens - 1).bit_length()

    @property
    def names(self) -> tuple[str, ...]:
        """The dimensions' names, in order."""
        bits = (f"{word} {r + 1}" for r in range(self.bits) for word in ("bit", "not"))
        powers = (f"power {s}" for s in range(2, self.degree + 1))
        return ("feature", *bits, *powers, "one", "null", "sink")

    @property
    def width(self) -> int:
        """How many dimensions a token has."""
        return len(self.names)

    def bit(self, r: int, value: int) -> int:
        """Where a token says whether digit r of its number is ``value``."""
        return 1 + 2 * r + (0 if value else 1)

    def power(self, s: int) -> int:
        """Where t^s stands; the feature is its own first power."""
        return 0 if s == 1 else 2 * self.bits + s - 1

    @property
    def one(self) -> int:
        """Where ordinary tokens have a 1."""
        return self.width - 3

    @property
    def null(self) -> int:
        """Where the null token has its 1."""
        return self.width - 2

    @property
    def sink(self) -> int:
        """Where the sink has its 1."""
        return self.width - 1

    def embedding(self, directions: Sequence[Sequence[Fraction]], domain: Domain) -> Embedding:
        """Return F·(x − c), binary positions, and the marks of the three kinds of token."""
        n = self.tokens
        features: dict[tuple[int, int], Fraction] = {}
        constant: dict[tuple[int, int], Fraction | int] = {}
        for i, row in enumerate(directions):
            features |= {(i, j): c for j, c in enumerate(row)}
            shift = sum((-c * domain.offset(j) for j, c in enumerate(row)), Fraction(0))
            constant |= {(i, self.power(1)): shift, (i, self.one): 1}
            constant |= {(i, self.bit(r, i >> r & 1)): 1 for r in range(self.bits)}
        constant |= {(n, self.null): 1, (n + 1, self.sink): 1}
        return Embedding(
            Matrix.of(n + 2, len(directions[0]), features),
            self.power(1),
            Matrix.of(n + 2, self.width, constant),
        )

    def readout(self, columns: Mapping[int, Sequence[Fraction]]) -> Matrix:
        """Return β; ``columns[s]`` weighs power s."""
        entries = {
            (i, self.power(s)): value
            for s, values in columns.items()
            for i, value in enumerate(values)
        }
        return Matrix.of(self.tokens + 2, self.width, entries)

    def head(self, a: int, b: int, c: int, node: Fraction, weight: Fraction) -> Head:
        """Return the head that adds ``weight``·tanh(node·t^a·t^b/2) to power c."""
        query = {(0, self.power(a)): node}
        key = {(0, self.power(b)): Fraction(1)}
        # Digits that differ: mine is set and the other's is not, or the other way round.
        for r in range(self.bits):
            for value in (0, 1):
                row = 1 + 2 * r + value
                query[row, self.bit(r, value)] = -MASK
                key[row, self.bit(r, 1 - value)] = Fraction(1)
        row = 1 + 2 * self.bits
        query |= {(row, self.one): -MASK, (row, self.null): MASK, (row, self.sink): MASK}
        key[row, self.sink] = Fraction(1)
        value_entries = {(self.power(c), self.one): weight, (self.power(c), self.null): -weight}
        return Head(
            Matrix.of(row + 1, self.width, query),
            Matrix.of(row + 1, self.width, key),
            Matrix.of(self.width, self.width, value_entries),
        )

    def block(
        self, products: Sequence[tuple[int, int, int]], extrapolation: Extrapolation
    ) -> Block:
        """Return a block that stores t^a · t^b as power c for every (a, b, c)."""
        scales = list(zip(extrapolation.nodes, extrapolation.weights, strict=True))
        heads = tuple(self.head(a, b, c, *scale) for a, b, c in products for scale in scales)
        w = self.width
        nothing = FeedForward(
            Matrix.of(0, w, {}), Matrix.of(0, 1, {}), Matrix.of(w, 0, {}), Matrix.of(w, 1, {})
        )
        return Block(Attention(heads, Selection(Rule.SOFTMAX)), nothing)


def softmax(
    form: RidgeForm, domain: Domain | Fraction, extrapolation: Extrapolation = DEFAULT
) -> Blueprint:
    """Return a softmax transformer of ⌈log₂ q⌉ blocks that approximates the ridge form."""
    domain = as_domain(domain)
    layout = _SharedLayout(form.width, form.degree)
    blocks = []
    known = 1
    while known < form.degree:
        reached = min(2 * known, form.degree)
        steps = [(known, s - known, s) for s in range(known + 1, reached + 1)]
        blocks.append(layout.block(steps, extrapolation))
        known = reached
    return Blueprint(
        variables=form.variables,
        dimensions=layout.names,
        embedding=layout.embedding(scaled_features(form, domain), domain),
        blocks=tuple(blocks),
        readouts=(Readout(layout.readout(scaled_beta(form, domain)), form.constant),),
        domain=domain,
        degree=form.degree,
        construction="softmax",
        metadata={"directions": form.family, **extrapolation.to_metadata()},
    )
