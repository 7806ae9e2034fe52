"""Single steps of the rounding bounds against their formulas in rationals.

A step whose result is below its formula by one unit in the last place of float64 fails here.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import inf, isqrt

import numpy as np
import pytest

from exactformer.core.arrays import Array
from exactformer.core.domain import Ball, Box, Domain
from exactformer.core.formats import FORMATS, FloatFormat
from exactformer.core.layers import IDENTITY, RELU, PiecewiseLinear, Readout
from exactformer.core.matrix import Matrix
from exactformer.core.upper import Upper, above, below
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.proof.folded_tables import Columns, FoldedMatrix
from exactformer.polynomials.proof.literal_rounding import (
    Analysis,
    Entries,
    OverflowsError,
    RoundingBound,
    _carried,
    rounding_bound,
)
from exactformer.polynomials.proof.magnitudes import CoordinateSizes
from exactformer.polynomials.proof.symbolic import run_symbolic
from tests.cases.blueprints import attention_block, hand_made

LINE = hand_made({(0, 0): 1}, 1, 1, 1, {}, [], {(0, 0): 1})
SMALLEST = Fraction(FORMATS["float64"].tiny)
rng = np.random.default_rng(0)


def analysis(name: str) -> Analysis:
    return Analysis(run_symbolic(LINE, Fraction(1)), FORMATS[name])


def numbers(*shape: int) -> Array:
    """Positive numbers of many sizes."""
    return rng.uniform(1, 2, shape) * 2.0 ** rng.integers(-20, 20, shape)


def assert_above(
    bounds: Upper | Array, exact: list[Fraction], room: Fraction = Fraction(1, 2**44)
) -> None:
    """Every bound is at least the exact number, and hardly more, underflow of float64 apart."""
    for bound, value in zip(fractions(bounds), exact, strict=True):
        assert value <= bound <= value * (1 + room) + 8 * SMALLEST


def fractions(values: Upper | Array) -> list[Fraction]:
    plain = values.values if isinstance(values, Upper) else values
    return [Fraction(value) for value in np.ravel(plain).tolist()]


def test_what_is_computed_is_at_most_size_plus_error() -> None:
    size, error = numbers(2, 500)
    mask = np.zeros(500, bool)
    entries = Entries(Upper(size), Upper(error), mask, mask)
    exact = [s + e for s, e in zip(fractions(size), fractions(error), strict=True)]
    assert_above(entries.computed, exact)
    assert_above(entries.clean.size, exact)
    assert not entries.clean.error.nonzero.any()


@pytest.mark.parametrize("name", FORMATS)
def test_gamma_is_rounded_up_and_ends_where_no_digit_is_left(name: str) -> None:
    """γ_k = ku/(1 − ku) for ku < ½."""
    format = FORMATS[name]
    u = Fraction(format.unit)
    half = int(1 / (2 * u))
    for k in (1, 2, 3, 7, 100, half // 3, half - 1):
        assert_above(analysis(name).gamma(k), [k * u / (1 - k * u)])
    for k in (half, half + 1, 2 * half, 4 * half):
        assert float(analysis(name).gamma(k)) == inf


@pytest.mark.parametrize("name", FORMATS)
def test_products_and_sums_err_as_the_standard_model_says(name: str) -> None:
    steps = analysis(name)
    u, tiny = Fraction(steps.format.unit), Fraction(steps.format.tiny)
    values, operands = numbers(2, 400)
    exact, safe = np.array(list(product((False, True), repeat=2)) * 100).T
    noise = steps.product_noise(Upper(values), exact, Upper(operands), safe)
    wanted = [
        Fraction(0) if e and s else (0 if e else u * v) + 2 * tiny * (1 + o)
        for v, o, e, s in zip(fractions(values), fractions(operands), exact, safe, strict=True)
    ]
    assert_above(noise, wanted)
    zeros = Upper.zeros(400)
    assert not steps.product_noise(zeros, exact, Upper(operands), safe).nonzero.any()
    # A product with a weight below 1 may underflow, whatever constant it is taken with.
    weight, ones = Upper([0.5, 0.5, 1.0, 1.0]), Upper(np.ones(4))
    safe = np.array([False, True, False, True])
    never = np.zeros(4, bool)
    noise = steps.weighted_noise(ones, weight, ~never, never, safe)
    assert_above(noise, [2 * tiny * (1 + w) for w in fractions(weight)[:3]] + [Fraction(0)])
    assert not steps.weighted_noise(ones, weight, never, ~never, never).nonzero.any()
    count = rng.integers(0, 20, 400).astype(float)
    wanted = []
    for m, v in zip(count.tolist(), fractions(values), strict=True):
        additions = max(int(m) - 1, 0)
        wanted.append(additions * u / (1 - additions * u) * v + additions * 4 * tiny)
    assert_above(steps.sum_noise(count, Upper(values)), wanted)


@pytest.mark.parametrize("name", FORMATS)
def test_a_sum_of_two_errs_by_its_result_and_a_longer_one_by_its_terms(name: str) -> None:
    steps = analysis(name)
    u, tiny = Fraction(steps.format.unit), Fraction(steps.format.tiny)
    error, absolute, size = np.float64(0.01) * rng.uniform(1, 2, (3, 400))
    count = rng.integers(0, 6, 400).astype(float)
    wanted = []
    parts = (fractions(part) for part in (error, absolute, size))
    for m, e, a, s in zip(count.tolist(), *parts, strict=True):
        noise = (m - 1) * u / (1 - int(m - 1) * u) * a + int(m - 1) * 4 * tiny if m > 2 else 0
        wanted.append(e + (u * (s + e) + 4 * tiny if m == 2 else Fraction(noise)))
    assert_above(steps._summed(Upper(error), Upper(absolute), count, Upper(size)), wanted)


@pytest.mark.parametrize("name", FORMATS)
def test_half_the_largest_number_does_not_fit(name: str) -> None:
    steps, half = analysis(name), float(FORMATS[name].largest) / 2
    steps.fits(Upper([0.0, np.nextafter(half, 0)]))
    for bad in (half, inf, np.nan):
        with pytest.raises(OverflowsError, match=name):
            steps.fits(Upper([0.0, bad]))


def test_a_weight_counts_as_flushed_below_the_smallest_normal_number() -> None:
    for name, format in FORMATS.items():
        normal = Fraction(2) ** format.low
        find = analysis(name).weight
        assert find(normal)[:2] == (above(normal), 0.0)
        little = normal / (2 if format.flushes else 2**format.precision)
        assert find(little)[1] == above(little)
        third = Fraction(1, 3)
        stored = format.round(third)
        assert stored is not None
        assert find(third)[:2] == (above(stored), above(stored - third))
        with pytest.raises(OverflowsError):
            find(2 * format.largest)
    powers = [
        analysis("float32").weight(Fraction(v)) for v in (-4, 3, Fraction(1, 8), Fraction(3, 8))
    ]
    assert [exact for _, _, exact in powers] == [True, False, True, False]


def test_only_exact_constants_of_at_least_one_are_units() -> None:
    """Products with ±2^k are exact; those with ½ may still underflow."""
    tiny = Fraction(2) ** -126
    values = [Fraction(v) for v in (1, 2, 3, Fraction(1, 2), tiny / 2, Fraction(1, 3), tiny)]
    constant = {(0, j + 1): value for j, value in enumerate(values)}
    blueprint = hand_made({(0, 0): 1}, 1, 1, 8, constant, [], {(0, 0): 1})
    steps = Analysis(run_symbolic(blueprint, Fraction(1)), FORMATS["float32"])
    stream = steps.embedding()
    assert stream.unit[0].tolist() == [False, True, True, False, False, False, False, False]
    assert stream.safe[0].tolist() == [False, True, True, True, True, False, False, True]
    taken = steps.entries(steps.run.tokens, Upper.zeros((1, 8)))
    assert taken.safe[0].tolist() == stream.safe[0].tolist()
    wrong = steps.entries(steps.run.tokens, Upper(np.full((1, 8), 1e-30)))
    assert not wrong.unit.any()
    assert not wrong.safe.any()


@pytest.mark.parametrize(
    ("size", "error", "fits"),
    [(20_000, 1, True), (40_000, 0, False), (1, 40_000, False), (20_000, 20_000, False)],
)
def test_a_value_and_its_error_fit_together(size: int, error: int, fits: bool) -> None:
    """Half the largest number of float16 is 32752."""
    steps = Analysis(run_symbolic(LINE, Fraction(size)), FORMATS["float16"])
    if fits:
        steps.entries(steps.run.tokens, Upper([[float(error)]]))
    else:
        with pytest.raises(OverflowsError, match="values on the domain"):
            steps.entries(steps.run.tokens, Upper([[float(error)]]))


def test_coordinates_far_out_must_fit_though_they_cancel() -> None:
    """t = F·x − F·c is at most F, but F·c and F·x are partial sums."""
    for feature, fits in ((16, True), (17, False)):
        centre, half = Fraction(1000), Fraction(1)
        constant = {(0, 0): -feature * centre}
        blueprint = hand_made({(0, 0): feature}, 1, 1, 1, constant, [], {(0, 0): 1})
        domain = Box((centre,), (half,))
        run = run_symbolic(replace(blueprint, domain=domain), domain)
        assert (rounding_bound(run, [], FORMATS["float16"]).value is not None) == fits


@pytest.mark.parametrize("sign", [-1, 1])
def test_an_activation_is_shut_or_open_only_if_the_error_cannot_change_that(sign: int) -> None:
    """A unit sign·(x + 2) on |x| ≤ 1 comes within 1 of zero; below 1 is the float64 before it."""
    line = {"w1": {(0, 0): sign}, "b1": {(0, 0): 2 * sign}, "w2": {(0, 0): 1}}
    for activation in (RELU, IDENTITY):
        block = attention_block(1, [], units=1, activation=activation, **line)  # type: ignore[arg-type]
        blueprint = hand_made({(0, 0): 1}, 1, 1, 1, {}, [block], {(0, 0): 1})
        steps = Analysis(run_symbolic(blueprint, Fraction(1)), FORMATS["float64"])
        layer, made = block.feed_forward, steps.run.blocks[0]
        edge = below(Fraction(1))
        for error, certain in ((edge, False), (float(np.nextafter(edge, 0)), True)):
            found = float(steps._activate(layer, made, Upper([[error]]))[0, 0])
            follows = bool(steps._follows(layer, made, Upper([[error]]))[0, 0])
            if activation == RELU:
                assert found == (0 if certain and sign < 0 else error)
                assert follows == (certain and sign > 0)
            else:
                assert found == error
                assert follows


def test_sums_of_so_many_terms_that_no_digit_is_left_have_no_bound() -> None:
    """With 8 digits that takes 128 additions one after the other, not by a tree; with 2 digits 2."""
    tokens, never = 129, np.zeros((129, 1), bool)
    stream = Entries(Upper(np.ones((tokens, 1))), Upper.zeros((tokens, 1)), never, never)
    for length, name in ((128, "bfloat16"), (129, "bfloat16"), (129, "float16")):
        beta = Matrix.of(tokens, 1, {(i, 0): 1 for i in range(length)})
        found = analysis(name).readout(Readout(beta, Fraction(0)), stream)
        assert found.value is not None
        assert found.reason == ""
    steps = Analysis(run_symbolic(LINE, Fraction(1)), FloatFormat("coarse", 2, -30, 30))
    with pytest.raises(OverflowsError, match="129 terms leave no digit of coarse"):
        steps.readout(Readout(beta, Fraction(0)), stream)


def test_the_worst_of_several_outputs_is_theirs() -> None:
    first, second = RoundingBound(1.0), RoundingBound(2.0)
    assert RoundingBound.worst([first, second]) == second
    none = RoundingBound(None, "why")
    assert RoundingBound.worst([first, none, second]) == none


DOMAINS: list[Domain] = [
    Ball(Fraction(7, 3)),
    Ball(Fraction(7, 3), (Fraction(1, 3), Fraction(-5), Fraction(2, 7))),
    Box((Fraction(1, 3), Fraction(-5), Fraction(0)), (Fraction(1, 7), Fraction(3), Fraction(2))),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_sums_of_coordinates_are_bounded_on_the_domain(domain: Domain) -> None:
    """Σ w_j|x_j| is at most Σ w_j|c_j| and, of x − c, ‖w‖R in a ball and Σ w_j h_j in a box."""
    for _ in range(200):
        weights = numbers(3)
        w = fractions(weights)
        if isinstance(domain, Ball):
            square = sum(v * v for v in w) * domain.radius**2
            scale = 2**240
            around = Fraction(isqrt(int(square * scale)), isqrt(scale))
        else:
            around = sum((v * domain.extent(j) for j, v in enumerate(w)), Fraction(0))
        moved = sum((v * abs(domain.offset(j)) for j, v in enumerate(w)), Fraction(0))
        columns, given = [0, 1, 2], Upper(weights)
        centred = CoordinateSizes(domain, centred=True).absolute(columns, given)
        assert_above(centred, [around])
        assert_above(CoordinateSizes(domain).absolute(columns, given), [around + moved])
    assert not CoordinateSizes(domain).absolute([], Upper([])).nonzero


def test_below_is_below() -> None:
    for value in map(Fraction, numbers(50).tolist()):
        assert Fraction(below(value)) < value < Fraction(above(value))


@pytest.mark.parametrize("token", [0, 1])
@pytest.mark.parametrize("name", FORMATS)
def test_a_margin_that_the_errors_of_scores_use_up_is_no_margin(name: str, token: int) -> None:
    """Errors of the score with itself and of that with another token count, for every token."""
    places = {(0, 1): 1, (1, 2): 1, (0, 3): 1, (1, 3): 1}
    query = {(0, 1): 3, (1, 2): 3, (2, 3): 5}
    key = {(0, 1): 5, (1, 2): 5, (2, 3): 7}
    block = attention_block(4, [(3, query, key, {(0, 3): 1})])
    blueprint = hand_made({(0, 0): 1, (1, 0): 1}, 2, 1, 4, places, [block], {(0, 0): 1})
    run = run_symbolic(blueprint, Fraction(1))
    steps, ((head,),) = Analysis(run, FORMATS[name]), run.folding.heads
    stream, made = steps.embedding(), run.blocks[0].heads[0]
    own, other = steps.scores(
        steps.entries(made.queries, steps.linear(head.query, stream), head.columns),
        steps.entries(made.keys, steps.linear(head.key, stream), head.columns),
        head.columns.private,
    )
    assert own.nonzero.all()
    assert other.nonzero.all()
    for factor, holds in ((1 - 1e-9, False), (1 + 1e-9, True)):
        margin = np.full(2, 100.0)
        margin[token] = float((own + other)[token]) * factor
        assert (rounding_bound(run, [[margin]], FORMATS[name]).value is not None) == holds


class Paper:
    """The standard model in rationals. In float16 no term of it is lost in another."""

    def __init__(self) -> None:
        self.u, self.tiny = (Fraction(v) for v in (HALF.unit, HALF.tiny))

    def gamma(self, k: int) -> Fraction:
        return k * self.u / (1 - k * self.u)

    def product(self, product: Fraction, exact: bool, operands: Fraction, safe: bool) -> Fraction:
        if product == 0 or (exact and safe):
            return Fraction(0)
        return (0 if exact else self.u * product) + 2 * self.tiny * (1 + operands)

    def weighted(
        self, product: Fraction, weight: Fraction, exact: bool, unit: bool, safe: bool
    ) -> Fraction:
        return self.product(product, exact or unit, weight, unit or (safe and weight >= 1))

    def sum(self, count: int, absolute: Fraction) -> Fraction:
        additions = max(count - 1, 0)
        return self.gamma(additions) * absolute + additions * 4 * self.tiny

    def summed(self, error: Fraction, absolute: Fraction, count: int, size: Fraction) -> Fraction:
        if count == 2:
            return error + self.u * (size + error) + 4 * self.tiny
        return error + (self.sum(count, absolute) if count > 2 else 0)


HALF = FORMATS["float16"]
PAPER = Paper()
CLOSE = Fraction(1, 10**9)
Table = list[list[Fraction]]


def table(values: Upper) -> Table:
    return [[Fraction(value) for value in row] for row in values.values.tolist()]


def tables(entries: Entries) -> tuple[Table, Table, Table]:
    """Sizes, errors and what is computed."""
    size, error = table(entries.size), table(entries.error)
    both = [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(size, error, strict=True)]
    return size, error, both


def some_entries(n: int, width: int, seed: int) -> Entries:
    """Entries of which some are zero, some are constants, and all else counts."""
    rng = np.random.default_rng(seed)
    size, error = rng.uniform(1, 2, (2, n, width)) * (rng.uniform(size=(2, n, width)) < 0.85)
    unit, safe = rng.uniform(size=(2, n, width)) < 0.3
    return Entries(Upper(size), Upper(error * 2.0**-7), unit, safe)


WEIGHTS = [Fraction(v) for v in ("1/3", "-4", "5/7", "1/8", "1", "-9/7", "3")]


def weight_of(steps: Analysis, value: Fraction) -> tuple[Fraction, Fraction, bool]:
    size, change, exact = steps.weight(value)
    return Fraction(size), Fraction(change), exact


@pytest.mark.parametrize("seed", range(8))
def test_a_linear_map_errs_by_its_formula(seed: int) -> None:
    """Rows of none, one and several entries, with a bias and without."""
    steps, stream = analysis("float16"), some_entries(4, 5, seed)
    rng = np.random.default_rng(seed)
    lengths = [0, 1, 1, 3, 3, 5, 0]
    places = {
        (r, int(c)): WEIGHTS[int(rng.integers(len(WEIGHTS)))]
        for r, length in enumerate(lengths)
        for c in rng.choice(5, length, replace=False)
    }
    biases = {0: Fraction(1, 3), 2: Fraction(5, 7), 4: Fraction(-2)}
    matrix = Matrix.of(len(lengths), 5, places)
    extra = Matrix.of(len(lengths), 1, {(r, 0): v for r, v in biases.items()})
    size, error, computed = tables(stream)
    for given in (biases, {}):
        wanted = []
        for i, r in product(range(4), range(len(lengths))):
            bias, own, _ = weight_of(steps, given.get(r, Fraction(0)))
            absolute, count = bias, int(bias > 0)
            for c, value in matrix.by_row.get(r, []):
                weight, change, exact = weight_of(steps, value)
                term = computed[i][c] * weight
                masks = bool(stream.unit[i, c]), bool(stream.safe[i, c])
                own += error[i][c] * weight + size[i][c] * change
                own += PAPER.weighted(term, weight, exact, *masks)
                absolute, count = absolute + term, count + (term > 0)
            wanted.append(own + PAPER.sum(count, absolute))
        folded = FoldedMatrix.plain(matrix, given)
        assert_above(steps.linear(folded, stream, extra if given else None), wanted, CLOSE)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("private", [set(), {1}])
def test_scores_err_by_their_formula(seed: int, private: set[int]) -> None:
    """A row that one token alone uses counts for its own score only, and so do folded ones."""
    steps, n, rows = analysis("float16"), 4, 4
    queries, keys = some_entries(n, rows, seed), some_entries(n, rows, seed + 100)
    for entries in (queries, keys):
        for part in (entries.size, entries.error):
            part[1:, 3] = 0  # a position
    q, k = tables(queries), tables(keys)
    top, slip = ([max(row[r] for row in k[part]) for r in range(rows)] for part in (2, 1))
    mine, others = [], []
    for i in range(n):
        own = absolute = other = across = Fraction(0)
        count = met = 0
        for r in range(rows):
            (size, error, both), (_, wrong, seen) = ([part[i][r] for part in t] for t in (q, k))
            exact = bool(queries.unit[i, r] or keys.unit[i, r])
            safe = bool(queries.safe[i, r] and keys.safe[i, r])
            own += error * seen + size * wrong
            own += PAPER.product(both * seen, exact, both + seen, safe)
            absolute, count = absolute + both * seen, count + (both * seen > 0)
            if r < 3 and r not in private:
                other += error * top[r] + size * slip[r]
                other += PAPER.product(both * top[r], False, both + top[r], False)
                across, met = across + both * top[r], met + (both * top[r] > 0)
        mine.append(own + PAPER.sum(count, absolute))
        others.append(other + PAPER.sum(met, across))
    found = steps.scores(queries, keys, np.array([r in private for r in range(rows)]))
    assert_above(found[0], mine, CLOSE)
    assert_above(found[1], others, CLOSE)


@pytest.mark.parametrize("bias", [Fraction(0), Fraction(9, 7), Fraction(900, 7)])
@pytest.mark.parametrize("most", [0, 2, 99])
@pytest.mark.parametrize(("tokens", "width"), [(9, 5), (4, 4), (2, 1), (1, 1), (1, 2)])
def test_an_output_errs_by_its_formula(tokens: int, width: int, most: int, bias: Fraction) -> None:
    """A tree, then the bias, or as many additions as there are terms where these are fewer."""
    steps, stream = analysis("float16"), some_entries(tokens, width, 5)
    steps.width = width
    size, error, computed = tables(stream)
    places = list(product(range(tokens), range(width)))[:most]
    beta = {(i, c): WEIGHTS[(3 * i + c) % len(WEIGHTS)] for i, c in places}
    own = absolute = Fraction(0)
    terms = 0
    for (i, c), value in beta.items():
        weight, change, exact = weight_of(steps, value)
        term = weight * computed[i][c]
        masks = bool(stream.unit[i, c]), bool(stream.safe[i, c])
        own += weight * error[i][c] + change * size[i][c]
        own += PAPER.weighted(term, weight, exact, *masks)
        absolute, terms = absolute + term, terms + (term > 0)
    constant, wrong, _ = weight_of(steps, bias)
    u, flush = PAPER.u, 4 * PAPER.tiny
    depth = sum(next(k for k in range(9) if 2**k >= m) for m in (tokens, width))
    inner = own + PAPER.gamma(min(depth, max(terms - 1, 0))) * absolute + terms * flush
    last = u * (absolute + inner + constant) + flush if bias and terms else 0
    executed = inner + last + wrong
    others = max(terms - 1, 0) + (1 if bias and terms else 0)
    any_order = own + PAPER.gamma(others) * (absolute + constant) + terms * flush + wrong
    found = steps.readout(Readout(Matrix.of(tokens, width, beta), bias), stream)
    assert_above(np.array([found.value]), [min(executed, any_order)], CLOSE)


def test_the_errors_of_a_layer_that_follows_its_input_are_carried_as_by_a_matrix() -> None:
    """|I + W_2 D W_1| times the errors, D by token."""
    w1 = Matrix.of(3, 3, {(0, 0): 1, (0, 1): Fraction(1, 3), (1, 1): -2, (2, 2): 5})
    w2 = Matrix.of(3, 3, {(0, 0): Fraction(-3, 2), (0, 2): 1, (1, 1): Fraction(1, 2), (1, 0): 1})
    layer = attention_block(3, [], w1=w1.entries, w2=w2.entries, units=3).feed_forward
    follows = np.array(list(product((False, True), repeat=3)))
    error = Upper(rng.uniform(1, 2, (8, 3)))
    wanted = []
    for i, row in enumerate(table(error)):
        for r in range(3):
            entries = [Fraction(int(r == c)) for c in range(3)]
            for c, unit in product(range(3), repeat=2):
                entries[c] += w2[r, unit] * w1[unit, c] * int(follows[i, unit])
            wanted.append(sum((abs(e) * v for e, v in zip(entries, row, strict=True)), Fraction(0)))
    assert_above(_carried(layer, follows, error), wanted)


@pytest.mark.parametrize("domain", DOMAINS[2:] + DOMAINS[:2], ids=str)
def test_features_err_by_their_formula(domain: Domain) -> None:
    """Several weights, with a constant and without; one; a power of two; a constant alone."""
    third, half = Fraction(1, 3), Fraction(1, 2)
    features = [
        [third, Fraction(5, 7), 3],
        [third, 2],
        [half, 2, 4],
        [half, 2],
        [third],
        [half],
        [],
    ]
    places = {(i, j): Fraction(v) for i, row in enumerate(features) for j, v in enumerate(row)}
    constants = {(0, 0): third, (2, 0): Fraction(3), (6, 0): third, (1, 1): third, (4, 0): half}
    constants[3, 0] = Fraction(2) ** -40  # stored as zero
    blueprint = replace(hand_made(places, 7, 3, 2, constants, [], {(0, 0): 1}), domain=domain)
    steps = Analysis(run_symbolic(blueprint, domain), HALF)
    sizes, wanted = CoordinateSizes(domain), []
    for i, row in enumerate(features):
        weights, changes, exact = zip(
            *(weight_of(steps, Fraction(v)) for v in row or [0]), strict=True
        )
        constant, own, _ = weight_of(steps, constants.get((i, 0), Fraction(0)))
        if row:
            parts = (Upper([float(w) for w in part]) for part in (weights, changes))
            absolute, moved = (Fraction(float(sizes.absolute(range(len(row)), p))) for p in parts)
            count = len(row) + (constant > 0) + (not all(exact))
            own += moved + PAPER.sum(count, absolute + constant)
            own += 2 * PAPER.tiny * sum(1 + w for w in weights)
        wanted += [own, weight_of(steps, constants.get((i, 1), Fraction(0)))[1]]
    assert_above(steps.embedding().error, wanted, CLOSE)


def two_tokens() -> tuple[Blueprint, Entries]:
    """Two heads and a layer over two tokens, and errors of the stream that reaches them."""
    third = Fraction(1, 3)
    places = {(0, 1): 1, (1, 2): 1, (0, 3): 1, (1, 3): 1, (0, 4): third}
    heads = []
    for scale in (Fraction(3), Fraction(4)):
        query = {(0, 1): scale, (1, 2): scale, (2, 3): third / 64}
        key = {(0, 1): third, (1, 2): third, (2, 0): third / 64}
        value = {(0, 0): scale / 7, (0, 3): 1, (4, 3): 1, (5, 0): third, (5, 4): 1}
        heads.append((3, query, key, value))
    layer = {
        "w1": {(0, 0): third, (1, 0): 1, (1, 3): 8, (2, 4): 1, (3, 3): -third},
        "b1": {(1, 0): 9, (2, 0): -third, (3, 0): -1},
        "w2": {(0, 0): third, (0, 1): Fraction(1, 7), (4, 2): 2, (5, 1): 1, (5, 3): 1},
        "b2": {(0, 0): third, (3, 0): 1, (2, 0): third},
    }
    block = attention_block(6, heads, units=4, **layer)  # type: ignore[arg-type]
    blueprint = hand_made({(0, 0): 1, (1, 0): third}, 2, 1, 6, places, [block], {(0, 0): 1})
    steps = Analysis(run_symbolic(blueprint, Fraction(1)), HALF)
    stream = steps.embedding()
    wrong = rng.uniform(1, 2, (2, 6)) * stream.size.nonzero * 2.0**-12
    wrong[:, [1, 2, 3]] = 0
    return blueprint, steps.entries(steps.run.tokens, Upper(wrong))


def test_attention_errs_by_its_formula() -> None:
    """Each head adds score·value: errors of either, and of the product, and of the sum."""
    blueprint, stream = two_tokens()
    steps = Analysis(run_symbolic(blueprint, Fraction(1)), HALF)
    block, (heads,) = steps.run.blocks[0], steps.folding.heads
    _, error, absolute = tables(stream)
    count = [[int(value > 0) for value in row] for row in absolute]
    units = 0
    for head, made in zip(heads, block.heads, strict=True):
        queries = steps.entries(made.queries, steps.linear(head.query, stream), head.columns)
        keys = steps.entries(made.keys, steps.linear(head.key, stream), head.columns)
        values = steps.entries(made.values, steps.linear(head.value, stream))
        slips = fractions(steps.scores(queries, keys, head.columns.private)[0])
        scores = fractions(steps.run.sizes.column(made.weights))
        _, wrong, seen = tables(values)
        for i, c in product(range(2), range(6)):
            slip, score, unit = slips[i], scores[i], bool(values.unit[i, c])
            term = (score + slip) * seen[i][c]
            error[i][c] += slip * seen[i][c] + score * wrong[i][c]
            error[i][c] += PAPER.product(term, unit, score + slip + seen[i][c], False)
            absolute[i][c] += term
            count[i][c] += term > 0
            units += unit and term > 0
    assert units
    assert {0, 1, 2, 3} <= {m for row in count for m in row}
    size = table(steps.run.sizes.table(block.attended, steps.folding.columns))
    wanted = [
        PAPER.summed(error[i][c], absolute[i][c], count[i][c], size[i][c])
        for i, c in product(range(2), range(6))
    ]
    margins = [np.full(2, 1e9)] * 2
    assert_above(steps.attention(0, block, stream, margins).error, wanted, CLOSE)


@pytest.mark.parametrize("activation", [RELU, IDENTITY])
def test_a_layer_errs_by_its_formula(activation: PiecewiseLinear) -> None:
    """Units that follow their input pass on its errors by a matrix, others as they are."""
    blueprint, _ = two_tokens()
    (block,) = blueprint.blocks
    layer = replace(block.feed_forward, activation=activation)
    blueprint = replace(blueprint, blocks=(replace(block, feed_forward=layer),))
    steps = Analysis(run_symbolic(blueprint, Fraction(1)), HALF)
    made = steps.run.blocks[0]
    wrong = rng.uniform(1, 2, (2, 6)) * 2.0**-9
    wrong[:, 3], wrong[0, 0] = 0, 0.25
    stream = steps.entries(made.attended, Upper(wrong))
    inwards, outwards = FoldedMatrix.plain(layer.w1, layer.b1.by_row), FoldedMatrix.plain(layer.w2)
    raw = steps.linear(inwards, stream, layer.b1)
    hidden = steps.entries(made.hidden, steps._activate(layer, made, raw), Columns.plain(4))
    follows = steps._follows(layer, made, raw)
    if activation == RELU:
        assert follows.tolist() == [[False, True, True, False], [True, True, True, False]]
        assert not hidden.error.nonzero[:, 3].any()
        assert raw.nonzero[:, 3].all()
    arising = table(steps.linear(inwards, stream.clean, layer.b1))
    passed = table(hidden.error)
    own = [[arising[i][j] if follows[i, j] else passed[i][j] for j in range(4)] for i in range(2)]
    given = Upper([[float(value) for value in row] for row in own])
    after = Entries(hidden.computed, given, hidden.unit, hidden.safe)
    change = table(steps.linear(outwards, after))
    error = table(_carried(layer, follows, stream.error))
    absolute, inner = tables(stream)[2], tables(hidden)[2]
    size, wanted, counts = table(steps.run.sizes.table(made.output, Columns.plain(6))), [], set()
    for i, c in product(range(2), range(6)):
        bias, rounded, _ = weight_of(steps, layer.b2[c, 0])
        terms = [Fraction(steps.weight(w)[0]) * inner[i][j] for j, w in layer.w2.by_row.get(c, [])]
        count = sum(term > 0 for term in [absolute[i][c], *terms, bias])
        absolute[i][c] += sum(terms, bias)
        error[i][c] += change[i][c] + rounded
        wanted.append(PAPER.summed(error[i][c], absolute[i][c], count, size[i][c]))
        counts.add(count)
    assert {1, 2, 4} <= counts
    assert_above(steps.feed_forward(0, made, stream).error, wanted, CLOSE)
