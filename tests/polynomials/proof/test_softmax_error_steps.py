"""Single steps of the bounds of softmax models against their formulas in rationals.

Every term, factor and constant of a formula matters here by more than the room that is left.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from mpmath import mp
from numpy.typing import NDArray

from exactformer.core.formats import FORMATS
from exactformer.core.upper import Upper
from exactformer.polynomials.proof import softmax_error as softmax_bounds
from exactformer.polynomials.proof.literal_rounding import Entries, OverflowsError, RoundingBound
from exactformer.polynomials.proof.softmax_error import (
    ErrorBound,
    _Combination,
    _SharedAttention,
    _Stream,
    roundings_of_a_weight,
)
from exactformer.polynomials.proof.softmax_symbolic import (
    ALONE,
    Ranges,
    SoftmaxRun,
    logit_ranges,
    lowered,
    raised,
    run_softmax,
)
from tests.cases.blueprints import Rule, attention_block, hand_made

pytestmark = pytest.mark.filterwarnings(
    "ignore::RuntimeWarning"
)  # of overflows, which are infinite

Exact = NDArray[Any]
ROOM = Fraction(1, 10**9)
PI_SQUARED = Fraction(9.869)
T, C, BIT, NOT, ONE, NULL, SINK, A, B, D = range(10)
W = 10
FINE = [name for name in FORMATS if name != "bfloat16"]
"""Formats in which logits of 32 leave a digit."""
rng = np.random.default_rng(0)


def entry(*numbers: int) -> Fraction:
    return Fraction(*numbers)


def made(masks: tuple[int, int, int, int] = (20, 24, 28, 32)) -> SoftmaxRun:
    """Two tokens share with a fourth and the third is the sink; two products of two heads and one."""

    def head(
        scale: Fraction, weight: Fraction, values: dict[tuple[int, int], Fraction]
    ) -> tuple[int, Any, Any, Any]:
        query = {(0, T): scale, (1, C): scale * weight, (2, BIT): -masks[0], (3, NOT): -masks[1]}
        query |= {(4, ONE): -masks[2], (4, NULL): masks[3], (4, SINK): masks[3]}
        key = {(0, T): 1, (1, C): 1, (2, NOT): 1, (3, BIT): 1, (4, SINK): 1}
        return 5, query, key, values

    def values(size: Fraction, other: Fraction) -> dict[tuple[int, int], Fraction]:
        given = {(A, ONE): size, (A, NULL): -size / 3, (B, ONE): other, (B, C): other / 7}
        return given | {(B, NULL): other / 5}

    heads = [
        head(entry(1, 2), entry(5, 3), values(entry(-9, 8), entry(1, 3))),
        head(entry(3, 4), entry(5, 3), values(entry(1, 3), entry(2, 7))),
        head(entry(1, 3), entry(1, 9), values(entry(1, 11), entry(3, 7)) | {(D, ONE): entry(2, 5)}),
    ]
    constant = {(0, C): entry(1, 3), (1, C): entry(3, 5), (0, NOT): 1, (1, BIT): 1, (0, ONE): 1}
    constant |= {(1, ONE): 1, (2, SINK): 1, (3, NULL): 1}
    features = {(0, 0): entry(1, 2), (1, 1): entry(1, 3)}
    beta = {(0, A): entry(2, 3), (1, A): entry(1, 7), (0, B): entry(5, 9), (3, B): entry(3, 8)}
    block = attention_block(W, heads, Rule.SOFTMAX)
    blueprint = hand_made(features, 4, 2, W, constant, [block], beta, entry(1, 3))
    return run_softmax(blueprint, blueprint.domain)


RUN = made()
BLOCK = RUN.shared[0]


def prepared(name: str, run: SoftmaxRun = RUN) -> tuple[_SharedAttention, _Stream]:
    """Errors of every cause in every entry that is not an exact constant."""
    steps = _SharedAttention(run, FORMATS[name])
    shape = run.blueprint.tokens, run.blueprint.width
    errors = Upper(rng.uniform(1e-3, 2e-3, (3, *shape)) * np.array([1, 1, 0, 0, 0, 0, 0, 1, 1, 1]))
    return steps, _Stream(steps.entries(run.tokens, errors.sum(0)), errors)


def exact(bounds: Upper | NDArray[np.float64]) -> Exact:
    values = bounds.values if isinstance(bounds, Upper) else bounds
    return np.vectorize(Fraction, otypes=[object])(values)


def gamma(roundings: Any, name: str) -> Any:
    ku = roundings * Fraction(FORMATS[name].unit)
    return ku / (1 - ku)


def assert_above(bounds: Upper, formula: Exact, room: Fraction = ROOM) -> None:
    for bound, value in zip(exact(bounds).flat, np.ravel(formula), strict=True):
        assert value <= bound <= value * (1 + room)


def test_the_whole_bound_is_the_sum_of_its_parts() -> None:
    for _ in range(20):
        parts = rng.uniform(1, 2, 3)
        bound = ErrorBound(*parts.tolist())
        assert bound.total is not None
        assert_above(Upper(bound.total), exact(parts).sum())
    for missing in range(3):
        parts = [None if k == missing else 1.0 for k in range(3)]
        assert ErrorBound(*parts).total is None


def test_the_worst_of_several_outputs_is_taken_cause_by_cause() -> None:
    outputs = [ErrorBound(1.0, 5.0, 2.0, ""), ErrorBound(3.0, 4.0, 1.0, "why")]
    assert ErrorBound.worst(outputs) == ErrorBound(3.0, 5.0, 2.0, "why")
    assert ErrorBound.worst(outputs[1:]) == outputs[1]


def test_a_weight_meets_as_many_roundings_as_are_assumed_of_kernels() -> None:
    """4u of at most twice the logit; the units of two exponentials, each 2u; four more roundings."""
    units = {"float64": 2, "float32": 20, "bfloat16": 2, "float16": 2}
    for name, ulps in units.items():
        for logit in (0.0, 1.5):
            assert roundings_of_a_weight(FORMATS[name], logit) == 8 * logit + 2 * (ulps + 2) + 4


def test_heads_extrapolate_where_their_odd_powers_vanish() -> None:
    """σ(ℓ) = 1/2 + ℓ/4 − ℓ³/48 + …: the slope is Σ εv/4, and Σ|v ε³|/48 is what else is known."""
    e = [entry(1, 2), entry(1, 3), entry(1, 5)]

    # v ε = 1/Π(ε² − ε'²) makes Σ v ε^(2j+1) vanish for j = 1, …, once divided by ε².
    def nodal(nodes: list[Fraction]) -> list[Fraction]:
        weights = []
        for a in nodes:
            found = 1 / a**3
            for b in nodes:
                found /= (a**2 - b**2) if a != b else 1
            weights.append(found)
        return weights

    other = entry(2, 7)
    for nodes in (e[:1], e[:2], e):
        values = nodal(nodes)
        found = _Combination.of(nodes, [(v + other, other) for v in values])
        slope = sum(a * v for a, v in zip(nodes, values, strict=True)) / 4
        assert found == _Combination(slope, tuple(nodes), None)
    values = nodal(e)
    skipped = _Combination.of([*e, entry(1, 7)], [*((v, Fraction(0)) for v in values), (1, 1)])
    assert skipped.nodes == tuple(e)
    for k in range(3):  # one value changed: the slope remains, the rest does not cancel
        changed = [v * entry(9, 8) if j == k else v for j, v in enumerate(values)]
        found = _Combination.of(e, [(v + other, other) for v in changed])
        cubes = sum(abs(v * a**3) for a, v in zip(e, changed, strict=True)) / 48
        slope = sum(a * v for a, v in zip(e, changed, strict=True)) / 4
        assert found == _Combination(slope, (), cubes)


def test_nodes_that_differ_in_sign_only_do_not_extrapolate() -> None:
    """v ε + v' ε' = 0 for ε' = −ε, v' = v: all powers vanish, the slope too; of two pairs also."""
    half, third = entry(1, 2), entry(1, 3)
    found = _Combination.of([half, -half], [(third, Fraction(0))] * 2)
    assert found == _Combination(Fraction(0), (), entry(1, 3) * entry(1, 8) * 2 / 48)
    nodes = [half, half]
    found = _Combination.of(nodes, [(third, Fraction(0)), (-third, Fraction(0))])
    assert found.nodes == ()
    # The cubes of three nodes, two alike, cancel; the fifth powers do not, whatever the slope.
    nodes = [half, -half, third]
    values = [entry(1), entry(1) + entry(8, 27), entry(1)]
    assert sum(v * a**3 for a, v in zip(nodes, values, strict=True)) == 0
    found = _Combination.of(nodes, [(v, Fraction(0)) for v in values])
    assert found.nodes == ()
    assert _Combination.of([], []) == _Combination(Fraction(0), (), Fraction(0))


def test_truncation_is_the_formula() -> None:
    z = Upper(rng.uniform(0.1, 5, 50))
    slope, cubes, nodes = entry(-7, 3), entry(3, 7), (entry(1, 2), entry(5, 3), entry(-2, 7))
    wanted = abs(slope) * exact(z)
    for node in nodes:
        wanted = wanted * (node * exact(z)) ** 2 / (PI_SQUARED + (node * exact(z)) ** 2)
    assert_above(_Combination(slope, nodes, None).truncation(z), wanted)
    assert_above(_Combination(slope, (), cubes).truncation(z), cubes * exact(z) ** 3)


@pytest.mark.parametrize("name", FORMATS)
def test_errors_of_the_stream_pass_through_a_product(name: str) -> None:
    """z = Σ w x(y − y') errs by Σ w (|x| (δy + δy') + (|y| + δy + |y'| + δy') δx)."""
    steps, stream = prepared(name)
    size, errors = exact(stream.entries.size), exact(stream.errors)
    computed = exact(stream.entries.computed)
    for factors in BLOCK.products:
        head = BLOCK.heads[factors.heads[0]]
        wanted = np.full((3, 4), Fraction(0))
        for i, p in enumerate(head.partner):
            for (a, c), weight in factors.form if p != ALONE else ():
                moved = size[i, a] * (errors[:, i, c] + errors[:, p, c])
                seen = errors[:, i, a] * (computed[i, c] + computed[p, c])
                wanted[:, i] += weight * (moved + seen)
        assert_above(steps.carried(factors, head, stream), wanted)
        assert (wanted[:, :2] > 0).all()


@pytest.mark.parametrize("name", FORMATS)
def test_projections_inherit_errors_and_add_their_own(name: str) -> None:
    steps, stream = prepared(name)
    for h, head in enumerate(RUN.blueprint.blocks[0].attention.heads):
        tokens = BLOCK.heads[h].queries.tokens
        folded = RUN.folding.heads[0][h].query
        found, arising = steps.projected(folded, tokens, stream)
        assert_above(arising, exact(steps.linear(folded, stream.clean)), Fraction(0))
        wanted = exact(arising)
        for row, column, value in head.query:
            stored = Fraction(steps.weight(value)[0])
            wanted[:, row] += stored * exact(stream.entries.error)[:, column]
        assert_above(found.error, wanted)


@pytest.mark.parametrize("name", FORMATS)
def test_a_logit_errs_by_its_products_and_their_sum(name: str) -> None:
    steps, _ = prepared(name)
    shape = 16, 3
    masks = np.array(list(product((False, True), repeat=4)))
    size, error, arising, from_keys = (Upper(rng.uniform(0.5, 1, shape)) for _ in range(4))
    kinds = [np.repeat(masks[:, k : k + 1], 3, axis=1) for k in range(4)]
    queries, keys = Entries(size, error, *kinds[:2]), Entries(error, size * 2.0, *kinds[2:])
    j = rng.permutation(16)
    noise, absolute = steps.logit_noise(queries, arising, keys, from_keys, j)
    q, k = exact(queries.computed), exact(keys.computed[j])
    unit, safe = queries.unit | keys.unit[j], queries.safe & keys.safe[j]
    u, tiny = Fraction(steps.u), Fraction(steps.tiny)
    wanted = np.where(unit, Fraction(0), u * q * k) + 2 * tiny * (1 + q + k)
    wanted = np.where(unit & safe, Fraction(0), wanted)
    wanted = (wanted + exact(arising) * k + q * exact(from_keys[j])).sum(1)
    assert_above(absolute, (q * k).sum(1))
    assert_above(noise, wanted + gamma(2, name) * (q * k).sum(1) + 8 * tiny)
    # Underflow and what arises are of one size only in float16: apart, each is seen in any format.
    none = Upper.zeros(shape)
    noise, _ = steps.logit_noise(Entries(none, none, *kinds[:2]), arising, keys, from_keys, j)
    assert_above(noise, (exact(arising) * k).sum(1))


@pytest.mark.parametrize("name", FORMATS)
def test_logits_as_large_as_a_format_holds_are_refused(name: str) -> None:
    """Attended ones by their own sum; masked ones, which have no sum of their own, by all sums."""
    steps, stream = prepared(name)
    head, matrices = BLOCK.heads[0], RUN.folding.heads[0][0]
    queries, _ = steps.projected(matrices.query, head.queries.tokens, stream)
    keys, _ = steps.projected(matrices.key, head.keys.tokens, stream)
    none = Upper.zeros(queries.size.shape)
    for half, reason in ((0.49, "rounding could change"), (0.5, "logits come close")):
        large, one = none.copy(), none.copy()
        large[0, 0], one[1, 0] = half * float(FORMATS[name].largest), 1.0
        few = replace(queries, size=large, error=none), replace(keys, size=one, error=none)
        with pytest.raises(OverflowsError, match=reason):
            steps.leaking(head, *few, "here")
        if half < 0.5:
            steps.logit_noise(few[0], none, few[1], none, np.full(4, 1))
        else:
            with pytest.raises(OverflowsError, match=reason):
                steps.logit_noise(few[0], none, few[1], none, np.full(4, 1))


def leaking_formula(steps: _SharedAttention, head: Any, queries: Entries, keys: Entries) -> Exact:
    """e^x of every token not attended to, x its logit behind the larger of those that are."""
    q, k = head.queries.ranges.widened(queries.error), head.keys.ranges.widened(keys.error)
    low, high = interval(q, k)
    u, tiny, rows = Fraction(steps.u), Fraction(steps.tiny), queries.size.shape[1]
    a, b = exact(queries.computed), exact(keys.computed)
    sums = a @ b.T
    noise = u * sums + 2 * tiny * (rows + a.sum(1)[:, None] + b.sum(1))
    noise = noise + gamma(rows - 1, steps.format.name) * sums + (rows - 1) * 4 * tiny
    found = []
    for i, (f, p) in enumerate(zip(head.focus, head.partner, strict=True)):
        attended = {int(f), int(p)} - {ALONE}
        reference = max((low - noise)[i, j] for j in attended)
        total = mp.mpf(0)
        for j in set(range(len(low))) - attended:
            x = ((high + noise)[i, j] - reference) * (1 - 4 * u)
            total += mp.exp(mp.mpf(x.numerator) / x.denominator)
        found.append(Fraction(int(total * mp.mpf(2) ** 2000), 2**2000))
    return np.array(found)


def interval(queries: Ranges, keys: Ranges) -> tuple[Exact, Exact]:
    """⟨q, k⟩ for q = c ± v and k = c' ± v' lies within |c| v' + v (|c'| + v') of ⟨c, c'⟩."""
    c, v, d, w = (
        exact(part) for part in (queries.constant, queries.varying, keys.constant, keys.varying)
    )
    give = abs(c) @ w.T + v @ (abs(d) + w).T
    return c @ d.T - give, c @ d.T + give


@pytest.mark.parametrize("masks", [(20, 24, 28, 32), (1000, 1100, 1200, 1300)])
@pytest.mark.parametrize("name", FORMATS)
def test_leakage_is_the_weight_of_whatever_is_masked(
    name: str, masks: tuple[int, int, int, int]
) -> None:
    run = made(masks)
    steps, stream = prepared(name, run)
    head, matrices = run.shared[0].heads[1], run.folding.heads[0][1]
    queries, _ = steps.projected(matrices.query, head.queries.tokens, stream)
    keys, _ = steps.projected(matrices.key, head.keys.tokens, stream)
    with mp.workprec(3000):
        wanted = leaking_formula(steps, head, queries, keys)
    mass = steps.leaking(head, queries, keys, "here")
    assert (wanted > 0).all()
    if masks[0] < 100:
        assert_above(mass, wanted)
    else:  # e^(−1000) is no number of float64, and no zero either
        assert all(exact(mass) > wanted)
        assert all(mass.values < 1e-300)


@pytest.mark.parametrize(("token", "masked"), [(0, 2), (1, 0), (2, 0), (3, 1)])
def test_tokens_are_masked_by_eight_at_least(
    monkeypatch: pytest.MonkeyPatch, token: int, masked: int
) -> None:
    """A logit is taken upwards twice, by the noise and by the difference, and may then be −8."""
    steps, stream = prepared("float32")
    head, matrices = BLOCK.heads[0], RUN.folding.heads[0][0]
    queries, _ = steps.projected(matrices.query, head.queries.tokens, stream)
    none = Upper.zeros(queries.size.shape)
    still = replace(queries, size=none, error=none)
    low, high = np.zeros((4, 4)), np.full((4, 4), -50.0)
    monkeypatch.setattr(softmax_bounds, "logit_ranges", lambda *_: (low, high))
    high[token, masked] = lowered(lowered(np.asarray(-8.0)))
    mass = steps.leaking(head, still, still, "here")
    assert np.argmax(mass.values) == token
    # Room for sixteen units in the last place of an exponential is left, and not twice as many.
    x = -8 * (1 - 4 * Fraction(steps.u))
    with mp.workprec(200):
        wanted = mp.exp(mp.mpf(x.numerator) / x.denominator)
        assert wanted < float(mass[token]) < wanted * (1 + 1.9 * mp.mpf(2) ** -48)
    exponential = np.exp
    with monkeypatch.context() as patched:
        patched.setattr(np, "exp", lambda x: exponential(x) * (1 - 15 * 2.0**-52))
        assert wanted < float(steps.leaking(head, still, still, "here")[token])
    high[token, masked] = lowered(np.asarray(-8.0))
    with pytest.raises(OverflowsError, match=r"here: in float32 .* which tokens are attended"):
        steps.leaking(head, still, still, "here")


def test_logits_lie_in_their_ranges() -> None:
    shape = 5, 4
    for _ in range(20):
        constants = (np.where(rng.random(shape) < 0.5, 0, rng.normal(size=shape)) for _ in range(2))
        q, k = (Ranges(c, Upper(rng.uniform(0, 2, shape))) for c in constants)
        low, high = logit_ranges(q, k)
        lowest, highest = interval(q, k)
        width = highest - lowest
        assert (exact(low) <= lowest).all()
        assert (highest <= exact(high)).all()
        assert (exact(high) - exact(low) <= width * (1 + ROOM)).all()
        wider = q.widened(k.varying)
        assert_above(wider.varying, exact(q.varying) + exact(k.varying))
        assert_above(wider.size, abs(exact(q.constant)) + exact(wider.varying))


def test_logits_of_constants_lie_in_their_ranges_though_sums_are_rounded() -> None:
    """With nothing that varies only the rounding of float64 is left, and no more than is possible."""
    zero = Upper.zeros((6, 50))
    for _ in range(20):
        q, k = (Ranges(rng.normal(size=(6, 50)), zero) for _ in range(2))
        low, high = (exact(part) for part in logit_ranges(q, k))
        inner = exact(q.constant) @ exact(k.constant).T
        absolute = abs(exact(q.constant)) @ abs(exact(k.constant)).T
        assert (low <= inner).all()
        assert (inner <= high).all()
        room = 2 * 50 * absolute / 2**53
        assert (room <= high - low).all()
        assert (high - low <= room + (abs(inner) + absolute) / 2**50).all()
    # Terms that cancel, though one of them has been lost on the way: 2⁵³ + 1 − 2⁵³.
    q = Ranges(np.array([[2.0**53, 1.0, -(2.0**53)]]), Upper.zeros((1, 3)))
    low, high = logit_ranges(q, Ranges(np.ones((1, 3)), Upper.zeros((1, 3))))
    assert low <= 1 <= high


def test_interval_ends_move_outwards() -> None:
    numbers = np.array([-3.5, 0.0, 7.25])
    assert raised(numbers).tolist() == [np.nextafter(x, np.inf) for x in numbers]
    assert lowered(numbers).tolist() == [np.nextafter(x, -np.inf) for x in numbers]


@pytest.mark.parametrize("name", FINE)
def test_a_head_errs_as_its_formula_says(name: str) -> None:
    steps, stream = prepared(name)
    z = Upper(rng.uniform(0.5, 1, 4))
    for h, matrices in enumerate(RUN.folding.heads[0]):
        head = BLOCK.heads[h]
        found = steps.head(matrices, head, z, stream, "here")
        queries, from_queries = steps.projected(matrices.query, head.queries.tokens, stream)
        keys, from_keys = steps.projected(matrices.key, head.keys.tokens, stream)
        mass = exact(steps.leaking(head, queries, keys, "here"))
        arising = exact(steps.linear(matrices.value, stream.clean))
        brought = np.full((3, 4, W), Fraction(0))
        for row, column, value in RUN.blueprint.blocks[0].attention.heads[h].value:
            stored = Fraction(steps.weight(value)[0])
            brought[:, :, row] += stored * exact(stream.errors)[:, :, column]
        values = np.array([[v.get(d, Fraction(0)) for d in range(W)] for v in head.values])
        size = abs(values) + arising + brought.sum(0)
        most = size.max(0)
        errors, sizes = np.full((3, 4, W), Fraction(0)), np.full((4, W), Fraction(0))
        for i in range(4):
            f, p, shared = head.focus[i], head.partner[i], head.partner[i] != ALONE
            p = p if shared else f
            given = queries, from_queries, keys, from_keys
            slips, logits = zip(
                *(steps.logit_noise(*given, np.full(4, j)) for j in (f, p)), strict=True
            )
            slip = sum(Fraction(float(s[i])) for s in slips) if shared else Fraction(0)
            apart = head.scale * Fraction(float(z[i])) + slip if shared else Fraction(0)
            logit = max(Fraction(float(part[i])) for part in logits)
            inherited = np.maximum(brought[:, f], brought[:, p])
            wrong, top = np.maximum(arising[f], arising[p]), np.maximum(size[f], size[p])
            half, spread = abs(values[f] + values[p]) / 2, abs(values[f] - values[p]) / 4
            answer = np.minimum(half + spread * apart + wrong + inherited.sum(0), top)
            leakage = 8 * mass[i] * (most + top)
            count = roundings_of_a_weight(FORMATS[name], 0.0) + 8 * logit
            weighing = top * gamma(Fraction(count), name)
            summing = (answer + weighing) * gamma(5, name)
            flushed = np.where(most > 0, (4 + 4) * 4 * Fraction(steps.tiny) * (1 + most), 0)
            rounding = spread * slip + wrong + weighing + summing + flushed
            errors[:, i] = inherited + np.stack([0 * leakage, leakage, rounding])
            sizes[i] = answer + leakage + rounding
        assert_above(found.errors, errors)
        assert_above(found.size, sizes)


@pytest.mark.parametrize("name", FINE)
def test_a_block_adds_up_what_its_products_and_heads_do(name: str) -> None:
    steps, stream = prepared(name)
    errors, absolute = exact(stream.errors), exact(stream.entries.computed)
    count = (absolute > 0).astype(float)
    for factors in BLOCK.products:
        heads = [BLOCK.heads[h] for h in factors.heads]
        carried = steps.carried(factors, heads[0], stream)
        reach = RUN.sizes.column(factors.differences)[:, 0]
        z = reach + carried.sum(0)
        for i, p in enumerate(heads[0].partner):
            for d in range(W) if p != ALONE else ():
                pairs = [
                    (head.values[i].get(d, Fraction(0)), head.values[p].get(d, Fraction(0)))
                    for head in heads
                ]
                seen = _Combination.of([head.scale for head in heads], pairs)
                errors[:, i, d] += abs(seen.slope) * exact(carried)[:, i]
                errors[0, i, d] += Fraction(float(seen.truncation(z)[i]))
        for h, head in zip(factors.heads, heads, strict=True):
            matrices = RUN.folding.heads[0][h]
            noise = steps.head(matrices, head, z, stream, "here")
            errors, absolute = errors + exact(noise.errors), absolute + exact(noise.size)
            count += noise.size.nonzero
    size = exact(RUN.sizes.table(BLOCK.output, RUN.folding.columns)) + errors.sum(0)
    none = Upper.zeros((4, W))
    bounds = (Upper(part.astype(float)) for part in (absolute, size))
    errors[2] += exact(steps._summed(none, next(bounds), count, next(bounds)))
    found = steps.block(0, BLOCK, stream)
    errors = errors * (1 - Fraction(1, 2**45))  # sizes were rounded to nearest above
    assert_above(found.errors, errors)
    assert_above(found.entries.error, errors.sum(0))


def test_the_extrapolating_dimension_is_told_from_the_other() -> None:
    steps, _ = prepared("float64")
    pairs = steps.combinations(BLOCK.products[0], BLOCK.heads)
    assert all(c.cubes is None for c, _ in pairs[A])
    assert all(c.cubes is not None for c, _ in pairs[B])
    assert sorted(int(i) for _, rows in pairs[A] for i in rows) == [0, 1]
    assert sorted(int(i) for _, rows in pairs[B] for i in rows) == [0, 1]
    assert len(pairs[B]) == 2  # the second constant makes these values two


@pytest.mark.parametrize("name", FORMATS)
def test_values_are_bounded_as_rationals(name: str) -> None:
    steps, _ = prepared(name)
    for head in BLOCK.heads:
        values = np.array([[v.get(d, Fraction(0)) for d in range(W)] for v in head.values])
        first, second = rng.integers(0, 4, (2, 4))
        half, spread, size = steps._values(head, first, second)
        assert_above(half, abs(values[first] + values[second]) / 2)
        assert_above(spread, abs(values[first] - values[second]) / 4)
        assert_above(size, abs(values))


def test_an_output_reads_every_error_by_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, stream = prepared("float32")
    given = RoundingBound(1 / 3, "why")
    monkeypatch.setattr(steps, "readout", lambda *_: given)
    readout = RUN.blueprint.readouts[0]
    wanted = np.array([Fraction(0), Fraction(0), Fraction(1 / 3)])
    for i, d, value in readout.beta:
        wanted = wanted + Fraction(steps.weight(value)[0]) * exact(stream.errors)[:, i, d]
    found = steps.finish(readout, stream)
    assert_above(Upper([found.truncation, found.leakage, found.rounding]), wanted)
    assert found.reason == "why"


def test_the_embedding_errs_by_rounding_alone_and_every_block_is_followed() -> None:
    for name in FORMATS:
        steps, _ = prepared(name)
        embedded = steps.embedding()
        none = np.zeros(embedded.error.shape)
        errors = Upper(np.stack([none, none, embedded.error.values]))
        stream = steps.block(0, BLOCK, _Stream(embedded, errors))
        assert steps.bound() == steps.finish(RUN.blueprint.readouts[0], stream)
