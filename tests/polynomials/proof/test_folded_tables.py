"""Folded tables lose nothing: no token's dimensions meet, and bounds are those of the whole tables."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from math import isclose

import numpy as np
import pytest

from exactformer.algebra import Polynomial
from exactformer.algebra.ridge import ridge_form
from exactformer.core.formats import FORMATS
from exactformer.core.layers import IDENTITY
from exactformer.core.matrix import Matrix
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions import CONSTRUCTIONS
from exactformer.polynomials.proof.folded_tables import ALL, Columns, FoldedMatrix, Folding
from exactformer.polynomials.proof.literal_rounding import rounding_bound
from exactformer.polynomials.proof.magnitudes import Sizes
from exactformer.polynomials.proof.symbolic import SymbolicRun, run_symbolic
from tests.cases.blueprints import attention_block, hand_made

WEIGHTS = [Fraction(v) for v in ("1", "-1", "3", "1/3", "-5/7", "2")]


@pytest.mark.parametrize("seed", range(20))
def test_every_token_keeps_a_column_for_each_of_its_dimensions(seed: int) -> None:
    rng = random.Random(seed)
    owner = [rng.choice([ALL, ALL, 0, 1, 2]) for _ in range(rng.randint(1, 12))]
    columns = Columns.of(owner)
    for token in range(3):
        seen = [p for p, own in zip(columns.place, owner, strict=True) if own in (ALL, token)]
        assert len(set(seen)) == len(seen)
    most = max(owner.count(token) for token in range(3))
    assert set(columns.place) == set(range(columns.count))
    assert columns.count == owner.count(ALL) + most
    assert columns.private.sum() == most
    for place, token in zip(columns.place, owner, strict=True):
        assert columns.private[place] == (token != ALL)
    assert columns.owner == tuple(owner)


def test_columns_stand_in_the_order_of_their_first_dimension() -> None:
    assert Columns.of([ALL, 0, 1, 2, ALL, ALL]).place == (0, 1, 1, 1, 2, 3)
    assert Columns.of([1, ALL, 1, 0]).place == (0, 1, 2, 0)
    assert Columns.plain(3) == Columns.of([ALL] * 3) == Columns((0, 1, 2), (ALL,) * 3, 3)


@pytest.mark.parametrize("seed", range(20))
def test_a_folded_matrix_has_every_weight_where_its_token_meets_it(seed: int) -> None:
    """Rows of a token read its own dimensions, and those that nobody uses."""
    rng = random.Random(seed)
    inner = [rng.choice([ALL, 0, 1, 2]) for _ in range(7)]
    outer = [rng.choice([ALL, 0, 1, 2]) for _ in range(6)]
    entries = {
        (i, j): rng.choice(WEIGHTS)
        for i, row in enumerate(outer)
        for j, column in enumerate(inner)
        if (row == ALL or column in (ALL, row)) and rng.random() < 0.6
    }
    rows, columns = Columns.of(outer), Columns.of(inner)
    folded = FoldedMatrix.of(Matrix.of(6, 7, entries), columns, rows, 3)
    assert folded.rows == rows.count
    assert len(set(folded.weights)) == len(folded.weights)
    for token in range(3):
        found: dict[tuple[int, int], Fraction] = {}
        for line in folded.lines:
            which = np.broadcast_to(line.which, (3, *line.which.shape[1:]))[token]
            for a, row in enumerate(line.rows.tolist()):
                for b, column in enumerate(line.columns[a].tolist()):
                    found[row, column] = folded.weights[which[a, b]]
        wanted = {
            (rows.place[i], columns.place[j]): value
            for (i, j), value in entries.items()
            if outer[i] in (ALL, token) and inner[j] in (ALL, token)
        }
        assert {place: value for place, value in found.items() if value} == wanted


def test_rows_of_one_length_stand_together_and_empty_ones_where_they_are_wanted() -> None:
    matrix = Matrix.of(5, 3, {(0, 0): 1, (1, 0): 2, (1, 2): 1, (3, 1): 1})
    rows, columns = Columns.plain(5), Columns.plain(3)
    folded = FoldedMatrix.of(matrix, columns, rows, 3, [0, 4])
    assert [line.rows.tolist() for line in folded.lines] == [[0, 3], [1], [4]]
    assert [line.columns.tolist() for line in folded.lines] == [[[0], [1]], [[0, 2]], [[]]]
    assert all(len(line.which) == 1 for line in folded.lines)
    assert folded.weights == (0, 1, 2)
    plain = FoldedMatrix.plain(matrix, [0, 4])
    assert [line.rows.tolist() for line in plain.lines] == [[0, 3], [1], [4]]


def sparse(
    rng: random.Random, rows: int, columns: int, share: float
) -> dict[tuple[int, int], Fraction]:
    places = ((i, j) for i in range(rows) for j in range(columns))
    return {place: rng.choice(WEIGHTS) for place in places if rng.random() < share}


def anything(seed: int) -> Blueprint:
    """Sparse matrices, so that some dimensions are one token's alone and others come to be shared."""
    rng = random.Random(seed)
    n, w, units = rng.randint(1, 4), rng.randint(2, 9), rng.choice([0, 0, 1, 2])
    blocks = []
    for _ in range(rng.randint(0, 2)):
        heads = []
        for _ in range(rng.randint(1, 2)):
            rows = rng.randint(1, 5)
            tables = (sparse(rng, r, w, 0.2) for r in (rows, rows, w))
            heads.append((rows, *tables))
        layer = {
            "w1": sparse(rng, units, w, 0.3),
            "b1": sparse(rng, units, 1, 0.5),
            "w2": sparse(rng, w, units, 0.3),
            "b2": sparse(rng, w, 1, 0.1) if rng.random() < 0.5 else {},
        }
        blocks.append(attention_block(w, heads, units=units, activation=IDENTITY, **layer))  # type: ignore[arg-type]
    features, constant = sparse(rng, n, 2, 0.7), sparse(rng, n, w, 0.3)
    beta = sparse(rng, n, w, 0.3)
    return hand_made(features, n, 2, w, constant, blocks, beta, rng.choice(WEIGHTS))


