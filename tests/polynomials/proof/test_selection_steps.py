"""Every step of the bound of margins, in rationals and from both sides."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flint import fmpq_poly

from exactformer.algebra.rational import to_fmpq
from exactformer.core.domain import Ball, Box
from exactformer.core.matrix import Matrix
from exactformer.core.upper import Upper, below
from exactformer.errors import SelectionError
from exactformer.polynomials.proof import selection
from exactformer.polynomials.proof.magnitudes import Sizes
from exactformer.polynomials.proof.selection import (
    _constant_spread,
    _left,
    _margins,
    _PairBounds,
    prove_selection,
)
from exactformer.polynomials.proof.symbolic import HeadRun

CLOSE = Fraction(1, 10**12)


def p(*coefficients: Any) -> fmpq_poly:
    return fmpq_poly([to_fmpq(Fraction(c)) for c in coefficients])


@dataclass
class Angles:
    """Pair bounds that are given."""

    table: list[list[Fraction]]

    def cosines(self, rows: slice) -> Upper:
        return Upper([[float(c) for c in row] for row in self.table[rows]])


POSITIONS = ("a", "b", "c")  # rows that one token uses, as it does x in its query alone
SHARED = ("s", "t", "u")
ROW = {name: r for r, name in enumerate((*POSITIONS, "x", *SHARED))}
REACH = [Fraction(2), Fraction(1), Fraction(3)]
PAIRS = [[Fraction(c, 8) for c in row] for row in ([8, 5, 4], [6, 8, 7], [4, 5, 8])]
QUERIES = [
    {"a": p(50), "x": p(9), "s": p(0, 1), "t": p(0, 2), "u": p(0, 1, 1)},
    {"b": p(60), "s": p(0, 2), "t": p(0, 3), "u": p(1, 1)},
    {"c": p(90), "s": p(0, 0, 1), "t": p(0, 1), "u": p(Fraction(1, 2))},
]
KEYS = [
    {"a": p(2), "s": p(7, 1), "t": p(-1, 1), "u": p(10, 0, 1)},
    {"b": p(1), "s": p(Fraction(22, 3), 2), "t": p(1, -1), "u": p(10, 1)},
    {"c": p(1), "s": p(8, 0, 1), "t": p(0, 1), "u": p(10, 1, 1)},
]


def run_of(queries: list[dict[str, fmpq_poly]], keys: list[dict[str, fmpq_poly]]) -> HeadRun:
    named = [[{ROW[k]: v for k, v in token.items()} for token in side] for side in (queries, keys)]
    return HeadRun(*named, [], [], [])


def size(entry: fmpq_poly, reach: Fraction) -> Fraction:
    """Σ|a| r^k, the bound of these entries: but for constants their coefficients have one sign."""
    return sum(
        (abs(Fraction(int(c.p), int(c.q))) * reach**k for k, c in enumerate(entry.coeffs())),
        Fraction(0),
    )


def slope(entry: fmpq_poly, reach: Fraction) -> Fraction | None:
    return None if entry[0] != 0 else size(entry, reach)


def stated() -> list[Fraction]:
    """Return the margins of the lemma: constants of keys apart where that is better."""
    n, zero = len(QUERIES), p()
    result = []
    whole = {r: [size(k.get(r, zero), x) for k, x in zip(KEYS, REACH, strict=True)] for r in SHARED}
    moving = {r: [k.get(r, zero) - k.get(r, zero)[0] for k in KEYS] for r in SHARED}
    sizes = {r: [size(e, x) for e, x in zip(moving[r], REACH, strict=True)] for r in SHARED}
    constants = {r: [Fraction(int(k[r][0].p), int(k[r][0].q)) for k in KEYS] for r in SHARED}
    spread = {r: max(c) - min(c) for r, c in constants.items()}
    split = {r: max(sizes[r]) + spread[r] / 2 <= max(whole[r]) for r in SHARED}
    assert split == {"s": True, "t": False, "u": True}
    for i in range(n):
        own, others = Fraction(0), [Fraction(0)] * n
        for r in SHARED:
            q = size(QUERIES[i][r], REACH[i])
            own += q * (sizes[r][i] + spread[r] if split[r] else whole[r][i])
            for j in range(n):
                bound = q * (sizes[r][j] if split[r] else whole[r][j])
                line = slope(QUERIES[i][r], REACH[i])
                if split[r] and line is not None:
                    steep = slope(moving[r][j], REACH[j])
                    assert steep is not None
                    bound = min(bound, line * steep * PAIRS[i][j])
                others[j] += bound
        certain = size(QUERIES[i][POSITIONS[i]] * KEYS[i][POSITIONS[i]], REACH[i])
        result.append(certain - own - max(others[j] for j in range(n) if j != i))
    return result


def assert_equal(found: Any, wanted: list[Fraction]) -> None:
    for value, exact in zip(found.tolist(), wanted, strict=True):
        assert exact - CLOSE * (1 + abs(exact)) <= Fraction(value) <= exact


def test_margins_are_those_of_the_lemma() -> None:
    (found,) = _margins([run_of(QUERIES, KEYS)], Sizes(REACH), Angles(PAIRS))  # type: ignore[arg-type]
    assert_equal(found, stated())


def test_tokens_with_equal_keys_are_met_at_their_nearest() -> None:
    """Tokens 1, 2 and 4 have the same keys, tokens 3 and 5 keys of their own; angles differ."""
    names = ("a", "b", "c", "d", "e")
    row = {**{name: 10 + k for k, name in enumerate(names)}, "s": 0, "t": 1}
    reach = [Fraction(r) for r in (2, 2, 3, 2, 2)]
    keys = [p(1, 1), p(1, 1), p(1, 1), p(1, 1), p(1, 0, 1)]
    queries = [p(0, k + 1) for k in range(5)]
    angles = [[Fraction((3 * i + 5 * j) % 7 + 1, 8) for j in range(5)] for i in range(5)]
    head = HeadRun(
        [{row[x]: p(900), 0: q, 1: p(1)} for x, q in zip(names, queries, strict=True)],
        [{row[x]: p(1), 0: k, 1: p(0, 1)} for x, k in zip(names, keys, strict=True)],
        *([], [], []),
    )
    wanted = []
    for i in range(5):
        lost = []
        for j in range(5):
            power = 2 if j == 4 else 1
            # The query of the second row is no polynomial through zero, so that angles do not count.
            met = (i + 1) * reach[i] * reach[j] ** power * angles[i][j] + reach[j]
            lost.append(met)
        own = (i + 1) * reach[i] * reach[i] ** (2 if i == 4 else 1) + reach[i]
        wanted.append(900 - own - max(lost[j] for j in range(5) if j != i))
    for chunk in (512, 2, 1):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(selection, "_CHUNK", chunk)
            (found,) = _margins([head], Sizes(reach), Angles(angles))  # type: ignore[arg-type]
            twice = _margins([head, head], Sizes(reach), Angles(angles))  # type: ignore[arg-type]
        assert_equal(found, wanted)
        assert [margin.tolist() for margin in twice] == [found.tolist()] * 2


def test_rows_may_be_taken_in_any_number_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "_CHUNK", 2)
    (found,) = _margins([run_of(QUERIES, KEYS)], Sizes(REACH), Angles(PAIRS))  # type: ignore[arg-type]
    assert_equal(found, stated())


@pytest.mark.parametrize("constant", [3, Fraction(7, 2), 4, Fraction(9, 2)])
def test_constants_are_taken_apart_where_half_their_spread_is_less(constant: Fraction) -> None:
    """Keys c + t twice for |t| ≤ 1, and t for |t| ≤ 3: 3 + c/2 against max(c + 1, 3)."""
    queries = [{name: p(100), "s": p(3)} for name in POSITIONS]
    constants = (constant, constant, 0)
    keys = [{name: p(1), "s": p(c, 1)} for name, c in zip(POSITIONS, constants, strict=True)]
    sizes = Sizes([Fraction(1), Fraction(1), Fraction(3)])
    (found,) = _margins([run_of(queries, keys)], sizes, Angles([[Fraction(1)] * 3] * 3))  # type: ignore[arg-type]
    if constant >= 4:
        loss = [1 + constant + 3, 1 + constant + 3, 3 + constant + 1]
    else:
        loss = [2 * (constant + 1)] * 2 + [constant + 4]
    assert_equal(found, [100 - 3 * Fraction(x) for x in loss])


def test_slopes_of_sums_of_powers_are_not_their_sizes() -> None:
    """t + t² − 4t³/3 = ½ + T_2/2 − T_3/3 is at most 4/3 for |t| ≤ 1, and at most 2|t|."""
    queries = [{name: p(100), "s": p(0, 1, 1, Fraction(-4, 3))} for name in ("a", "b")]
    keys = [{name: p(1), "s": p(0, 1)} for name in ("a", "b")]
    half = [[Fraction(1, 2)] * 2] * 2
    (found,) = _margins([run_of(queries, keys)], Sizes([Fraction(1)] * 2), Angles(half))  # type: ignore[arg-type]
    assert_equal(found, [100 - Fraction(4, 3) - 1] * 2)


def test_without_shared_rows_a_margin_is_the_score() -> None:
    queries, keys = [{"a": p(3)}, {"b": p(5)}], [{"a": p(1)}, {"b": p(1)}]
    (found,) = _margins([run_of(queries, keys)], Sizes(REACH[:2]), Angles(PAIRS))  # type: ignore[arg-type]
    assert found.tolist() == [below(Fraction(3)), below(Fraction(5))]


def test_a_single_token_has_no_rival() -> None:
    head = run_of([{"s": p(0, 1)}], [{"s": p(5, 3)}])
    margins = _margins([head, head], Sizes(REACH[:1]), Angles(PAIRS))  # type: ignore[arg-type]
    assert [margin.tolist() for margin in margins] == [[np.inf]] * 2


def test_what_is_left_is_rounded_down() -> None:
    loss = 2.0**-60
    assert Fraction(_left(np.array([1.0]), Upper([loss]))[0]) <= 1 - Fraction(loss)
    assert Fraction(_left(np.array([-1.0]), Upper([loss]))[0]) <= -1 - Fraction(loss)
    assert Fraction(_left(np.array([1.0]), Upper([0.25]))[0]) >= Fraction(3, 4) - CLOSE


def test_the_spread_of_constants_is_rounded_up() -> None:
    third = Fraction(1, 3)
    assert Fraction(float(third)) < third
    found = _constant_spread([{0: p(third, 1)}, {1: p(1)}, {0: p(0, 5)}], 0)
    assert third <= Fraction(found) <= third * (1 + CLOSE)
    assert 3 <= _constant_spread([{0: p(-2)}, {0: p(1)}], 0) <= 3 * (1 + 2.0**-51)


@pytest.mark.parametrize(
    ("margins", "token"),
    [
        ([[1.0, 2.0, 3.0]], None),
        ([[2.0, 3.0], [1.0, 5.0]], None),
        ([[1.0, 0.0, 3.0]], "token 2"),
        ([[1.0, 2.0, -1e-300]], "token 3"),
        ([[np.nan, 2.0, 3.0]], "token 1"),
        ([[2.0, np.nan, -3.0]], "token 2"),
        ([[2.0, 1.0], [-1.0, 2.0]], "block 1, head 2: token 1"),
    ],
)
def test_the_smallest_margin_of_every_head_must_be_positive(
    monkeypatch: pytest.MonkeyPatch, margins: list[list[float]], token: str | None
) -> None:
    given = [np.array(margin) for margin in margins]
    monkeypatch.setattr(selection, "_margins", lambda *_: given)
    monkeypatch.setattr(selection, "_PairBounds", lambda run: None)
    block = SimpleNamespace(heads=margins)
    run: Any = SimpleNamespace(blocks=[block], sizes=None, blueprint=SimpleNamespace(domain="D"))
    if token is None:
        assert prove_selection(run).smallest == min(map(min, margins))
    else:
        with pytest.raises(SelectionError, match=token):
            prove_selection(run)


def pairs(rows: list[list[Any]], domain: Ball | Box) -> _PairBounds:
    entries = {
        (i, j): Fraction(v) for i, row in enumerate(rows) for j, v in enumerate(row) if Fraction(v)
    }
    matrix = Matrix(len(rows), len(rows[0]), entries)
    run: Any = SimpleNamespace(
        domain=domain, blueprint=SimpleNamespace(embedding=SimpleNamespace(features=matrix))
    )
    return _PairBounds(run)


HUGE = 10**400
ROWS = [[3, 4], [5, 12], [-4, 3], [0, 0], [-HUGE, 0], [3 * HUGE, -4 * HUGE], [Fraction(3, HUGE), 0]]
UNIT = [
    (3, 5, 4, 5),
    (5, 13, 12, 13),
    (-4, 5, 3, 5),
    (0, 1, 0, 1),
    (-1, 1, 0, 1),
    (3, 5, -4, 5),
    (1, 1, 0, 1),
]


def test_pairs_of_directions_in_a_ball_are_bounded_by_their_angle() -> None:
    units = [(Fraction(a, b), Fraction(c, d)) for a, b, c, d in UNIT]
    found = pairs(ROWS, Ball(Fraction(1))).cosines(slice(0, len(ROWS))).values
    slack = (3 * 2 + 9) * Fraction(2) ** -53
    for (i, u), (j, v) in product(enumerate(units), repeat=2):
        cosine = abs(u[0] * v[0] + u[1] * v[1])
        exact = min((1 + cosine) / 2, Fraction(1))
        assert exact <= Fraction(found[i, j])
        assert Fraction(found[i, j]) <= exact + 2 * slack
        if cosine == 0:
            assert (1 + slack) / 2 <= Fraction(found[i, j]) <= (1 + slack) / 2 + Fraction(2) ** -51


def test_the_room_for_cosines_grows_with_the_coordinates() -> None:
    """Orthogonal directions of ten coordinates: what is beyond ½ is the room itself."""
    rows = [[int(i == j) for j in range(10)] for i in range(2)]
    bounds = pairs(rows, Ball(Fraction(1)))
    found = Fraction(bounds.cosines(slice(0, 1)).values[0, 1])
    slack = (3 * 10 + 9) * Fraction(2) ** -53
    assert bounds.slack == slack
    assert (1 + slack) / 2 <= found <= (1 + slack) / 2 + Fraction(3) * Fraction(2) ** -53


def test_mixed_sizes_of_one_direction_do_not_overflow() -> None:
    found = pairs([[-HUGE, 1], [1, 0]], Ball(Fraction(1))).cosines(slice(0, 2)).values
    assert found[0, 1] == 1
    assert np.isfinite(found).all()


def test_angles_count_in_balls_only() -> None:
    box = Box((Fraction(0),) * 2, (Fraction(1),) * 2)
    assert (pairs(ROWS, box).cosines(slice(0, 3)).values == 1).all()
