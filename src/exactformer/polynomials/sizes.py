"""Sizes of a transformer, known before anything is made: bytes of dense tables, degrees of streams.

Every entry of a token's stream is a polynomial in the token's feature. A score multiplies two of them
and may multiply a third, so a block can triple degrees and a small file can reach any of them. Degrees
are followed as integers, by dimension: a sum has the largest degree of its terms.
"""

from __future__ import annotations

from collections.abc import Iterator

from exactformer.algebra import Target
from exactformer.core.layers import Rule
from exactformer.core.matrix import Matrix
from exactformer.core.options import FLOAT
from exactformer.errors import SizeError
from exactformer.polynomials.blueprint import Blueprint

AT_ONCE = 4
"""Tables of one shape that a proof holds together: sizes and errors of two factors."""
DEAR = 10**8
"""Multiply-adds per point from which the executor has to be chosen by the user."""
_SURPLUS = 4
"""How far degrees within a model may exceed that of its target; constructions reach it, no more."""
_LEAST_DEGREE = 256
"""A degree that costs nothing to follow, whatever the target."""


def dense_entries(tokens: int, degree: int, dimension: int, outputs: int = 1) -> int:
    """Return the number of entries of all matrices, zeros included."""
    width = tokens + degree + 2
    blocks = degree * (2 * (tokens + 2) * width + width * width)
    return blocks + tokens * (dimension + width) + outputs * tokens * width


def multiply_adds(blueprint: Blueprint) -> int:
    """Return what carrying out every matrix costs at one point, zeros included."""
    n, w = blueprint.tokens, blueprint.width
    total = n * len(blueprint.variables) + len(blueprint.readouts) * n * w
    for block in blueprint.blocks:
        for head in block.attention.heads:
            rows = head.query.rows
            total += n * w * (2 * rows + w) + n * n * (rows + w)
        total += n * w * (block.feed_forward.w1.rows + block.feed_forward.w2.columns)
    return total


def chosen_executor(blueprint: Blueprint, executor: str | None) -> str:
    """Return the executor that was asked for, else ``"literal"`` unless that is dear.

    Raises:
        SizeError: where nothing was asked for, and every matrix would be dear.
    """
    rules = {block.attention.selection.rule for block in blueprint.blocks}
    if executor is not None or Rule.SOFTMAX in rules:  # softmax has no other way
        return executor or "literal"
    cost = multiply_adds(blueprint)
    if cost > DEAR:
        n = blueprint.tokens
        raise SizeError(
            f"carrying out every matrix of {n:,} tokens costs {cost:.1e} multiply-adds per point, and "
            f"the limit for doing it unasked is {DEAR:.0e}. Choose executor='fused', the proven closed "
            "form, or executor='literal', every matrix"
        )
    return "literal"


def check_size(target: Target, tokens: int, itemsize: int, memory_limit: int) -> None:
    """Refuse a model whose dense matrices would not fit, with the figures and the way out."""
    q, d = target.degree, target.dimension
    entries = dense_entries(tokens, q, d, len(target))
    if entries * itemsize > memory_limit:
        raise SizeError(
            f"degree {q} in {d} variables needs n = {tokens:,} tokens here; the blocks' matrices "
            f"then have {entries:,} entries, {entries * itemsize / 2**30:.1f} GiB, and the limit is "
            f"{memory_limit / 2**30:.1f} GiB. Lower the degree or the number of variables, try "
            "directions='tailored' if few monomials are present, or raise memory_limit="
        )


def check_stored_size(
    blueprint: Blueprint, target: Target, memory_limit: int, itemsize: int = 0
) -> None:
    """Refuse a blueprint, as its own shapes state it, whose proof or module would not fit.

    Args:
        blueprint: read from a file, nothing of it proven yet.
        target: what it is to be proven equal to.
        memory_limit: in bytes.
        itemsize: bytes of a weight in the module that will hold every matrix; 0 where none does.
    """
    tables = list(_tables(blueprint))
    weights = sum(matrix.rows * matrix.columns for _, matrix in blueprint.matrices())
    tables.append(("all matrices together", weights * itemsize))
    name, size = max(tables, key=lambda table: table[1])
    if size > memory_limit:
        raise SizeError(
            f"{name}: {size / 2**30:,.1f} GiB as dense tables, and the limit is "
            f"{memory_limit / 2**30:.1f} GiB. If this is your own model, raise memory_limit="
        )
    degree, most = _largest_degree(blueprint), max(_LEAST_DEGREE, _SURPLUS * target.degree)
    if degree > most:
        raise SizeError(
            f"the blocks multiply up to a degree of 2^{degree.bit_length() - 1} and more, and the "
            f"target has degree {target.degree}; the limit for it is {most:,}"
        )


def _tables(blueprint: Blueprint) -> Iterator[tuple[str, int]]:
    """Yield what is made of each part, by its name, with its bytes."""
    n, w, d = blueprint.tokens, blueprint.width, len(blueprint.variables)
    yield f"the stream of {n:,} tokens of {w:,} dimensions", AT_ONCE * n * w * FLOAT
    yield f"the scores of {n:,} tokens", n * n * FLOAT
    yield f"directions in {d:,} variables", d * d * FLOAT
    for b, block in enumerate(blueprint.blocks):
        for h, head in enumerate(block.attention.heads):
            for name in ("query", "key"):
                rows = getattr(head, name).rows
                table = f"blocks.{b}.heads.{h}.{name} of {rows:,} rows for {n:,} tokens"
                yield table, AT_ONCE * n * rows * FLOAT
        units = max(block.feed_forward.w1.rows, block.feed_forward.w2.columns)
        table = f"blocks.{b}.feed_forward.w1 of {units:,} units for {n:,} tokens"
        yield table, n * w * units * FLOAT


_Degrees = dict[int, int]
"""By dimension; those that are zero for every token are left out."""


def _largest_degree(blueprint: Blueprint) -> int:
    """Return a bound of the degree of every entry of the stream, of every query and of every score."""
    stream: _Degrees = {dimension: 0 for _, dimension in blueprint.embedding.constant.entries}
    stream[blueprint.embedding.dimension] = 1
    largest = 1
    for block in blueprint.blocks:
        attended = dict(stream)
        for head in block.attention.heads:
            queries, keys = _applied(head.query, stream), _applied(head.key, stream)
            score = max((queries[r] + keys[r] for r in queries.keys() & keys.keys()), default=0)
            weight = 0 if block.attention.selection.rule is Rule.HARD_MAX else score
            largest = max(largest, score)
            for dimension, degree in _applied(head.value, stream).items():
                attended[dimension] = max(attended.get(dimension, 0), weight + degree)
        layer = block.feed_forward
        units = _applied(layer.w1, attended)
        for unit, _ in layer.b1.entries:
            units.setdefault(unit, 0)
        stream = attended
        for dimension, degree in _applied(layer.w2, units).items():
            stream[dimension] = max(stream.get(dimension, 0), degree)
        for dimension, _ in layer.b2.entries:
            stream.setdefault(dimension, 0)
        largest = max(largest, *stream.values())
    return largest


def _applied(matrix: Matrix, degrees: _Degrees) -> _Degrees:
    found: _Degrees = {}
    for row, column in matrix.entries:
        if column in degrees:
            found[row] = max(found.get(row, 0), degrees[column])
    return found