def bound(run: SymbolicRun, name: str) -> float | None:
    margins = [[np.full(run.blueprint.tokens, np.inf) for _ in b.heads] for b in run.blocks]
    return rounding_bound(run, margins, FORMATS[name]).value


@pytest.mark.spread(15)
@pytest.mark.parametrize("seed", range(60))
def test_folded_bounds_are_those_of_the_whole_tables(seed: int) -> None:
    blueprint = anything(seed)
    run = run_symbolic(blueprint, Fraction(1))
    whole = replace(run, sizes=Sizes(run.sizes.reach))
    vars(whole)["folding"] = Folding.plain(blueprint)
    for name in FORMATS:
        folded, plain = bound(run, name), bound(whole, name)
        assert (folded is None) == (plain is None)
        if folded is not None and plain is not None:
            assert isclose(folded, plain, rel_tol=1e-13)


@pytest.mark.parametrize("seed", range(60))
def test_a_dimension_of_one_token_is_never_used_by_another(seed: int) -> None:
    run = run_symbolic(anything(seed), Fraction(1))
    streams = [run.tokens, *(s for b in run.blocks for s in (b.attended, b.output))]
    tables = [(run.folding.columns, stream) for stream in streams]
    for block, heads in zip(run.blocks, run.folding.heads, strict=True):
        for made, head in zip(block.heads, heads, strict=True):
            tables += [(head.columns, made.queries), (head.columns, made.keys)]
            tables.append((run.folding.columns, made.values))
    for columns, tokens in tables:
        for i, token in enumerate(tokens):
            assert all(columns.owner[dimension] in (ALL, i) for dimension in token)


def test_who_uses_a_dimension_is_read_from_the_weights() -> None:
    """Dimension 1 is token 0's, 2 token 1's; each of the others comes to be shared in its own way."""
    constant = {(0, 1): 1, (1, 2): 1, (0, 3): 1, (0, 4): 1, (1, 4): 1, (0, 5): 1, (0, 8): 1}
    value = {(6, 1): 1, (7, 6): 1, (3, 9): 1, (9, 4): 1, (10, 11): 1}
    head = (4, {(0, 1): 1, (0, 2): 1, (1, 1): 3}, {(1, 7): 1, (2, 2): 1}, value)
    layer = {"w1": {(0, 5): 1}, "w2": {(12, 0): 1}, "b2": {(13, 0): 1}}
    block = attention_block(14, [head], units=1, **layer)  # type: ignore[arg-type]
    blueprint = hand_made(
        {(0, 0): 1, (1, 0): 1}, 2, 1, 14, constant, [block], {(1, 8): 1, (0, 1): 2}
    )
    folding = Folding.of(blueprint)
    alone = {1: 0, 2: 1, 6: 0, 7: 0}
    assert dict(enumerate(folding.columns.owner)) == {d: alone.get(d, ALL) for d in range(14)}
    ((folded,),) = folding.heads
    assert folded.columns.owner == (ALL, 0, 1, ALL)
    assert folding.columns.count == 13
    assert folding.layers[0].w1.shape == (1, 13)
    assert folding.layers[0].w2.shape == (13, 1)
    assert folding.layers[0].b2.shape == (13, 1)
    place = folding.columns.place
    assert folding.layers[0].w1.entries == {(0, place[5]): 1}
    assert folding.layers[0].w2.entries == {(place[12], 0): 1}
    assert folding.layers[0].b2.entries == {(place[13], 0): 1}
    assert folding.readouts[0].beta.entries == {(1, place[8]): 1, (0, place[1]): 2}


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_positions_fold_into_one_column(name: str) -> None:
    form = ridge_form(Polynomial.parse("(x + y + z)^4 + x y z"), "lattice")
    blueprint = CONSTRUCTIONS[name](form, Fraction(2))
    folding = Folding.of(blueprint)
    assert folding.columns.count == blueprint.width - blueprint.tokens + 1
    assert folding.columns.private.sum() == 1
    for heads in folding.heads:
        for head in heads:
            assert head.columns.private.sum() == 1
            assert head.columns.count <= 3
