"""Single steps of the proof of scores, against formulas in exact arithmetic and all pairs of values."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from exactformer import rasp
from exactformer.core.formats import FORMATS
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError, SizeError
from exactformer.programs.blueprint import ProjectedHead
from exactformer.programs.proof import scores as module
from exactformer.programs.proof.arithmetic import SMALLEST, UNKNOWN, Arithmetic
from exactformer.programs.proof.scores import HeadScores
from exactformer.programs.proof.state import Read, Reading
from exactformer.programs.witness import Literal
from tests.programs.proof.steps import arithmetic_of, exact, hold, holds, made_state, nearly

EQUAL = rasp.Select(rasp.tokens, rasp.tokens, rasp.Comparison.EQ)
LATER = rasp.Select(rasp.indices, rasp.indices, rasp.Comparison.GEQ)
FEW = rasp.Select(rasp.tokens, rasp.indices, lambda k, q: q > 0)
MANY = rasp.Select(rasp.indices, rasp.tokens, lambda k, q: k < 2)
WIDTH = rasp.SelectorWidth(EQUAL & LATER & FEW & MANY)


@pytest.fixture(autouse=True)
def overflows() -> Any:
    with np.errstate(all="ignore"):
        yield


def head_of(
    name: str | None = None, causal: bool = False, expression: rasp.SOp = WIDTH
) -> HeadScores:
    """Return the scores of a head of which nothing is known."""
    head = HeadScores.__new__(HeadScores)
    head.state, head.name = made_state(expression, [], arithmetic_of(name), causal=causal), "a head"
    head.facts, head.arithmetic = head.state.facts, head.state.arithmetic
    return head


def roots_of(head: HeadScores) -> tuple[Any, Any]:
    kinds = [type(node).__name__ for node in head.facts.nodes]
    return (kinds.index("TokensNode"), None), (kinds.index("IndicesNode"), None)


def literals_of(head: HeadScores) -> list[Literal]:
    """Return the literals of the width, in the order: equal tokens, later, few, many."""
    literals = head.facts.terms(len(head.facts.selectors) - 1)
    assert len(literals) == 1
    tokens, indices = (root[0] for root in roots_of(head))
    order = [(tokens, tokens), (indices, indices), (tokens, indices), (indices, tokens)]
    by_roots = {head.facts.roots(literal): literal for literal in literals[0]}
    return [by_roots[pair] for pair in order]


def read(root: Any, centre: Any, radius: Any = 0.0, bits: int = 0) -> Read:
    """Return what is read of a root: values in rows."""
    centre = np.array(centre, dtype=float)
    radius = np.zeros(centre.shape) + radius
    return Read(root, centre, radius, np.abs(centre) + radius, np.full(centre.shape[1], bits))


def reading(*parts: Read, beginning: Read | None = None) -> Reading:
    width = parts[0].centre.shape[1]
    return Reading(parts, beginning, np.arange(1, width + 1))


# Tables


@pytest.mark.parametrize("seed", range(4))
def test_a_table_has_all_scores_of_two_roots(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """(q + p)(k + r) − qk is at most |q|r + p(|k| + r)."""
    rng, head = np.random.default_rng(seed), head_of()
    q, k = (read(None, rng.normal(size=(3, 2)), rng.random((3, 2))) for _ in range(2))
    qc, qr, kc, kr = map(exact, (q.centre, q.radius, k.centre, k.radius))
    formula = abs(qc) @ kr.T + qr @ (abs(kc) + kr).T
    for loss in (0.0, 0.25):
        monkeypatch.setattr(module, "times", lambda a, b, loss=loss: (a @ b, np.full((3, 3), loss)))
        found, error = head._table(q, k, None, None)
        nearly(found, exact(q.centre @ k.centre.T))
        holds(error, formula + Fraction(loss))


def test_a_table_of_what_is_not_read_is_zero() -> None:
    head = head_of()
    tokens, _ = roots_of(head)
    some = read(tokens, np.ones((3, 2)))
    for query, key, shape in ((None, some, (1, 3)), (some, None, (3, 1)), (None, None, (1, 1))):
        of_query, of_key = (None if part is None else tokens for part in (query, key))
        for part in head._table(query, key, of_query, of_key):
            assert part.shape == shape
            assert not part.any()


# Literals


def test_literals_are_taken_by_roots_and_what_they_say_of_one_side_alone() -> None:
    head = head_of()
    tokens, indices = roots_of(head)
    found = head._accepted(literals_of(head))
    assert found[tokens, tokens].tolist() == np.eye(3, dtype=bool).tolist()
    assert found[indices, indices].tolist() == np.triu(np.ones((3, 3), bool)).tolist()
    assert found[indices, None].tolist() == [[False], [True], [True]]
    assert found[None, indices].tolist() == [[True, True, False]]
    assert len(found) == 4
    assert head._root(tokens[0]) == tokens
    one = head_of(expression=rasp.Map(lambda _: 1, rasp.tokens))
    assert one._root(len(one.facts.nodes) - 1) is None


def test_literals_about_the_same_roots_hold_together_and_true_ones_say_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    head = head_of()
    tokens, _ = roots_of(head)
    equal = literals_of(head)[0]
    flags = [
        np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]], bool),
        np.array([[1, 0, 1], [0, 1, 0], [0, 0, 1]], bool),
        np.ones((3, 3), bool),
    ]
    given = iter(flags)
    monkeypatch.setattr(head.facts, "accepted", lambda _: next(given))
    found = head._accepted([equal] * 3)
    assert list(found) == [(tokens, tokens)]
    assert found[tokens, tokens].tolist() == (flags[0] & flags[1]).T.tolist()


# Levels


def levels(table: Any, error: Any, accepted: Any, never: Any = None) -> Any:
    flags = None if never is None else np.array(never, bool)
    return head_of()._levels(
        np.array(table, dtype=float), np.array(error, dtype=float), np.array(accepted, bool), flags
    )


def test_levels_are_in_the_middle_of_accepted_scores() -> None:
    table, error = [[4.0, 6.0, 1.0], [1.0, 0.0, 9.0]], [[0.5, 0.25, 0.125], [0.5, 0.25, 1.0]]
    middle, away, gap = levels(table, error, [[1, 1, 0], [0, 0, 1]])
    assert middle.tolist() == [(3.5 + 6.25) / 2, 9.0]
    assert away == (6.25 - 3.5) / 2
    assert gap == (3.5 + 6.25) / 2 - 1.125


def test_levels_are_found_without_rounding_inwards() -> None:
    tiny = 2.0**-60
    _, away, gap = levels([[1.0, 0.0]], [[tiny, tiny]], [[1, 0]])
    assert 2.0**-54 < away < 2.0**-50
    assert 1 - 2.0**-50 < gap < 1 - tiny
    _, away, gap = levels([[1.0, 1.0 + 2.0**-52, 0.0]], [[0.0] * 3], [[1, 1, 0]])
    assert Fraction(away) >= Fraction(1, 2**53)


def test_queries_that_accept_nothing_are_above_all_keys() -> None:
    """Their level is that of other queries, or above their own keys by the gap, if that is more."""
    table, accepted = [[8.0, 2.0], [3.0, 5.0], [1.0, 2.0]], [[1, 0], [0, 0], [0, 0]]
    middle, away, gap = levels(table, np.zeros((3, 2)), accepted)
    assert middle.tolist() == [8.0, 11.0, 8.0]
    assert (away, gap) == (0.0, 6.0)
    middle, _, gap = levels([[8.0, 7.0], [3.0, 5.0]], np.zeros((2, 2)), [[1, 0], [0, 0]])
    assert middle.tolist() == [8.0, 8.0]
    assert gap == 1.0
    table, accepted = [[8.0, 9.0], [1.0, 2.0], [3.0, 5.0]], [[1, 1], [0, 0], [0, 0]]
    middle, _, gap = levels(table, np.zeros((3, 2)), accepted)
    assert middle.tolist() == [8.5, 8.5, 8.5]
    assert gap == 3.5
    table, accepted = [[8.0, 2.0], [6.0, 1.0], [1.0, 0.0]], [[1, 0], [1, 0], [0, 0]]
    middle, _, gap = levels(table, np.zeros((3, 2)), accepted)
    assert middle.tolist() == [8.0, 6.0, 8.0]
    assert gap == 5
    # With the gap of nothing that is told apart, a key at the common level is not below it.
    with pytest.raises(CertificationError, match="above all others"):
        levels([[8.0, 8.0], [8.0, 8.0]], np.zeros((2, 2)), [[1, 1], [0, 0]])


def test_scores_that_do_not_tell_apart_are_refused() -> None:
    for table, error in (([[1.0, 1.0]], 0.0), ([[1.0, 0.5]], 0.5), ([[0.0, 1.0]], 0.0)):
        with pytest.raises(CertificationError, match="above all others"):
            levels(table, np.full((1, 2), error), [[1, 0]])
    with pytest.raises(CertificationError, match="above all others"):
        levels([[1.0, 1.0]], np.zeros((1, 2)), [[0, 0]])
    with pytest.raises(CertificationError, match="above all others"):
        levels([[np.nan, 1.0]], np.zeros((1, 2)), [[1, 0]])


def test_queries_that_never_select_have_the_largest_score_of_any_key() -> None:
    table, error = [[8.0, 2.0, 1.0], [3.0, 9.0, 5.0]], [[0.5, 0.25, 0.0], [0.25, 0.5, 0.0]]
    middle, away, gap = levels(table, error, [[1, 0, 0], [1, 0, 0]], [0, 1])
    assert middle.tolist() == [8.0, 9.5]
    assert (away, gap) == (0.5, 8 - 2.25)
    middle, away, gap = levels(table, error, [[1, 0, 0], [1, 0, 0]], [1, 1])
    assert middle.tolist() == [8.5, 9.5]
    assert (away, gap) == (0.0, np.inf)
    assert levels(table, error, [[1, 0, 0], [0, 1, 0]], [0, 0])[0].tolist() == [8.0, 9.0]


def test_queries_that_select_nothing_have_the_beginning_above_all_keys() -> None:
    head = head_of()
    centre, away = np.array([3.0, 1.0, 7.0, 6.0]), np.array([0.5, 0.25, 0.5, 1.0])
    found, room = head._refusing(centre, away, np.array([False, False, True, True]))
    assert found.tolist() == [3.0, 1.0, 3.0, 3.0]
    assert room == 6 - 1 - 3
    found, room = head._refusing(centre, away, np.ones(4, bool))
    assert not found.any()
    assert room == 0.75
    found, room = head._refusing(centre, away, np.zeros(4, bool))
    assert (found == centre).all()
    assert room == np.inf
    for refused in (
        [True, False, False, False],
        [False, True, False, False],
        [False, False, True, False],
    ):
        with pytest.raises(CertificationError, match="too high"):
            head._refusing(np.array([2.0, 1.0, 3.0, 2.5]), np.full(4, 0.5), np.array(refused))
    _, room = head._refusing(
        np.array([0.0, 1.0]), np.array([0.0, 2.0**-60]), np.array([False, True])
    )
    assert room < 1


# Rounding


@pytest.mark.parametrize("seed", range(3))
def test_sizes_are_those_of_all_parts_or_of_the_beginning(seed: int) -> None:
    rng, head = np.random.default_rng(seed), head_of()
    parts = [read((k, None), rng.normal(size=(3, 4)), rng.random((3, 4))) for k in range(2)]
    parts = [replace(part, size=2 * part.size) for part in parts]
    own = read(None, rng.normal(size=(1, 4)) * 3, rng.random((1, 4)))
    own = replace(own, size=3 * own.size)
    totals = sum(exact(part.size).max(0) for part in parts)
    reach = sum((abs(exact(part.centre)) + exact(part.radius)).max(0) for part in parts)
    found = head._sizes(reading(*parts))
    holds(found[0], totals)
    nearly(found[1], reach)
    found = head._sizes(reading(*parts, beginning=own))
    holds(found[0], np.maximum(totals, exact(own.size[0])))
    nearly(found[1], np.maximum(reach, (abs(exact(own.centre)) + exact(own.radius))[0]))


@pytest.mark.parametrize("seed", range(4))
def test_products_of_all_parts_are_added_up(seed: int) -> None:
    rng, head = np.random.default_rng(seed), head_of()
    drawn = [read(None, rng.normal(size=(n, 2)), rng.random((n, 2))) for n in (3, 2, 1, 3, 2, 1)]
    queries, keys = (
        reading(*drawn[:2], beginning=drawn[2]),
        reading(*drawn[3:5], beginning=drawn[5]),
    )

    def largest(a: Read, b: Read) -> Fraction:
        sizes = [abs(exact(part.centre)) + exact(part.radius) for part in (a, b)]
        return (sizes[0] @ sizes[1].T).max()

    holds(head._products(queries, keys), sum(largest(a, b) for a in drawn[:3] for b in drawn[3:]))
    alone = replace(queries, beginning=None), replace(keys, beginning=None)
    holds(head._products(*alone), sum(largest(a, b) for a in drawn[:2] for b in drawn[3:5]))


def gamma(name: str, k: Any) -> Any:
    ku = np.asarray(k, dtype=object) * Fraction(FORMATS[name].unit)
    return ku / (1 - ku)


@pytest.mark.parametrize(("name", "scale"), [("bfloat16", 1.0), ("float16", 2.0**-6)])
@pytest.mark.parametrize("exactly", [(False, False), (True, False), (False, True)])
def test_scores_are_rounded_by_queries_keys_and_their_products(
    name: str, scale: float, exactly: tuple[bool, bool]
) -> None:
    """γ of the entries of a row and two, for both; γ of the rows in use and two, for the product."""
    head, tiny = head_of(name), Fraction(FORMATS[name].tiny)
    rng = np.random.default_rng(1)
    sides, lost, reach = [], [], []
    for fine in exactly:
        centre = rng.integers(1, 9, (3, 3)) * scale
        centre[:, 2] *= len(sides)  # queries do not use the last row
        radius = 0.0 if fine else rng.random((3, 3)) * (centre != 0) * scale
        part = read(None, centre, radius, bits=-20 if fine else UNKNOWN)
        if fine:
            part = replace(part, lowest=np.full(3, int(np.log2(scale))))
        sides.append(reading(part))
        total, largest = (
            exact(part.size).max(0),
            (exact(np.abs(part.centre)) + exact(part.radius)).max(0),
        )
        terms = np.array([1, 2, 3])
        lost.append(exact(np.zeros(3)) if fine else gamma(name, terms + 2) * total + terms * tiny)
        reach.append(largest)
    rows = lost[0] @ (reach[1] + lost[1]) + reach[0] @ lost[1]
    dot = gamma(name, 4) * (exact(head._products(*sides)).item() + rows) + 4 * tiny
    found = head._score_rounding(*sides)
    holds(found, rows + dot)
    assert Fraction(found) > (rows + dot) * (1 + Fraction(1, 2**19))  # γ is raised, and the sum


def test_scores_are_exact_where_all_parts_are() -> None:
    head = head_of("bfloat16")

    def rounding(query: list[float], key: list[float], bits: int = 0) -> float:
        return head._score_rounding(
            *(reading(read(None, [numbers], bits=bits)) for numbers in (query, key))
        )

    assert rounding([3.0, 5.0], [10.0, 7.0]) == 0
    assert rounding([15.0, 5.0], [15.0, 6.0]) == 0
    assert rounding([16.0, 0.0], [16.0, 0.0]) > 0  # 2^8, and the bound is raised
    assert rounding([15.0, 6.0], [15.0, 6.0]) > 0
    assert rounding([300.0, 0.0], [0.0, 1.0]) > 0
    assert rounding([0.0, 1.0], [300.0, 0.0]) > 0
    assert rounding([10.0, 0.0], [10.0, 0.0], bits=-1) > 0
    assert (
        head_of(None)._score_rounding(*(reading(read(None, [[1 / 3]], 0.5)) for _ in range(2))) == 0
    )
    # Rows that one side does not use take no part, however fine they are.
    query, key = reading(read(None, [[3.0, 0.0]])), reading(read(None, [[3.0, 1.0]]))
    fine = replace(key, parts=(replace(key.parts[0], lowest=np.array([0, -5])),))
    assert head._score_rounding(query, fine) == 0
    assert head._score_rounding(fine, query) == 0


def test_scores_that_overflow_are_refused() -> None:
    head = head_of("bfloat16")

    def rounding(query: float, key: float) -> None:
        head._score_rounding(*(reading(read(None, [[x]], bits=100)) for x in (query, key)))

    rounding(2.0**60, 2.0**64)
    with pytest.raises(CertificationError, match="difference of scores can overflow"):
        rounding(2.0**61, 2.0**64)
    for query, key in ((2.0**127, 2.0**-20), (2.0**-20, 2.0**127)):
        with pytest.raises(CertificationError, match="a query or key can overflow"):
            rounding(query, key)


# All together


def test_the_beginning_token_prefers_itself_by_the_difference() -> None:
    head = head_of()
    query = read(None, [[1.0, -2.0]], [[0.25, 0.0]])
    own = read(None, [[8.0, 1.0]], 0.5)
    tokens, indices = (
        read(root, [[1.0, 0.0], [2.0, 1.0], [-9.0, 2.0]], 0.25) for root in roots_of(head)
    )
    keys = reading(tokens, indices, beginning=own)
    itself, error = head._table(query, own, None, None)
    worst = Fraction(0)
    for part in (tokens, indices):
        scores, away = head._table(query, part, None, part.root)
        worst += (exact(scores) + exact(away)).max()
    truth = exact(itself - 0)[0, 0] - exact(error)[0, 0] - worst
    found = Fraction(head._prefers_itself(query, keys))
    assert truth - Fraction(1, 2**40) < found <= truth
    assert head_of(causal=True)._prefers_itself(query, keys) == np.inf


def scored(head: HeadScores, literals: list[Literal], queries: Reading, keys: Reading) -> Any:
    head.queries, head.keys = queries, keys
    return head.scores(literals)


def simple(head: HeadScores, scale: float = 4.0, radius: float = 0.0) -> tuple[Read, Read]:
    """Return queries and keys with a direction per token: a score of 4 with equals."""
    tokens, _ = roots_of(head)
    return read(tokens, np.eye(3) * scale, radius), read(tokens, np.eye(3))


def test_scores_of_equals_lie_above_others() -> None:
    """Queries 4e_i ± 1/8, keys e_j: 4 ± 1/8, and ± 1/8; a beginning that has 3, 3 and 5 of it."""
    head = head_of()
    query, key = simple(head, radius=0.125)
    first = read(None, [[0.75, 0.75, 1.25]], 0.0)
    found = scored(
        head, literals_of(head)[:1], reading(query, beginning=first), reading(key, beginning=first)
    )
    up = 1 + 2.0**-20
    assert found.spread == pytest.approx(0.125 * up)
    assert found.gap == pytest.approx(4 - 0.125 * up)
    error = 0.125 * (0.75 + 0.75 + 1.25)
    assert found.lowest == pytest.approx(3 - 4 - error, rel=1e-5)
    assert found.highest == pytest.approx(5 - 4 + error, rel=1e-5)
    assert found.lowest <= 3 - 4 - error
    assert found.highest >= 5 - 4 + error
    itself = 0.75**2 * 2 + 1.25**2
    assert found.own == pytest.approx(itself - 1.25)
    alone = scored(head, literals_of(head)[:1], reading(query), reading(key))
    assert (alone.spread, alone.gap) == (found.spread, found.gap)
    assert alone.own == 0
    assert (alone.lowest, alone.highest) == (-4.0, -4.0)


def test_rounding_is_part_of_all_that_is_said_of_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    head = head_of()
    query, key = simple(head)
    first = read(None, [[0.5, 0.5, 0.5]])
    given = literals_of(head)[:1], reading(query, beginning=first), reading(key, beginning=first)
    plain = scored(head, *given)
    monkeypatch.setattr(HeadScores, "_score_rounding", lambda *_: 0.25)
    found = scored(head, *given)
    assert (plain.spread, found.spread) == (0.0, 0.25)
    assert found.gap == plain.gap == 4
    assert (plain.lowest, plain.highest) == (-2.0, -2.0)
    assert (found.lowest, found.highest) == (-2.25, -1.75)
    assert (plain.own, found.own) == (0.25, -0.25)


def test_a_spread_that_products_would_lose_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    head = head_of()
    query, key = simple(head)
    monkeypatch.setattr(HeadScores, "_score_rounding", lambda *_: 2.0**-900)
    found = scored(head, literals_of(head)[:1], reading(query), reading(key))
    assert found.spread == SMALLEST


def every_input(head: HeadScores, literals: list[Literal], queries: Reading, keys: Reading) -> None:
    """Assert what is said of scores for all values of token and position, errors at their worst."""
    found = scored(head, literals, queries, keys)
    tokens, indices = roots_of(head)
    accepted = head._accepted(literals)

    def at(side: Reading, values: tuple[int, int]) -> tuple[Any, Any]:
        rows = {tokens: values[0], indices: values[1], None: 0}
        return tuple(
            sum(exact(getattr(p, name)[rows[p.root]]) for p in side.parts)
            for name in ("centre", "radius")
        )  # type: ignore[return-value]

    def interval(q: tuple[Any, Any], k: tuple[Any, Any]) -> tuple[Fraction, Fraction]:
        middle = q[0] @ k[0]
        error = abs(q[0]) @ k[1] + q[1] @ (abs(k[0]) + k[1])
        return middle - error, middle + error

    spread, gap = Fraction(found.spread), found.gap
    for a, b in product(range(3), repeat=2):
        query = at(queries, (a, b))
        low, high = [], []  # of a level that would do
        for c, d in product(range(3), repeat=2):
            where = {tokens: (a, c), indices: (b, d)}
            taken = all(
                flags[0 if q is None else where[q][0], 0 if k is None else where[k][1]]
                for (q, k), flags in accepted.items()
            )
            least, most = interval(query, at(keys, (c, d)))
            if taken:
                low.append(most - spread)
                high.append(least + spread)
            elif np.isfinite(gap):
                low.append(most + Fraction(gap) - spread)
        if keys.beginning is not None:
            own = exact(keys.beginning.centre[0]), exact(keys.beginning.radius[0])
            least, most = interval(query, own)
            low.append(most - Fraction(found.highest))
            high.append(least - Fraction(found.lowest))
        if high and low:
            assert max(low) <= min(high)


@pytest.mark.parametrize("wanted", [(0,), (1,), (0, 1), (0, 3), (1, 2), (0, 1, 2), (0, 1, 3)])
@pytest.mark.parametrize("constant", [False, True])
def test_scores_lie_as_said_for_every_input(wanted: tuple[int, ...], constant: bool) -> None:
    """Rows 0 to 2 compare tokens, 3 to 5 positions, and the last is about one side alone."""
    rng, head = np.random.default_rng(0), head_of()
    tokens, indices = roots_of(head)
    literals = [literals_of(head)[k] for k in wanted]
    qt, kt, qi, ki = (np.zeros((3, 7)) for _ in range(4))
    if 0 in wanted:
        qt[:, :3], kt[:, :3] = 8 * np.eye(3), np.eye(3)
    if 1 in wanted:  # keys before the query lose
        qi[:, 3:6], ki[:, 3:6] = 8 * np.eye(3), -np.triu(np.ones((3, 3)), 1)
    if 3 in wanted:
        ki[:, 6] = [0.0, 0.0, -1.0]
    parts_q = [
        read(tokens, qt, rng.random((3, 7)) / 64),
        read(indices, qi, rng.random((3, 7)) / 64),
    ]
    parts_k = [
        read(tokens, kt, rng.random((3, 7)) / 64),
        read(indices, ki, rng.random((3, 7)) / 64),
    ]
    if constant or 3 in wanted:
        always = np.zeros((1, 7))
        always[0, 6] = 8.0
        parts_q.append(read(None, always, rng.random((1, 7)) / 64))
    first = np.zeros((1, 7))
    first[0, 6] = -0.5
    if 2 in wanted:
        parts_q[1].centre[0, 6] += 64.0
        first[0, 6] = 0.5
    own = read(None, first, rng.random((1, 7)) / 64)
    queries, keys = reading(*parts_q, beginning=own), reading(*parts_k, beginning=own)
    every_input(head, literals, queries, keys)


def test_what_keys_have_alike_raises_all_scores() -> None:
    """Queries 4a, 2b, 4c: keys that are one more everywhere, up to 1/4, score up to one more."""
    head = head_of()
    query, key = simple(head)
    query.centre[1, 1] = 2.0
    always = read(None, [[1.0, 1.0, 1.0]], 0.25)
    found = scored(head, literals_of(head)[:1], reading(query), reading(key, always))
    assert found.gap == 2
    assert found.spread == pytest.approx(1.0, rel=1e-5)
    assert found.spread >= 1
    assert (found.lowest, found.highest) == (-8.0, -4.0)


def test_sums_of_scores_that_are_rounded_are_charged() -> None:
    """4 + 2^−58 is 4 for floats: what is lost is part of all that is said of the beginning token."""
    head = head_of()
    query, key = simple(head)
    _, indices = roots_of(head)
    own = read(None, [[2.0**-62] * 3])
    alone = scored(
        head, literals_of(head)[:1], reading(query, beginning=own), reading(key, beginning=own)
    )
    assert Fraction(alone.lowest) < -4 + Fraction(1, 2**60) < Fraction(alone.highest)
    placed, two = read(indices, [[2.0**-60] * 3] * 3), read(None, [[2.0] * 3])
    keys = reading(key, placed, read(None, [[1.0] * 3]), beginning=two)
    carried = scored(head, literals_of(head)[:1], reading(query, beginning=two), keys)
    assert Fraction(carried.lowest) < -Fraction(1, 2**58) < Fraction(carried.highest)
    little = read(None, [[2.0**-60] * 3])
    for first, truth in ((1.0, -Fraction(1, 2**58)), (2.0**-62, -4 - Fraction(3, 2**60))):
        own = read(None, [[first] * 3])
        given = reading(query, beginning=own), reading(key, little, beginning=own)
        found = scored(head, literals_of(head)[:1], *given)
        assert Fraction(found.lowest) < truth < Fraction(found.highest)
        assert found.highest - found.lowest < 2.0**-49
        if first == 1:
            raised = 2.0**-58 * (1 + 2.0**-20) ** 2
            assert (found.lowest, found.highest) == (-raised, raised)


def test_what_keys_have_alike_does_not_count_for_queries_that_select_nothing() -> None:
    """The first position selects nothing: its keys score 4 ± 2, and the beginning token 16."""
    head = head_of()
    _, indices = roots_of(head)
    query, own = read(indices, [[8.0], [0.0], [0.0]]), read(None, [[2.0]])
    keys = reading(read(None, [[0.5]], 0.25), beginning=own)
    found = scored(head, literals_of(head)[2:3], reading(query, beginning=own), keys)
    assert found.gap == 12
    assert found.spread == pytest.approx(2.0, rel=1e-5)
    assert (found.lowest, found.highest) == (0.0, 0.0)


def test_queries_that_select_nothing_need_not_tell_keys_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    head = head_of()
    _, indices = roots_of(head)
    accepted = {
        (indices, indices): np.eye(3, dtype=bool),
        (indices, None): np.array([[False], [True], [True]]),
    }
    monkeypatch.setattr(head, "_accepted", lambda _: accepted)
    query = read(indices, np.hstack([8 * np.diag([0.0, 1.0, 1.0]), [[64.0], [0.0], [0.0]]]))
    key, own = (
        read(indices, np.hstack([np.eye(3), np.zeros((3, 1))])),
        read(None, [[0.0, 0.0, 0.0, 0.5]]),
    )
    found = scored(head, [], reading(query, beginning=own), reading(key, beginning=own))
    assert found.gap == 8
    every_input(head, [], reading(query, beginning=own), reading(key, beginning=own))


def test_what_queries_have_alike_is_joined_with_a_roots_table() -> None:
    """Queries 4e_i + (0, 0, 1): another token scores up to one, and c with itself five."""
    head = head_of()
    query, key = simple(head)
    always = read(None, [[0.0, 0.0, 1.0]])
    found = scored(head, literals_of(head)[:1], reading(query, always), reading(key))
    assert found.gap == 3
    assert found.spread == 0
    assert (found.lowest, found.highest) == (-5.0, -4.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_SCORES", 8)
        with pytest.raises(SizeError, match="compares 3 queries"):
            scored(head, literals_of(head)[:1], reading(query, always), reading(key))
        patch.setattr(module, "MOST_SCORES", 9)
        scored(head, literals_of(head)[:1], reading(query, always), reading(key))


@pytest.mark.parametrize("blur", [0.0, 1.0])
@pytest.mark.parametrize("rise", [0.0, 0.5])
@pytest.mark.parametrize("alike", [True, False])
def test_roots_that_meet_one_key_are_taken_together(blur: float, rise: float, alike: bool) -> None:
    """Tokens are compared by 4e_i; positions add 0, 1/2, 1 to the last, and what is alike adds one."""
    head = head_of()
    _, indices = roots_of(head)
    query, key = simple(head, radius=0.0625 * blur)
    order = read(indices, np.array([[0.0], [1.0], [2.0]]) * [0.0, 0.0, rise], 0.125 * blur)
    always = read(None, [[0.0, 0.0, 1.0]], 0.03125 * blur)
    queries = reading(query, order, always) if alike else reading(query, order)
    found = scored(head, literals_of(head)[:1], queries, reading(key))
    if alike:
        error, most = (0.0625 + 0.125 + 0.03125) * blur, 2 * rise + 1
        gap, spread, low = 4 - most - error, error, -4 - most
    else:  # one after the other: the position's scores are rise ± rise
        gap, spread, low = 4 - 0.0625 * blur, rise + (0.0625 + 0.125) * blur, -4 - rise
    assert found.gap == pytest.approx(gap, rel=1e-5)
    assert found.spread == pytest.approx(spread, rel=1e-5)
    assert found.spread >= spread
    assert (found.lowest, found.highest) == (pytest.approx(low), pytest.approx(-4.0))
    every_input(head, literals_of(head)[:1], queries, reading(key))


def test_what_queries_have_alike_counts_where_it_only_errs() -> None:
    head = head_of()
    query, key = simple(head)
    _, indices = roots_of(head)
    little = read(None, np.zeros((1, 3)), [[0.0, 0.0, 0.25]])
    found = scored(head, literals_of(head)[:1], reading(query, little), reading(key))
    assert found.spread == pytest.approx(0.25, rel=1e-5)
    assert found.gap == pytest.approx(3.75, rel=1e-5)
    order = read(indices, np.zeros((3, 3)), [[0.0, 0.0, 0.125]] * 3)
    found = scored(head, literals_of(head)[:1], reading(query, order), reading(key))
    assert found.spread == pytest.approx(0.125, rel=1e-5)


def test_tables_that_are_joined_are_rounded_and_may_be_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    head = head_of()
    _, indices = roots_of(head)
    query, key = simple(head)
    little = read(None, [[2.0**-60] * 3])
    assert (
        scored(head, literals_of(head)[:1], reading(query, little), reading(key)).spread >= 2.0**-60
    )
    order = read(indices, [[0.0, 0.0, float(k)] for k in range(3)])
    many = literals_of(head)[:1], reading(query, order, little), reading(key)
    monkeypatch.setattr(module, "MOST_SCORES", 27)
    scored(head, *many)
    monkeypatch.setattr(module, "MOST_SCORES", 26)
    with pytest.raises(SizeError, match="compares 9 queries"):
        scored(head, *many)


def test_what_rounding_loses_of_joined_tables_is_added_up_outwards() -> None:
    """1 + a is 1, and 1 + b is 1: both are lost, and in float64 a + b is a."""
    head = head_of()
    tokens, indices = roots_of(head)
    a, b = 2.0**-54 * (1 + 2.0**-52), 2.0**-120
    queries = reading(read(None, [[1.0]]), read(tokens, [[a]] * 3), read(indices, [[b]] * 3))
    keys = reading(read(tokens, [[1.0]] * 3))
    ((_, table, error, _),) = head._tables(tokens, {}, queries, keys)
    assert (table == 1).all()
    holds(error, Fraction(a) + Fraction(b))


def test_what_all_keys_have_alike_is_told_by_what_queries_read() -> None:
    """Keys have −1 of c: tokens lose 0, 0, 4 by it, positions 0, 1/2, 1, and all of them one."""
    head = head_of()
    _, indices = roots_of(head)
    query, key = simple(head)
    order = read(indices, [[0.0, 0.0, k / 2] for k in range(3)])
    queries = reading(query, order, read(None, [[0.0, 0.0, 1.0]]))
    found = scored(
        head, literals_of(head)[:1], queries, reading(key, read(None, [[0.0, 0.0, -1.0]]))
    )
    assert (found.lowest, found.highest) == (-6 + 1, -4 + 4 + 1 + 1)
    assert (found.spread, found.gap) == (0.0, 2.0)


def test_keys_that_no_query_may_select_score_lower() -> None:
    """The third position is never selected; what is read must say so."""
    head = head_of()
    query, key = simple(head)
    with pytest.raises(CertificationError, match="above all others"):
        scored(head, literals_of(head)[3:], reading(query), reading(key))


def test_roots_that_do_not_meet_a_key_are_left_out_of_its_table() -> None:
    """The beginning has one of c: it scores 0, 0, 4 with tokens, and one with what is alike."""
    head = head_of()
    tokens, indices = roots_of(head)
    eye, row = np.hstack([np.eye(3), np.zeros((3, 1))]), [[0.0, 0.0, 1.0, 0.0]]
    order = read(indices, [[0.0, 0.0, 0.0, float(k)] for k in range(3)])
    own, always = read(None, row), read(None, row)
    queries = reading(read(tokens, 4 * eye), order, always, beginning=own)
    found = scored(head, literals_of(head)[:1], queries, reading(read(tokens, eye), beginning=own))
    assert (found.lowest, found.highest) == (-3.0, 0.0)


def test_queries_that_are_refused_must_be_told_from_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    head = head_of()
    query, key = simple(head)
    literals = [literals_of(head)[k] for k in (0, 2)]
    with pytest.raises(CertificationError, match="too high"):
        scored(head, literals, reading(query), reading(key))
    # No query selects anything: that is no reason to say that nothing is refused.
    monkeypatch.setattr(head, "_accepted", lambda _: {(None, None): np.zeros((1, 1), bool)})
    always = read(None, [[1.0] * 3])
    for first in (None, always):
        with pytest.raises(CertificationError, match="above all others"):
            scored(head, [], reading(query, always, beginning=first), reading(key, beginning=first))


def test_a_head_reads_queries_and_keys() -> None:
    state = made_state(WIDTH, [(None, None, 2)], Arithmetic())
    hold(state, [0])
    query, key = Matrix.of(1, 2, {(0, 0): 1}), Matrix.of(1, 2, {(0, 1): 1})
    none = Matrix.of(1, 2, {})
    head = HeadScores(state, ProjectedHead(query, key, none, Matrix.of(2, 1, {})), "a head")
    assert head.queries.parts[0].centre == state.held[0].centre[0, 0]
    assert head.keys.parts[0].centre == state.held[0].centre[0, 1]
