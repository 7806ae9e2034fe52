"""Layers on integers: the same as on rationals whatever the size, and no number met is overlooked."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from exactformer.core.layers import Attention, BiasedHead, Head, Rule, Selection
from exactformer.core.matrix import Matrix
from exactformer.core.run_exact import apply_layer, to_column, to_token
from exactformer.errors import CertificationError
from exactformer.sequences.proof.certify import certify_sequence
from exactformer.sequences.proof.integers import (
    FLOAT_INTEGERS,
    SmallHead,
    Streams,
    attended,
    integer_type,
    looked_up,
    read_off,
)
from tests.cases.forged_sequences import INDICATOR, added, made, units, widened, with_parts

HARD = Selection(Rule.HARD_MAX)
WIDTH = 3
SIZES = (1, 2**31, 2**60, 2**61)
"""Of entries; past the second, int64 does not hold scores, past the third no sums."""


def streams_of(rng: random.Random, tokens: int, size: int) -> Streams:
    """Return a few streams whose entries are multiples of a size, or next to one."""
    entries = [
        [
            [size * rng.randint(-3, 3) + rng.randint(0, 1) for _ in range(WIDTH)]
            for _ in range(tokens)
        ]
        for _ in range(4)
    ]
    kind = integer_type(4 * size)
    return Streams(np.array(entries, dtype=object).astype(kind), 0)


def row(rng: random.Random, rows: int = 1) -> Matrix:
    places = [(i, j) for i in range(rows) for j in range(WIDTH)]
    chosen = rng.sample(places, rng.randint(0, 2))
    return Matrix.of(rows, WIDTH, {p: rng.choice([-2, -1, 1, 2]) for p in chosen})


def heads(rng: random.Random, unit: Fraction) -> Iterator[Head]:
    for _ in range(rng.randint(1, 2)):
        query, key, value = row(rng), row(rng), row(rng, WIDTH)
        if rng.random() < 0.5:
            yield Head(query, key, value)
        else:
            bias = Fraction(rng.randint(-6, 6), rng.choice([1, 2, 3])) * unit
            yield BiasedHead(query, key, value, Matrix.of(1, 1, {(0, 0): bias}))


def in_rationals(layer: Any, streams: Streams, unit: Fraction) -> list[Any]:
    scaled = [
        [to_token(int(v) * unit for v in column) for column in stream]
        for stream in streams.entries.tolist()
    ]
    return [
        [[v / unit for v in to_column(token, WIDTH)] for token in apply_layer(layer, stream)]
        for stream in scaled
    ]


@pytest.mark.parametrize("size", SIZES)
def test_attention_on_integers_is_attention(size: int) -> None:
    rng, followed = random.Random(size), 0
    for _ in range(150):
        unit = rng.choice([Fraction(1), Fraction(1, 3), Fraction(4)])
        streams = streams_of(rng, rng.randint(1, 3), size)
        layer = Attention(tuple(heads(rng, unit)), HARD)
        exact = in_rationals(layer, streams, unit)
        try:
            found = attended(streams, layer, unit)
        except CertificationError:
            single = [in_rationals(Attention((h,), HARD), streams, unit) for h in layer.heads]
            assert any(v.denominator != 1 for one in single for s in one for c in s for v in c)
            continue
        assert found.entries.tolist() == exact
        followed += 1
    assert followed > 60


@pytest.mark.parametrize("size", SIZES)
def test_a_look_up_on_integers_is_its_units(size: int) -> None:
    rng = random.Random(size)
    for _ in range(100):
        streams = streams_of(rng, 2, size)
        read = {rng.randrange(WIDTH): rng.choice([-1, 1, 2]) for _ in range(2)}
        reads = [
            sum(w * c[r] for r, w in read.items()) for s in streams.entries.tolist() for c in s
        ]
        keys = list({*rng.sample(reads, 3), *(size * rng.randint(-3, 3) for _ in range(2))})
        writes = [{rng.randrange(WIDTH): size * rng.choice([-2, 1])} for _ in keys]
        rest = {rng.randrange(WIDTH): size * rng.choice([-3, 2])} if rng.random() < 0.7 else {}
        layer = units(WIDTH, [read] * len(keys), [-k for k in keys], writes, INDICATOR)
        layer = replace(layer, b2=Matrix.of(WIDTH, 1, {(r, 0): v for r, v in rest.items()}))
        columns = {
            k: {r: Fraction(v) for r, v in w.items()} for k, w in zip(keys, writes, strict=True)
        }
        one = Matrix.of(1, WIDTH, {(0, r): v for r, v in read.items()})
        found = looked_up(streams, one, columns, {r: Fraction(v) for r, v in rest.items()})
        assert found.entries.tolist() == in_rationals(layer, streams, Fraction(1))
        assert found.largest >= max(
            max(abs(t - k) for t in reads for k in keys),
            max(abs(int(v)) for v in found.entries.ravel()),
        )


def one_stream(*columns: list[int]) -> Streams:
    return Streams(np.array([columns], dtype=np.int64), 0)


def row_of(*weights: int) -> Matrix:
    return Matrix.of(1, WIDTH, {(0, r): v for r, v in enumerate(weights)})


def test_every_number_that_attention_meets_is_noted() -> None:
    """Scores, and sums over equal tokens before they are divided; also those that cancel."""
    write = Matrix.of(WIDTH, WIDTH, {(2, 0): 3})
    head = Head(row_of(5), row_of(0, 7), write)
    entries = one_stream([11, 13, 100], [11, 13, 100])
    assert attended(entries, Attention((head,), HARD), Fraction(1)).largest == 5 * 11 * 7 * 13
    slow = Head(row_of(), row_of(), write)
    assert attended(entries, Attention((slow,), HARD), Fraction(1)).largest == 100 + 2 * 3 * 11
    back = Head(row_of(), row_of(), Matrix.of(WIDTH, WIDTH, {(2, 0): -3}))
    both = attended(entries, Attention((slow, back), HARD), Fraction(1))
    assert both.largest == 100 + 2 * 2 * 3 * 11
    biased = BiasedHead(row_of(5), row_of(0, 7), write, Matrix.of(1, 1, {(0, 0): -9}))
    found = attended(entries, Attention((biased,), HARD), Fraction(1))
    assert found.largest == (5 * 11 + 9) * 7 * 13
    half = BiasedHead(row_of(5), row_of(0, 7), write, Matrix.of(1, 1, {(0, 0): Fraction(-9, 2)}))
    found = attended(entries, Attention((half,), HARD), Fraction(1))
    assert found.largest == (2 * 5 * 11 + 9) * 7 * 13
    unread = Head(row_of(), row_of(0, 700), write)
    assert attended(entries, Attention((unread,), HARD), Fraction(1)).largest == 700 * 13
    empty = one_stream([0, 0, 0], [0, 0, 0])
    assert attended(empty, Attention((head,), HARD), Fraction(1)).largest == 5 * 7


def test_every_number_that_a_look_up_meets_is_noted() -> None:
    entries = one_stream([11, 13, 100], [11, 13, -100])
    column = {2: Fraction(-50)}
    found = looked_up(entries, row_of(5), {55: column, -3: {}}, {2: Fraction(-7)})
    assert found.largest == 100 + 50 + 7
    assert found.entries[0, :, 2].tolist() == [43, -157]
    far = looked_up(entries, row_of(5), {-999: {}, 55: {}}, {})
    assert far.largest == 5 * 11 + 999
    codes, most = read_off(entries, row_of(5, -2))
    assert (codes.tolist(), most) == ([[29, 29]], 5 * 11 + 2 * 13)


def test_a_number_once_met_stays_noted() -> None:
    streams = Streams(np.ones((1, 2, WIDTH), dtype=np.int64), 10**6)
    head = Head(row_of(1), row_of(1), Matrix.of(WIDTH, WIDTH, {(0, 0): 1}))
    assert attended(streams, Attention((head,), HARD), Fraction(1)).largest == 10**6


def test_where_the_weights_are_beyond_sixty_four_bits_nothing_wraps() -> None:
    """Also weights of keys that no query asks for, and of columns of zeros."""
    entries = one_stream([0, 1, 0], [0, 2, 0])
    for weight in (2**62, 2**70):
        heads = (
            Head(row_of(), row_of(0, weight), Matrix.of(WIDTH, WIDTH, {(2, 2): weight})),
            Head(row_of(weight), row_of(weight), Matrix.of(WIDTH, WIDTH, {})),
            Head(row_of(weight), row_of(), Matrix.of(WIDTH, WIDTH, {})),
        )
        for head in heads:
            found = attended(entries, Attention((head,), HARD), Fraction(1))
            assert found.entries.tolist() == entries.entries.tolist()
            assert found.largest >= weight


def test_heads_of_size_two_are_refused() -> None:
    """Their scores are no product of two numbers: the largest key need not be chosen."""
    two = Matrix.of(2, WIDTH, {(0, 0): 1, (1, 1): 1})
    for query, key in ((two, two), (two, row_of(1)), (row_of(1), two)):
        head = Head(query, key, Matrix.of(WIDTH, WIDTH, {(2, 2): 1}))
        with pytest.raises(CertificationError, match="size one"):
            attended(one_stream([1, 2, 3], [3, 1, 2]), Attention((head,), HARD), Fraction(1))


def test_only_a_hard_maximum_is_followed() -> None:
    head = Head(row_of(1), row_of(1), Matrix.of(WIDTH, WIDTH, {(2, 2): 1}))
    for rule in (Rule.SOFTMAX, Rule.ONE_HOT_MAX):
        with pytest.raises(CertificationError, match="hard maximum"):
            attended(one_stream([1, 2, 3]), Attention((head,), Selection(rule)), Fraction(1))


def test_weights_that_are_no_integers_are_refused() -> None:
    """Half of an odd number is no integer count of cells."""
    half = Matrix.of(1, WIDTH, {(0, 0): Fraction(1, 2)})
    write = Matrix.of(WIDTH, WIDTH, {(2, 0): Fraction(1, 2)})
    entries, one = one_stream([1, 2, 3]), row_of(1)
    for head in (
        Head(half, one, Matrix.of(WIDTH, WIDTH, {})),
        Head(one, half, Matrix.of(WIDTH, WIDTH, {})),
        Head(one, one, write),
    ):
        with pytest.raises(CertificationError, match="should be an integer"):
            attended(entries, Attention((head,), HARD), Fraction(1))
    with pytest.raises(CertificationError, match="should be an integer"):
        read_off(entries, half)


def test_a_third_is_no_float() -> None:
    """Keys of 2^53 - 20 and 2^53 - 19 have equal scores with a query of 1/3 in float64."""
    honest, table = made("compact")
    wide = widened(honest)
    w, other = wide.width, wide.width - 1
    read = Matrix.of(1, w, {(0, 0): 1, (0, other): 1})
    low = added(wide.embedding.constant, {(other, 0): FLOAT_INTEGERS - 20})
    wide = replace(wide, embedding=replace(wide.embedding, constant=low))

    def largest(bias: Fraction | int, weight: int) -> BiasedHead:
        value = Matrix.of(w, w, {(0, 0): weight})
        return BiasedHead(Matrix.of(1, w, {}), read, value, Matrix.of(1, 1, {(0, 0): bias}))

    for bias, plain in ((Fraction(1, 3), False), (1, True)):
        there_and_back = Attention((largest(bias, 4), largest(1, -4)), HARD)
        forged = with_parts(wide, "contextual mapping", lambda p, h=there_and_back: [h, *p])  # type: ignore[misc]
        assert certify_sequence(forged, table).plain_floats is plain
    scores = [float(Fraction(1, 3)) * float(FLOAT_INTEGERS - k) for k in (20, 19)]
    assert scores[0] == scores[1]


@pytest.mark.parametrize("bits", [0, 1, 199, 200, 201, 1060, 1100])
def test_queries_are_binary_while_no_score_of_theirs_underflows(bits: int) -> None:
    """The smallest score, 1/scale of a cell times a cell of 2^(-400), is a normal number."""
    small, cell = Fraction(1, 2**bits), Fraction(1, 2**400)
    query, bias = Matrix.of(1, 1, {(0, 0): 3 * small}), Matrix.of(1, 1, {(0, 0): small * cell})
    one = Matrix.of(1, 1, {(0, 0): 1})
    head = SmallHead.of(BiasedHead(query, one, one, bias), cell)
    assert (head.query, head.bias, head.scale) == ({0: 3}, 1, 2**bits)
    assert head.is_binary == (bits <= 200)
    assert not head.is_binary or float(small * cell * cell) >= 2.0**-1022
