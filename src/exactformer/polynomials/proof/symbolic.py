"""A blueprint run on polynomials in place of numbers.

Where every token selects itself, nothing but its own feature t_i = F_i·(x − c), c the centre of the
domain, ever reaches token i: each entry of its stream is a polynomial in the one variable t_i,
computed here exactly. Whether the tokens do select themselves is not assumed silently:
:mod:`exactformer.polynomials.proof.selection` proves it from the very queries and keys recorded here,
block by block. The one thing that must be decided on the way is the sign of what enters a ReLU; where
the sign changes on the domain, there is no polynomial to follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from flint import fmpq_poly

from exactformer.algebra.rational import to_float, to_fmpq
from exactformer.core.domain import Domain, as_domain
from exactformer.core.layers import ACTIVATIONS, RELU, BiasedHead, FeedForward, Head, Rule
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.proof.folded_tables import Folding
from exactformer.polynomials.proof.magnitudes import Sizes
from exactformer.polynomials.proof.shared_polynomials import Sharing, Token


@dataclass(frozen=True)
class HeadRun:
    """Queries, keys and values of every token, and the score each has with itself."""

    queries: list[Token]
    keys: list[Token]
    values: list[Token]
    scores: list[fmpq_poly]
    weights: list[fmpq_poly]


@dataclass(frozen=True)
class BlockRun:
    """One block: its heads, the stream after attention, the units before σ and after, the output."""

    heads: list[HeadRun]
    attended: list[Token]
    raw: list[Token]
    hidden: list[Token]
    output: list[Token]


@dataclass(frozen=True)
class SymbolicRun:
    """The whole journey; ``sizes`` knows how large each token's polynomials get on the domain."""

    blueprint: Blueprint
    domain: Domain
    sizes: Sizes
    tokens: list[Token]
    blocks: list[BlockRun]
    readouts: list[list[fmpq_poly]]
    """For every output the P_i with output = b + Σ_i P_i(F_i·(x − c))."""

    @cached_property
    def folding(self) -> Folding:
        """The blueprint over columns in which dimensions of single tokens stand together."""
        return Folding.of(self.blueprint)


def run_symbolic(blueprint: Blueprint, domain: Domain | Fraction) -> SymbolicRun:
    """Run ``blueprint`` on polynomials, each token selecting itself, over a domain."""
    check_shapes(blueprint)
    domain = as_domain(domain)
    features = blueprint.embedding.features
    rows = [features.by_row.get(i, []) for i in range(features.rows)]
    sizes, shared = Sizes([domain.reach(row) for row in rows]), Sharing()
    tokens: list[Token] = [{} for _ in rows]
    for i, dimension, value in blueprint.embedding.constant:
        tokens[i][dimension] = shared.constant(value)
    feature, place = fmpq_poly([0, 1]), blueprint.embedding.dimension
    for token, row in zip(tokens, rows, strict=True):
        at_centre = sum((value * domain.offset(j) for j, value in row), Fraction(0))
        moved = feature + to_fmpq(at_centre)
        token[place] = shared.same(token[place] + moved if place in token else moved)
    blocks: list[BlockRun] = []
    stream = tokens
    for b, block in enumerate(blueprint.blocks, start=1):
        rule = block.attention.selection.rule
        heads = [_run_head(head, rule, stream, shared, b) for head in block.attention.heads]
        attended = _attend(heads, stream, shared)
        layer = block.feed_forward
        blocks.append(_run_feed_forward(layer, heads, attended, sizes, shared, b))
        stream = blocks[-1].output
    readouts = [read(readout.beta, stream) for readout in blueprint.readouts]
    return SymbolicRun(blueprint, domain, sizes, tokens, blocks, readouts)


def read(beta: Matrix, stream: list[Token]) -> list[fmpq_poly]:
    """Return what every token contributes to an output."""
    read = [fmpq_poly([]) for _ in stream]
    for i, dimension, weight in beta:
        if dimension in stream[i]:
            read[i] += stream[i][dimension] * to_fmpq(weight)
    return read


