"""What rounding may cost a coupling: every formula in rationals, never undercut and hardly exceeded."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from math import floor

import numpy as np
import pytest
import torch

from exactformer.core.formats import EXP_ULPS, FORMATS, FloatFormat
from exactformer.core.upper import Upper
from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.interpolant import Interpolant, Knots
from exactformer.couplings.kuhn import KuhnInterpolant
from exactformer.couplings.proof.rounding import (
    _is_power_of_two,
    check_format,
    layers_error,
    mean_error,
    most_hats,
    place_error,
    rounding_bound,
    score_error,
    table_error,
    token_error,
)
from exactformer.couplings.proof.slopes import lipschitz
from exactformer.couplings.run.kuhn_tables import KuhnTable
from exactformer.couplings.run.literal import LiteralCoupling, _network
from exactformer.couplings.run.tables import KnotTable
from exactformer.errors import RoundingError
from tests.couplings.run.test_runs import CASES, drawn

HAIR = Fraction(1, 2**42)
F = Fraction


def agree(found: Upper, wanted: list[Fraction]) -> None:
    """Never below what is wanted, and above it by the roundings of float64 at most."""
    assert len(np.atleast_1d(found.values)) == len(wanted)
    for value, exact in zip(np.atleast_1d(found.values), wanted, strict=True):
        assert exact <= F(float(value)) <= exact * (1 + HAIR)


def gamma(k: int | Fraction, target: FloatFormat) -> Fraction:
    return k * F(target.unit) / (1 - k * F(target.unit))


def columns(values: np.ndarray) -> list[Fraction]:
    return [F(float(v)) for v in np.abs(values).max(axis=0)]


def knots_of(*intervals: tuple, pieces: int) -> Knots:
    return Knots(tuple((F(a), F(b)) for a, b in intervals), pieces)


def one(knots: Knots, outputs: int = 2, seed: int = 0) -> Interpolant:
    return Interpolant(knots, np.random.default_rng(seed).normal(size=(len(knots), outputs)))


def several(box: tuple, pieces: int, outputs: int = 2) -> KuhnInterpolant:
    sides = tuple((F(a), F(b)) for a, b in box)
    shape = (pieces + 1) ** len(box), outputs
    return KuhnInterpolant(sides, pieces, np.random.default_rng(len(box)).normal(size=shape))


FUNCTIONS = {
    "powers of two": one(knots_of((-1, 1), pieces=4)),
    "odd": one(knots_of((F(1, 10), F(73, 100)), pieces=7), 3),
    "negative": one(knots_of((F(-7, 3), F(-1, 3)), pieces=3)),
    "a gap": one(knots_of((0, 1), (F(8, 7), F(15, 7)), pieces=2)),
    "a wide gap, in another order": one(knots_of((20, 21), (0, 1), (9, 10), pieces=3)),
    "two": several(((0, 1), (F(-1, 3), F(1, 2))), 3),
    "a thin box": several(((0, F(1, 128)), (0, 1)), 2),
    "three": several(((F(-1, 7), F(1, 5)), (F(-1, 3), F(1, 2)), (2, 5)), 2, 1),
}
"""By what matters in them: weights that are exact or not, signs, lengths, dimensions."""


def largest_step(function) -> list[Fraction]:
    if isinstance(function, Interpolant):
        blocks = np.split(function.values, len(function.knots.intervals))
        pairs = [pair for block in blocks for pair in pairwise(block)]
    else:
        side, d = function.pieces + 1, len(function.box)
        flat = dict(zip(product(range(side), repeat=d), function.values, strict=True))
        ahead = [tuple(int(i == axis) for i in range(d)) for axis in range(d)]
        pairs = [
            (value, flat[after])
            for place, value in flat.items()
            for e in ahead
            if (after := tuple(map(sum, zip(place, e, strict=True)))) in flat
        ]
    return [
        max(abs(F(float(b)) - F(float(a))) for a, b in zip(*sides, strict=True))
        for sides in [
            ([p[0][n] for p in pairs], [p[1][n] for p in pairs]) for n in range(function.outputs)
        ]
    ]


def box_of(function):
    return function.knots.intervals if isinstance(function, Interpolant) else function.box


def place_formula(side, N, target, ends) -> Fraction:
    a, b = side
    start = target.round(F(float(a)))
    low, high = (ends.round(F(float(end))) for end in side)
    length, tiny = high - low, F(target.tiny)
    off, reach = max(abs(a - start), abs(b - start - length)), b - a + abs(a - start)
    whole = N / length * (off + gamma(5, target) * reach)
    return whole + tiny * (5 * N / length + 3 * (N + 1) * reach + 5)


def table_formula(function, box, target) -> list[Fraction]:
    u, tiny, d = F(target.unit), F(target.tiny), len(box)
    N = function.knots.pieces if isinstance(function, Interpolant) else function.pieces
    ends = target if d == 1 else FORMATS["float64"]
    P = sum(place_formula(side, N, target, ends) for side in box)
    found = []
    for V, step in zip(columns(function.values), largest_step(function), strict=True):
        eps = u * V + tiny
        wide, size = step + 2 * eps, V + eps
        if d == 1:
            read = gamma(3, target) * wide
            read += u * (size + read) + tiny * (9 + 5 * wide)
        else:
            read = gamma(d + 2, target) * size + (d + 1) * tiny * (5 * size + 6)
        found.append(P * step + eps + read)
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("target", FORMATS.values(), ids=lambda f: f.name)
def test_tables_are_off_by_places_steps_and_reading(name, target) -> None:
    function = FUNCTIONS[name]
    box = box_of(function)[: 1 if isinstance(function, Interpolant) else None]
    agree(table_error(function, box, target), table_formula(function, box, target))


def hats_formula(function, target) -> tuple[Fraction, int]:
    """Return E, and how many hats may be met."""
    layer, box = function.layers()[0], box_of(function)
    u, tiny = F(target.unit), F(target.tiny)
    d = 1 if isinstance(function, Interpolant) else len(box)
    X = max(abs(end) for side in box for end in side)
    rho, k = {1: (1, 2), 2: (2, 4), 3: (5, 4)}[d]
    hats, wider = [], []
    for row, _, w in layer.weight:
        kept, b = target.round(w), layer.bias[row, 0]
        exact = w.denominator == 1 and bin(abs(w.numerator)).count("1") == 1
        exact |= abs(w.numerator) == 1 and bin(w.denominator).count("1") == 1
        eta = abs(kept - w) * X + abs(target.round(b) - b) + (0 if exact else u * abs(kept) * X)
        eta += tiny * (4 + abs(kept) + X)
        E = 2 * eta + gamma(rho, target) * (1 + 2 * eta) + gamma(k, target) + 30 * d * tiny
        hats.append(E)
        wider.append(2 * E / abs(w) if d == 1 else 2 * E)
    r = max(wider) * (max(abs(w) for _, _, w in layer.weight) if d == 1 else 1)
    met = 2 ** (d + 1) - 1 if r < F(1, 2) else (floor(2 * r) + 3) ** d
    return max(hats), min(met, len(function.values))


def layers_formula(function, target) -> list[Fraction]:
    u, tiny = F(target.unit), F(target.tiny)
    E, met = hats_formula(function, target)
    T, found = 1 + met * E, []
    for V in columns(function.values):
        eps = u * V + tiny
        read = gamma(met, target) * (V + eps) * T + 2 * met * tiny * (4 + V + eps + T)
        found.append(V * met * E + eps * T + read)
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("target", FORMATS.values(), ids=lambda f: f.name)
def test_layers_are_off_by_hats_and_reading(name, target) -> None:
    function = FUNCTIONS[name]
    agree(layers_error(function, target), layers_formula(function, target))


def test_formats_too_coarse_for_the_pieces_meet_more_hats() -> None:
    met = {name: hats_formula(f, FORMATS["bfloat16"])[1] for name, f in FUNCTIONS.items()}
    assert met["powers of two"] == 3
    assert met["two"] == met["a thin box"] == 7
    assert met["a wide gap, in another order"] > 3
    assert hats_formula(FUNCTIONS["a wide gap, in another order"], FORMATS["float16"])[1] == 3


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("widening", [1e-9, 0.1, 0.49, 0.5, 0.7, 1.2])
def test_no_point_meets_more_hats(d, widening) -> None:
    """Those with max(0, z) + max(0, −z) < 1 + r, counted; on a vertex the bound is attained."""
    reach = range(-4, 5)
    grid = np.array(list(product(reach, repeat=d)))
    points = np.vstack([np.zeros(d), np.random.default_rng(0).integers(0, 16, (60, d)) / 16])
    apart = points[:, None] - grid
    spread = np.maximum(apart.max(axis=2), 0) + np.maximum(-apart.min(axis=2), 0)
    met = (spread < 1 + widening).sum(axis=1)
    assert met.max() <= most_hats(widening, d, 10**9)
    if widening < 0.5:
        assert met[0] == most_hats(widening, d, 10**9)


def test_the_number_of_hats_at_its_limits() -> None:
    assert [most_hats(0.4999, d, 100) for d in (1, 2, 3)] == [3, 7, 15]
    assert [most_hats(0.5, d, 100) for d in (1, 2, 3)] == [4, 16, 64]
    assert [most_hats(1.49, d, 1000) for d in (1, 2, 3)] == [5, 25, 125]
    assert [most_hats(1.5, d, 1000) for d in (1, 2, 3)] == [6, 36, 216]
    assert [most_hats(r, 3, 8) for r in (0.1, 0.5, 1e300, float("inf"))] == [8] * 4


@pytest.mark.parametrize("target", FORMATS.values(), ids=lambda f: f.name)
def test_places_at_the_ends_of_intervals(target) -> None:
    """Neither end is a number of a format; or either; lengths in the format, or in float64."""
    thirds = [F(-5, 3), F(-1), F(1, 4), F(10, 3), F(50)]
    for a, b in pairwise(thirds):
        for ends in (target, FORMATS["float64"]):
            found = place_error((a, b), 5, target, ends)
            agree(found, [place_formula((a, b), 5, target, ends)])


def test_subnormal_ends_may_be_taken_for_zero() -> None:
    """The smallest normal number may not; where formats keep subnormal numbers, none may."""
    target, half = FORMATS["float32"], FORMATS["float16"]
    tiny = F(target.tiny)
    for high in (tiny * 3 / 2, tiny * 1000):
        for low, lengths in ((tiny / 2, (high - tiny / 2, high)), (tiny, (high - tiny,))):
            worst = F(0)
            for length in lengths:
                off = abs(high - low - length)
                whole = 2 / length * (off + gamma(5, target) * (high - low))
                worst = max(worst, whole + tiny * (5 * 2 / length + 9 * (high - low) + 5))
            agree(place_error((low, high), 2, target, target), [worst])
    side = (F(1, 2**20), F(1, 2**19))
    agree(place_error(side, 2, half, half), [place_formula(side, 2, half, half)])
    ends = -tiny / 2, tiny / 2
    assert place_error((ends[0], F(1)), 2, target, target) < 1e-5
    with pytest.raises(RoundingError, match="inverse length of a piece of f̂ may be inf"):
        check_format(model((ends[0], ends[1])), torch.float32, "fused")


def model(
    domain=(0, 1),
    pieces: int = 1,
    positions=None,
    query: float = 1.0,
    key: float = 1.0,
    value: float = 1.0,
    outer: Interpolant | KuhnInterpolant | None = None,
    values: int = 1,
) -> CouplingBlueprint:
    """Return a model of functions that are this large at one knot, of which F̂ lies on [0, 1]."""
    low, high = F(domain[0]), F(domain[1])
    places = None if positions is None else tuple(map(F, positions))
    knots = Knots(tuple((low + e, high + e) for e in places or (F(0),)), pieces)
    rows = np.tile([query, key, value, *[value / 2] * (values - 1)], (len(knots), 1))
    rows[0] /= 2
    last = Interpolant(knots_of((0, 1), pieces=1), np.ones((2, 1))) if outer is None else outer
    tau = 2 if places is None else len(places)
    return CouplingBlueprint(tau, (low, high), places, 1, Interpolant(knots, rows), last)


def accepts(blueprint: CouplingBlueprint, dtype: torch.dtype, executor: str, number: str) -> bool:
    try:
        check_format(blueprint, dtype, executor)
    except RoundingError as problem:
        message = str(problem)
    else:
        return True
    assert message.startswith(number)
    return False


@pytest.mark.parametrize("executor", ["fused", "literal"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_values_and_scores_reach_a_quarter_of_the_largest_number(executor, dtype) -> None:
    limit = torch.finfo(dtype).max / 4
    more = np.nextafter(limit, np.inf)
    for size, good in ((limit, True), (more, False)):
        for sign in (1, -1):
            large = model(query=sign * size, key=0.0, outer=None)
            assert accepts(large, dtype, executor, "a value of f̂") is good
            high = Interpolant(knots_of((0, 1), pieces=1), np.array([[0.0], [sign * size]]))
            assert accepts(model(outer=high), dtype, executor, "a value of F̂") is good
            product_ = model(query=sign * size / 2**60, key=2.0**60)
            assert accepts(product_, dtype, executor, "a score") is good


def test_inverse_lengths_reach_a_quarter_of_the_largest_number() -> None:
    """That number of float32 is 2^126(1 − 2^−24); on 3 pieces lengths are three times as long."""
    for pieces in (1, 3):
        short, long = (F(pieces, 2**126) * f for f in (1, 1 + F(1, 2**22)))
        for length, good in ((short, False), (long, True)):
            f_hat = model((0, length), pieces)
            name = "the inverse length of a piece of "
            assert accepts(f_hat, torch.float32, "fused", name + "f̂") is good
            last = Interpolant(knots_of((-length, 0), pieces=pieces), np.ones((pieces + 1, 1)))
            assert accepts(model(outer=last), torch.float32, "fused", name + "F̂") is good
            box = ((0, 1), (0, length))
            kuhn = several(box, pieces, 1)
            both = model(outer=kuhn, values=2)
            assert accepts(both, torch.float32, "fused", name + "F̂") is good
    for beyond in ((0, F(10) ** 39), (-(F(10) ** 39), 0)):
        name = "the inverse length of a piece of f̂ may be inf"
        assert not accepts(model(beyond), torch.float32, "fused", name)


def test_boxes_keep_the_length_that_float64_sees() -> None:
    """A table of one dimension takes the length of its stored ends, a box does not."""
    side = (1000, F(1000) + F(1, 2**16))
    blueprint = model(outer=several((side, (0, 1)), 1, 1), values=2)
    assert accepts(blueprint, torch.float32, "fused", "")
    alone = model(outer=one(knots_of(side, pieces=1), 1))
    assert not accepts(alone, torch.float32, "fused", "the inverse length of a piece of F̂")


@pytest.mark.parametrize("pieces", [4094, 4095])
def test_units_reach_a_quarter_of_the_largest_number(pieces) -> None:
    """(1 + X + X')/h for inputs up to X and knots up to X'; float16 ends at 65504 = 4·16376."""
    for half in ((0, F(1, 2)), (F(-1, 2), 0)):
        blueprint = model(half, pieces)
        assert accepts(blueprint, torch.float16, "literal", "a unit of f̂") is (pieces == 4094)
    extra = pieces - 4094
    for value in (16374 + extra, -16374 - extra):
        assert accepts(model(value=value), torch.float16, "literal", "a unit of F̂") is (extra == 0)
    gap = F(5, 16374 + extra)
    close = model(positions=(1 + gap, 0))
    assert accepts(close, torch.float16, "literal", "a unit of f̂") is (extra == 0)
    box = several(((0, 1), (-2, 1)), 1, 1)
    wide = replace(model(value=16373 + extra, outer=box, values=2))
    assert accepts(wide, torch.float16, "literal", "a unit of F̂") is (extra == 0)
    for domain in ((0, 4), (-4, 0)):
        for sign in (1, -1):
            far = model(domain, positions=(0, sign * (16372 + extra)))
            assert accepts(far, torch.float16, "literal", "a token with its position") is (
                extra == 0
            )
    assert accepts(far, torch.float16, "fused", "")


def test_tables_need_formats_that_count_their_pieces() -> None:
    """bfloat16 has all whole numbers to 256; 257 would be read beyond the table."""
    for pieces in (256, 257):
        last = Interpolant(knots_of((0, 1), pieces=pieces), np.ones((pieces + 1, 1)))
        for blueprint in (model(pieces=pieces), model(outer=last)):
            good = pieces == 256
            assert accepts(blueprint, torch.bfloat16, "fused", "bfloat16 cannot count") is good
            assert accepts(blueprint, torch.bfloat16, "literal", "")
            assert accepts(blueprint, torch.float32, "fused", "")


@pytest.mark.parametrize("target", FORMATS.values(), ids=lambda f: f.name)
def test_tokens_are_off_by_positions_and_a_sum(target) -> None:
    """The steepest slope may be that of a gap; 3·tiny without positions."""
    u, tiny, functions = F(target.unit), F(target.tiny), FUNCTIONS["a gap"]
    rows = np.hstack([functions.values, functions.values[::-1]])
    for e, sides in (((0, F(8, 7)), 2), (None, 1)):
        domain = F(0), F(1)
        knots = functions.knots if e else knots_of(domain, pieces=2)
        features = Interpolant(knots, rows[: len(knots)])
        last = several(((0, 1), (0, 1)), 1, 1)
        blueprint = CouplingBlueprint(2, domain, e, 1, features, last)
        slopes = [
            max(
                abs(F(float(q)) - F(float(p))) / (t - s)
                for (s, p), (t, q) in pairwise(zip(knots.exact, column, strict=True))
            )
            for column in features.values.T
        ]
        off = 3 * tiny
        if e:
            lost = abs(target.round(F(float(e[1]))) - e[1])
            off += lost + u * (F(15, 7) + lost)
        assert len(blueprint.token_intervals) == sides
        agree(token_error(blueprint, target), [slope * off for slope in slopes])


SIZES = [F(3, 4), F(5, 2), F(1, 8), F(7, 4)]
ERRORS = [F(1, 64), F(3, 128), F(1, 32), F(5, 256)]


def uppers(values: list[Fraction]) -> Upper:
    return Upper(np.array([float(v) for v in values]))


@pytest.mark.parametrize("target", FORMATS.values(), ids=lambda f: f.name)
def test_scores_are_off_by_queries_keys_and_a_sum(target) -> None:
    tiny = F(target.tiny)
    (Q1, Q2, K1, K2), (q1, q2, k1, k2) = SIZES, ERRORS
    S = (Q1 + q1) * (K1 + k1) + (Q2 + q2) * (K2 + k2)
    rounding = gamma(2, target) * S + 2 * tiny * (8 + sum(SIZES) + sum(ERRORS))
    brought = Q1 * k1 + K1 * q1 + q1 * k1 + Q2 * k2 + K2 * q2 + q2 * k2
    score, noise = score_error(uppers(SIZES), uppers(ERRORS), target)
    agree(score, [S + rounding])
    agree(noise, [brought + rounding])


@pytest.mark.parametrize("target", FORMATS.values(), ids=lambda f: f.name)
@pytest.mark.parametrize("noise", [F(1, 16), F(7, 4), F(5)])
def test_means_are_off_by_weights_values_and_a_sum(target, noise) -> None:
    tau, tiny, score = 5, F(target.tiny), F(3, 2)
    D = min(noise + gamma(2 * EXP_ULPS[target.name] + 8 * score, target), F(2))
    scaled = gamma(tau + 1, target) + 10 * tau * tiny
    wanted = [
        V * (D + scaled)
        + dV * (1 + scaled)
        + gamma(tau, target) * (1 + scaled) * (V + dV)
        + 2 * tau * tiny * (4 + V + dV)
        for V, dV in zip(SIZES, ERRORS, strict=True)
    ]
    scored = Upper.of(score), Upper.of(noise)
    agree(mean_error(uppers(SIZES), uppers(ERRORS), tau, *scored, target), wanted)


MORE = {
    **CASES,
    "two negative values": {"vector": True, "domain": (-0.9, -0.2)},
    "powers of two": {"domain": (-2.0, -1.0), "width": 17},
}


@pytest.mark.parametrize("case", MORE)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("executor", ["fused", "literal"])
def test_rounding_is_bounded_by_its_parts(case, dtype, executor) -> None:
    """Features, scores, softmax and mean, through F̂ by its slope, and F̂ itself."""
    blueprint = drawn(**MORE[case])
    features, outer, m = blueprint.features, blueprint.outer, blueprint.head_dim
    target = FORMATS[str(dtype).removeprefix("torch.")]
    if executor == "literal":
        tokens = [F(float(v)) for v in token_error(blueprint, target).values]
        error = [a + b for a, b in zip(layers_formula(features, target), tokens, strict=True)]
        last = layers_formula(outer, target)
    else:
        error = table_formula(features, (blueprint.domain,), target)
        last = table_formula(outer, box_of(outer), target)
    size, u, tiny = columns(features.values), F(target.unit), F(target.tiny)
    products = sum((size[k] + error[k]) * (size[m + k] + error[m + k]) for k in range(m))
    brought = sum(
        size[k] * error[m + k] + size[m + k] * error[k] + error[k] * error[m + k] for k in range(m)
    )
    flushed = 2 * tiny * (4 * m + sum(size[: 2 * m]) + sum(error[: 2 * m]))
    rounding = gamma(m, target) * products + flushed
    D = brought + rounding
    D += gamma(2 * EXP_ULPS[target.name] + 8 * (products + rounding), target)
    tau, scaled = blueprint.tau, gamma(blueprint.tau + 1, target) + 10 * blueprint.tau * tiny
    means = [
        V * (D + scaled)
        + (1 + scaled) * (dV + gamma(tau, target) * (V + dV))
        + 2 * tau * tiny * (4 + V + dV)
        for V, dV in list(zip(size, error, strict=True))[2 * m :]
    ]
    assert D < 2
    assert u < max(means)
    wanted = F(lipschitz(outer)) * max(means) + max(last)
    agree(Upper(rounding_bound(blueprint, dtype, executor)), [wanted])


def test_weights_of_a_softmax_are_never_off_by_more_than_two() -> None:
    """Of scores as large as 10^12 no weight is known; the mean is off by the range of f at most."""
    blueprint = drawn()
    values = blueprint.features.values.copy()
    values[:, :4] *= 1e6
    steep = replace(blueprint, features=Interpolant(blueprint.features.knots, values))
    target, largest = FORMATS["float32"], columns(values)[4]
    found = F(rounding_bound(steep, torch.float32, "fused")) / F(lipschitz(steep.outer))
    assert 2 * largest < found < 2 * largest * (1 + 200 * F(target.unit))


def test_products_with_powers_of_two_are_exact() -> None:
    powers = [F(2) ** k * sign for k in range(-9, 10) for sign in (1, -1)]
    assert all(map(_is_power_of_two, powers))
    others = [F(3), F(-6), F(1, 3), F(5, 8), F(-7, 12), F(2, 3), F(3, 2), F(4, 3)]
    assert not any(map(_is_power_of_two, others))


def exactly(function, x: list[Fraction]) -> list[list[Fraction]]:
    """Return the values of a function of one number, by the two knots beside each."""
    found = []
    knots = sorted(zip(function.knots.exact, function.values.tolist(), strict=True))
    for point in x:
        left, right = next(
            ((a, b) for a, b in pairwise(knots) if a[0] <= point <= b[0]),
            (knots[0],) * 2 if point < knots[0][0] else (knots[-1],) * 2,
        )
        w = (point - left[0]) / (right[0] - left[0]) if right is not left else 0
        found.append([F(p) + w * (F(q) - F(p)) for p, q in zip(left[1], right[1], strict=True)])
    return found


@pytest.mark.spread(8)
@pytest.mark.parametrize("name", [n for n, f in FUNCTIONS.items() if isinstance(f, Interpolant)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_tables_and_layers_stay_within_their_bounds(name, dtype) -> None:
    """On knots, beside them, between and beyond them, against rationals."""
    function, target = FUNCTIONS[name], FORMATS[str(dtype).removeprefix("torch.")]
    low, high = function.knots.intervals[0]
    rng = np.random.default_rng(0)
    x = torch.tensor([*function.knots.points, *rng.uniform(float(low), float(high), 200)])
    x = torch.cat([x, x + 1, torch.nextafter(x.to(dtype), x.to(dtype) + 1).double()]).to(dtype)
    wanted = exactly(function, [F(v) for v in x.double().tolist()])
    layers = _network(function.layers(), "f", dtype)(x[:, None])
    first = replace(
        function,
        knots=Knots(((low, high),), function.knots.pieces),
        values=function.values[: function.knots.pieces + 1],
    )
    on_first = exactly(first, [F(v) for v in x.double().tolist()])
    table = KnotTable(torch.tensor(first.values, dtype=dtype), float(low), float(high))(x)
    for found, exact, bound in (
        (layers, wanted, layers_error(function, target)),
        (table, on_first, table_error(first, ((low, high),), target)),
    ):
        for row, true in zip(found.detach().double().tolist(), exact, strict=True):
            for value, goal, most in zip(row, true, bound.values, strict=True):
                assert abs(F(value) - goal) <= F(float(most))


@pytest.mark.parametrize("name", ["two", "three"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_boxes_stay_within_their_bounds(name, dtype) -> None:
    """Against float64, which errs by its own bound."""
    function, target = FUNCTIONS[name], FORMATS[str(dtype).removeprefix("torch.")]
    low, high = (torch.tensor([float(v) for v in ends]) for ends in zip(*function.box, strict=True))
    grid = torch.tensor(list(product(range(function.pieces + 1), repeat=len(low))))
    inside = torch.rand(400, len(low), generator=torch.manual_seed(0)) * 1.2 - 0.1
    x = (low + (high - low) * torch.cat([grid / function.pieces, inside])).to(dtype)
    ends = [
        torch.tensor([float(v) for v in side], dtype=torch.float64)
        for side in zip(*function.box, strict=True)
    ]
    wanted = KuhnTable(torch.tensor(function.values), *ends)(x.double())
    room = table_error(function, function.box, FORMATS["float64"]).values
    table = KuhnTable(torch.tensor(function.values, dtype=dtype), *ends)(x)
    layers = _network(function.layers(), "F", dtype)(x)
    for found, bound in (
        (table, table_error(function, function.box, target)),
        (layers, layers_error(function, target)),
    ):
        gaps = (found.double() - wanted).abs().detach().numpy()
        assert (gaps <= bound.values + room).all()


def test_a_steep_gap_between_positions_is_paid_for() -> None:
    """A token on its interval's edge may be rounded into the gap, where f̂ jumps."""
    gap = F(1, 2**20)
    positions = (F(0), 1 + gap)
    knots = Knots(((F(0), F(1)), (1 + gap, 2 + gap)), 1)
    rows = np.ones((4, 3))
    rows[2:, 2] = 0.0
    identity = Interpolant(knots_of((0, 1), pieces=1), np.array([[0.0], [1.0]]))
    blueprint = CouplingBlueprint(2, (F(0), F(1)), positions, 1, Interpolant(knots, rows), identity)
    x = torch.tensor([[1.0, 2.0**-24]], dtype=torch.float32)
    assert rounding_bound(blueprint, torch.float32, "literal") > 2.0**-24 / float(gap) / 2
    found = LiteralCoupling(blueprint, torch.float32)(x).double()
    wanted = LiteralCoupling(blueprint, torch.float64)(x.double())
    gaps = (found - wanted).abs().max().item()
    assert gaps <= rounding_bound(blueprint, torch.float32, "literal")