def check_shapes(blueprint: Blueprint) -> None:
    """Refuse matrices that do not fit: tensors of a module would be broadcast without a word."""
    n, d, w = blueprint.tokens, len(blueprint.variables), blueprint.width
    expected = {
        "embedding.features": (n, d),
        "embedding.constant": (n, w),
    }
    for k in range(len(blueprint.readouts)):
        expected |= {f"readouts.{k}.beta": (n, w), f"readouts.{k}.bias": (1, 1)}
    for b, block in enumerate(blueprint.blocks):
        for h, head in enumerate(block.attention.heads):
            path, rows = f"blocks.{b}.heads.{h}", head.query.rows
            expected |= {f"{path}.query": (rows, w), f"{path}.key": (rows, w)}
            expected[f"{path}.value"] = (w, w)
        path, units = f"blocks.{b}.feed_forward", block.feed_forward.w1.rows
        expected |= {f"{path}.w1": (units, w), f"{path}.b1": (units, 1)}
        expected |= {f"{path}.w2": (w, units), f"{path}.b2": (w, 1)}
    for path, matrix in blueprint.matrices():
        if matrix.shape != expected[path]:
            raise CertificationError(
                f"{path} is {matrix.rows}×{matrix.columns}, but {n} tokens of {w} dimensions need "
                f"{expected[path][0]}×{expected[path][1]}"
            )
    for b, block in enumerate(blueprint.blocks, start=1):
        layer = block.feed_forward
        if layer.activation not in ACTIVATIONS.values() or layer.successive is not None:
            raise CertificationError(
                f"block {b}: the feed-forward layer is not a single one of {' or '.join(ACTIVATIONS)}"
            )
        if any(isinstance(head, BiasedHead) for head in block.attention.heads):
            raise CertificationError(f"block {b}: a query has a bias, of which nothing is known")
    if not blueprint.readouts or (len(blueprint.readouts) > 1 and not blueprint.vector):
        raise CertificationError(
            f"{len(blueprint.readouts)} outputs do not make a "
            f"{'vector' if blueprint.vector else 'scalar'} model"
        )
    if not 0 <= blueprint.embedding.dimension < w:
        raise CertificationError(
            f"the feature stands in dimension {blueprint.embedding.dimension} of {w}"
        )


def _run_head(head: Head, rule: Rule, stream: list[Token], shared: Sharing, block: int) -> HeadRun:
    if rule is Rule.SOFTMAX:
        raise CertificationError(
            f"block {block} selects by softmax, which is no polynomial; there is no zero error to prove"
        )
    queries = [shared.applied(head.query, token) for token in stream]
    keys = [shared.applied(head.key, token) for token in stream]
    values = [shared.applied(head.value, token) for token in stream]
    scores = [shared.dot(query, key) for query, key in zip(queries, keys, strict=True)]
    one = shared.constant(Fraction(1))
    weights = scores if rule is Rule.ONE_HOT_MAX else [one for _ in scores]
    return HeadRun(queries, keys, values, scores, weights)


def _attend(heads: list[HeadRun], stream: list[Token], shared: Sharing) -> list[Token]:
    attended = [dict(token) for token in stream]
    for head in heads:
        for token, weight, value in zip(attended, head.weights, head.values, strict=True):
            shared.add(token, {d: shared.product(weight, entry) for d, entry in value.items()})
    return attended


def _run_feed_forward(
    layer: FeedForward,
    heads: list[HeadRun],
    attended: list[Token],
    sizes: Sizes,
    shared: Sharing,
    block: int,
) -> BlockRun:
    b1 = {i: shared.constant(v) for i, _, v in layer.b1}
    b2 = {i: shared.constant(v) for i, _, v in layer.b2}
    raw, hidden, output = [], [], []
    for i, token in enumerate(attended):
        before = shared.applied(layer.w1, token)
        shared.add(before, b1)
        after = before
        if layer.activation == RELU:
            after = {
                unit: entry
                for unit, entry in before.items()
                if _is_positive(sizes.range(i, entry), block, i, unit)
            }
        result = dict(token)
        shared.add(result, shared.applied(layer.w2, after))
        shared.add(result, b2)
        raw.append(before)
        hidden.append(after)
        output.append(result)
    return BlockRun(heads, attended, raw, hidden, output)


def _is_positive(range: tuple[Fraction, Fraction], block: int, token: int, unit: int) -> bool:
    low, high = range
    if low >= 0:
        return True
    if high <= 0:
        return False
    raise CertificationError(
        f"block {block}, token {token + 1}, unit {unit + 1}: what enters the ReLU ranges over "
        f"[{to_float(low):.3g}, {to_float(high):.3g}] and changes sign on the domain, so the model "
        "is not shown to be a polynomial there"
    )
