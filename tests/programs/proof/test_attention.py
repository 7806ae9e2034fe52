"""Single steps of the proof of registers that heads write, against formulas in exact arithmetic."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from exactformer import rasp
from exactformer.core.formats import EXP_ULPS, FORMATS
from exactformer.core.layers import Rule, Selection
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError
from exactformer.programs.blueprint import ProjectedHead, Register
from exactformer.programs.proof.arithmetic import SMALLEST, UNKNOWN, Arithmetic
from exactformer.programs.proof.attention import _total, _Written, prove_head
from exactformer.programs.proof.cases import cases_of
from exactformer.programs.proof.scores import HeadScores, Scores
from exactformer.programs.proof.state import Read, Reading, State
from tests.examples import examples
from tests.programs.proof.steps import (
    arithmetic_of,
    drawn,
    exact,
    hold,
    holds,
    made_state,
    nearly,
)

COUNT, TOKENS = 4, 3
BELOW = rasp.Select(rasp.tokens, rasp.tokens, rasp.Comparison.LT)
MEAN = rasp.Aggregate(BELOW, rasp.tokens, 0)
MOVED = rasp.Aggregate(
    rasp.Select(rasp.indices, rasp.indices, lambda k, q: k == q + 1), rasp.tokens, 3
)
ONLY = rasp.Aggregate(rasp.Select(rasp.tokens, rasp.tokens, lambda k, q: k == 1), rasp.tokens, 1)
WIDTH = rasp.SelectorWidth(BELOW)
SOFT = Scores(0.01, 9.0, -5.0, -4.0, 6.0)
HARD = Scores(0.0, 9.0, -5.0, -4.0, 6.0)


def rational(value: Any) -> Fraction:
    """Return a number of mpmath as it is."""
    sign, mantissa, exponent, _ = mp.mpf(value)._mpf_
    return (-1) ** sign * Fraction(int(mantissa)) * Fraction(2) ** exponent


@pytest.fixture(autouse=True)
def digits() -> Any:
    with mp.workdps(60), np.errstate(all="ignore"):
        yield


def made(
    expression: rasp.SOp,
    name: str | None = "float32",
    *,
    share: float = 0.0,
    seed: int = 0,
    radius: float = 0.125,
    term: int | None = None,
    head: ProjectedHead | None = None,
    **options: Any,
) -> _Written:
    """Return a register that a head writes, with weights that are drawn."""
    program = made_state(expression, [], Arithmetic(), **options)
    nodes, output = program.facts.nodes, len(program.facts.nodes) - 1
    tokens = next(k for k, node in enumerate(nodes) if type(node).__name__ == "TokensNode")
    registers = [(tokens, None, 2), (None, None, 1), (output, term, 2)]
    state = made_state(expression, registers, arithmetic_of(name, share), seed=seed, **options)
    hold(state, (0, 1), seed, radius)
    rng = np.random.default_rng(seed)
    reads = [Matrix.of(3, 5, drawn(rng, 3, 3).entries) for _ in range(3)]
    head = head or ProjectedHead(*reads, drawn(rng, 5, 3))
    return _Written(state, head, 2)


def with_scores(written: _Written, scores: Scores, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(HeadScores, "scores", lambda *_: scores)
    return written.prove()


def gamma(name: str | None, k: Fraction | int) -> Fraction:
    if name is None:
        return Fraction(0)
    ku = k * Fraction(FORMATS[name].unit)
    return ku / (1 - ku)


def weight_roundings(name: str, spread: bool, mixture: bool, count: int = COUNT) -> int:
    """An exponential of 2·ulps and eight more, twice; sums over keys for norm, mixture, rescaling."""
    return 2 * (2 * 2 * EXP_ULPS[name] + 8) + count * (1 + mixture + spread)


# Values


@pytest.mark.parametrize("seed", range(3))
def test_errors_of_values_and_outputs_reach_what_a_head_writes(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(O + o)(V + v) − OV is at most |O|v + o(|V| + v), entry by entry, and nothing without a path."""
    written = made(MEAN, None, share=1 / 16, seed=seed)
    read = spied(written, monkeypatch)
    written._values()
    output, value = (
        exact(written.arithmetic.weights(m)[0]) for m in (written.head.output, written.head.value)
    )
    output = output[3:]
    error = abs(output) @ abs(value) / 16 * 2 + abs(output) @ abs(value) / 256
    nearly(read[0][0], output @ value)
    nearly(read[0][1], error)
    nearly(read[1][0], abs(output) @ abs(value))
    assert not read[1][1].any()


def spied(written: _Written, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list of the weights and errors that will be read."""
    seen: list[Any] = []
    read = State.read_weights

    def reading(state: State, weights: Any, errors: Any) -> Reading:
        seen.append((weights, errors))
        return read(state, weights, errors)

    monkeypatch.setattr(State, "read_weights", reading)
    return seen


def test_the_product_of_outputs_and_values_is_rounded_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    third = {(k, k): Fraction(1, 3) for k in range(3)}
    head = ProjectedHead(
        Matrix.of(1, 5, {}),
        Matrix.of(1, 5, {}),
        Matrix.of(3, 5, third),
        Matrix.of(5, 3, {(3, 0): Fraction(1, 7), (4, 2): 1}),
    )
    written = made(MEAN, head=head)
    read = spied(written, monkeypatch)
    written._values()
    errors = read[0][1]
    holds(
        errors[0, 0], 3 * Fraction(float(Fraction(1, 3))) * Fraction(float(Fraction(1, 7))) / 2**53
    )
    assert errors[1, 2] > 0
    assert not errors[0, 1:].any()
    assert not errors[1, :2].any()


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("beginning", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_values_lose_what_their_roundings_are_worth(name: str, beginning: bool, seed: int) -> None:
    """As many as the longest row of V has entries, the columns of O, and three."""
    written = made(MEAN, name, share=1 / 16, seed=seed, beginning=beginning)
    if seed == 2:  # one row has all entries
        row = Matrix.of(3, 5, {(1, k): Fraction(k + 1, 2) for k in range(3)})
        written.head = replace(written.head, value=row)
    count = TOKENS + beginning
    reading, lost, bits = written._values()
    output, value = (
        exact(written.arithmetic.weights(m)[0]) for m in (written.head.output, written.head.value)
    )
    output = output[3:]
    roundings = int((value != 0).sum(1).max()) + 3 + 3
    size = exact(written._largest(written.state.read_weights(*floats(abs(output) @ abs(value)))))
    tiny = roundings * Fraction(written.arithmetic.tiny) * (1 + abs(output).sum(1))
    holds(lost, gamma(name, roundings) * size + tiny)
    nearly(written.underflow, (2 * count + 3) * count * tiny)
    assert (bits == UNKNOWN).all()
    holds(
        written._largest(reading),
        sum(exact(part.size).max(0) for part in reading.parts)
        if reading.beginning is None
        else np.maximum(
            sum(exact(part.size).max(0) for part in reading.parts),
            exact(reading.beginning.size).max(0),
        ),
    )


def floats(array: Any) -> tuple[Any, Any]:
    values = np.asarray(array, dtype=np.float64)
    return values, np.zeros(values.shape)


@pytest.mark.parametrize("seed", range(8))
def test_the_largest_value_is_that_of_tokens_or_of_the_beginning(seed: int) -> None:
    rng = np.random.default_rng(seed)
    own = read(None, rng.random((1, 2)) * (3 if seed % 2 else 0.1))
    parts = (read(None, rng.random((1, 2))), read((0, None), rng.random((3, 2))))
    reading = Reading(parts, own, np.ones(2))
    sums = exact(parts[0].size[0]) + exact(parts[1].size).max(0)
    holds(_Written._largest(reading), np.maximum(sums, exact(own.size[0])))
    holds(_Written._largest(replace(reading, beginning=None)), sums)


def read(root: Any, sizes: Any, radius: float = 0.0) -> Read:
    sizes = np.array(sizes)
    radii = np.full(sizes.shape, radius)
    return Read(root, -sizes, radii, sizes, np.zeros(sizes.shape[1], np.int64))


@pytest.mark.parametrize("seed", range(6))
def test_values_are_apart_by_at_most_twice_their_sizes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [read((k, None), rng.random((3, 2)), 0.3) for k in range(2)]
    own = read(None, rng.random((1, 2)), 0.7)
    reading = Reading(tuple(parts), own, np.ones(2))
    sizes = sum((exact(part.size) + exact(part.radius)).max(0) for part in parts)
    holds(_Written._range(replace(reading, beginning=None)), 2 * sizes)
    holds(_Written._range(reading), 2 * (sizes + exact(own.size[0]) + Fraction(0.7)))


def plain_head(output: Any, value: Any) -> ProjectedHead:
    none = Matrix.of(1, 5, {})
    return ProjectedHead(none, none, Matrix.of(3, 5, value), Matrix.of(5, 3, output))


EYE = {(0, 0): 1, (1, 1): 1}


def test_values_that_are_powers_of_two_of_exact_codes_are_exact() -> None:
    """Codes are multiples of 1/64 up to 2."""
    written = made(MEAN, radius=0, head=plain_head({(3, 0): -4, (4, 1): Fraction(1, 2)}, EYE))
    reading, lost, bits = written._values()
    assert not lost.any()
    assert bits.tolist() == reading.lowest.tolist()
    assert bits.min() >= -7


@pytest.mark.parametrize(
    ("output", "value"),
    [
        pytest.param({(3, 0): 3, (4, 1): 1}, EYE, id="not a power"),
        pytest.param({(3, 0): 1, (3, 1): 1, (4, 1): 1}, EYE, id="a sum"),
        pytest.param({(3, 0): 1, (4, 1): 1}, {(0, 0): Fraction(1, 3), (1, 1): 1}, id="long values"),
        pytest.param(
            {(3, 0): 1, (4, 1): 1}, {(0, 0): 2**17 + 1, (0, 1): 1, (1, 1): 1}, id="wide values"
        ),
    ],
)
def test_values_that_may_be_rounded_are_charged(output: Any, value: Any) -> None:
    written = made(MEAN, radius=0, head=plain_head(output, value))
    _, lost, bits = written._values()
    assert lost[0] > 0
    assert bits[0] == UNKNOWN
    assert lost[1] == 0
    assert bits[1] > UNKNOWN


def test_values_that_are_powers_of_two_too_small_for_the_format_are_charged() -> None:
    """Multiples of 1/64, times 2^−120, are below the normal numbers of float32."""
    small = {(3, 0): Fraction(1, 2**122), (4, 1): Fraction(1, 2**100)}
    _, lost, bits = made(MEAN, radius=0, head=plain_head(small, EYE))._values()
    assert lost[0] > 0
    assert bits[0] == UNKNOWN
    assert lost[1] == 0


def test_codes_that_are_not_exact_are_charged() -> None:
    written = made(MEAN, head=plain_head({(3, 0): 1, (4, 1): 1}, EYE))
    _, lost, bits = written._values()
    assert (lost > 0).all()
    assert (bits == UNKNOWN).all()


def test_sums_of_all_values_and_what_is_written_stay_in_range() -> None:
    """Four positions, codes up to two: 2^127 is passed at 2^124, and by the output after that."""
    top = Fraction(2) ** 121

    def values(output: Fraction, value: Fraction) -> None:
        made(MEAN, head=plain_head({(3, 0): output}, {(0, 0): value}))._values()

    values(Fraction(1), top)
    values(Fraction(2), top)
    with pytest.raises(CertificationError, match="a sum of values can overflow"):
        values(Fraction(1, 64), 2**5 * top)
    for output in (32, -32):
        with pytest.raises(CertificationError, match="what its head writes can overflow"):
            values(Fraction(output), top)


# Mixtures


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
@pytest.mark.parametrize("beginning", [True, False])
def test_mixtures_by_softmax_are_rounded_by_their_weights_and_sums(
    name: str, beginning: bool
) -> None:
    written = made(MEAN, name, beginning=beginning)
    written.underflow = np.array([0.0, 0.25])
    size = np.array([0.7, 1.3])
    count = TOKENS + beginning
    rounding = gamma(name, weight_roundings(name, True, True, count)) * exact(size)
    holds(written._mixing(size, np.zeros(2), one_value=False), rounding + exact(written.underflow))
    for spread in (False, True):
        for mixture in (False, True):
            k = weight_roundings(name, spread, mixture, count)
            holds(written._weight_rounding(mixture, spread), gamma(name, k))
    exactly = made(MEAN, None)
    assert not exactly._mixing(size, np.zeros(2), one_value=False).any()


@pytest.mark.parametrize("beginning", [True, False])
def test_mixtures_by_hard_maxima_are_sums_divided_once(beginning: bool) -> None:
    written = made(MEAN, "bfloat16", rule=Rule.HARD_MAX, beginning=beginning)
    count = TOKENS + beginning
    written.underflow = np.full(3, 0.25)
    room = 0.25
    size = np.array([200 / count, 256 / count, 300 / count])
    bits = np.zeros(3)
    sums = gamma("bfloat16", 2 * count + 3) * exact(size) + Fraction(room)
    once = gamma("bfloat16", 1) * exact(size) + Fraction(room)
    holds(written._mixing(size, bits, one_value=False), [once[0], *sums[1:]])
    equal = written._mixing(size, bits, one_value=True)
    assert equal[0] == 0
    holds(equal[1:], sums[1:])
    # With more positions than the format counts, the number of those that share is rounded itself.
    for tokens, fine in ((256 - beginning, True), (257 - beginning, False)):
        written.tokens = tokens
        assert (
            written._mixing(np.full(3, 0.99 * 2.0**-9), bits - 9, one_value=True) == 0
        ).all() == fine


def test_a_sum_that_fits_but_for_the_rounding_of_its_bound_is_charged() -> None:
    written = made(MEAN, "bfloat16", rule=Rule.HARD_MAX)
    written.underflow = np.zeros(1)
    assert written._mixing(np.array([64.0]), np.zeros(1), one_value=True) > 0
    assert written._mixing(np.array([63.9]), np.zeros(1), one_value=True) == 0


# Weights


rooms = st.floats(0.05, 40)


@given(st.lists(rooms, min_size=8, max_size=8))
@settings(max_examples=examples(10), deadline=None)
def test_a_leak_is_at_least_the_exponential_of_its_room(xs: list[float]) -> None:
    exactly, rounded = made_once(None), made_once("bfloat16")
    for room in [*xs, -800.0, -3.0]:
        capped = min(-room, 700.0)
        holds(exactly._leak(room), rational(mp.exp(capped)))
        smaller = min(-Fraction(room) * (1 - 8 * Fraction(FORMATS["bfloat16"].unit)), 700)
        bound = 2 * rational(mp.exp(mp.mpf(smaller.numerator) / smaller.denominator))
        nearly(rounded._leak(room), bound)


@pytest.mark.parametrize("name", [None, *FORMATS])
def test_a_leak_is_never_zero(name: str | None) -> None:
    """The exponential of −800 is none, and float64 has no number for it."""
    for room in (150.0, 800.0, 1e300, np.inf):
        assert made_once(name)._leak(room) == SMALLEST


_MADE: dict[str | None, _Written] = {}


def made_once(name: str | None) -> _Written:
    if name not in _MADE:
        _MADE[name] = made(MEAN, name)
    return _MADE[name]


@pytest.mark.parametrize("beginning", [True, False])
def test_weights_are_uniform_on_what_is_selected_up_to_leaks_and_spread(beginning: bool) -> None:
    """tokens − 1 others below by g − 2δ, the beginning below by β₁ + δ, and tanh(δ/2) in variation."""
    written = made(MEAN, None, beginning=beginning)
    for spread in (0.5, 0.01, 0.003, 0.3):
        for gap, highest in ((9.0, -4.0), (3.0, -8.0), (40.0, -40.0)):
            scores = Scores(spread, gap, -50.0, highest, 1.0)
            leaks = 2 * mp.exp(-(mp.mpf(gap) - 2 * mp.mpf(spread)))
            if beginning:
                leaks += mp.exp(mp.mpf(highest) + mp.mpf(spread))
            holds(written._selecting(scores, uniform=True), rational(leaks))
            holds(
                written._selecting(scores, uniform=False),
                rational(leaks + mp.tanh(mp.mpf(spread) / 2)),
            )


@given(st.data())
@settings(max_examples=examples(40), deadline=None)
def test_no_scores_weigh_otherwise_than_proven(data: st.DataObject) -> None:
    """Any mixture of values in [−1, 1] by softmax is as near to the mean of the selected as proven."""
    written = made_once(None)
    spread, gap = data.draw(st.sampled_from([0.0, 0.1, 0.5])), data.draw(st.floats(1.5, 6))
    scores = Scores(spread, gap, -9.0, -2.0, 1.0)
    selected = data.draw(st.integers(1, 3))
    ends = st.sampled_from([-1, 1])
    t = [mp.mpf(spread) * data.draw(ends) for _ in range(selected)]
    t += [mp.mpf(spread) - mp.mpf(gap) for _ in range(3 - selected)] + [mp.mpf(-2)]
    values = [data.draw(ends) for _ in t]
    weights = [mp.exp(x) for x in t]
    mixture = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
    mean = mp.mpf(sum(values[:selected])) / selected
    stray = 2 * (2 + 0)  # twice the sizes, of tokens and the beginning
    assert abs(mixture - mean) <= written._selecting(scores, uniform=False) * stray


@pytest.mark.parametrize("rule", [Rule.HARD_MAX, Rule.SOFTMAX])
def test_what_is_not_selected_must_score_lower(rule: Rule) -> None:
    written, alone = (made(MEAN, None, rule=rule, beginning=first) for first in (True, False))
    for gap, highest, spread in ((1.0, -2.0, 0.5), (5.0, -0.5, 0.5), (5.0, 1.0, 0.5)):
        with pytest.raises(CertificationError, match="above all others"):
            written._selecting(Scores(spread, gap, -9.0, highest, 1.0), uniform=True)
    alone._selecting(Scores(0.0, 5.0, -9.0, 1.0, 1.0), uniform=True)
    with pytest.raises(CertificationError, match="above all others"):
        alone._selecting(Scores(0.0, 0.0, -9.0, 1.0, 1.0), uniform=True)


def test_a_hard_maximum_selects_all_of_equal_scores_only() -> None:
    written = made(MEAN, None, rule=Rule.HARD_MAX)
    assert written._selecting(HARD, uniform=False) == 0
    assert written._selecting(SOFT, uniform=True) == 0
    with pytest.raises(CertificationError, match="exactly equal scores"):
        written._selecting(SOFT, uniform=False)
    widths = np.arange(3.0)
    assert not written._relative(HARD, 0.0, widths).any()
    with pytest.raises(CertificationError, match="exactly equal scores"):
        written._relative(HARD, 1e-30, widths)


@pytest.mark.parametrize(
    ("spread", "gap"), [(0.0, 7.0), (0.2, 7.0), (0.07, 7.0), (0.013, 7.0), (360.0, 400.0)]
)
def test_the_share_of_the_beginning_errs_by_spread_and_leak(spread: float, gap: float) -> None:
    """(e^2δ − 1)(1 + λ) + λ, with λ = (N − w)/(w + 1) of the leak of g − δ − δ'."""
    written, widths = made(MEAN, None), np.arange(4.0)
    own = 0.05
    scores = Scores(own, gap, -0.1, 0.1, 1.0)
    room = mp.mpf(gap) - mp.mpf(own) - mp.mpf(spread)
    leak = [mp.mpf(3 - w) / (w + 1) * mp.exp(min(-room, 700)) for w in range(4)]
    grown = mp.expm1(min(2 * mp.mpf(spread), 700))
    holds(written._relative(scores, spread, widths), [rational(grown * (1 + x) + x) for x in leak])


# The beginning token


@pytest.mark.parametrize("name", [None, "bfloat16"])
@pytest.mark.parametrize("rule", [Rule.HARD_MAX, Rule.SOFTMAX])
def test_the_beginning_token_keeps_what_it_has(name: str | None, rule: Rule) -> None:
    written = made(MEAN, name, rule=rule)
    written.underflow = np.full(2, 0.25)
    own = read(None, [[0.7, 0.3]], 0.25)
    reading = Reading((read((0, None), [[1.0, 0.5], [0.5, 1.0]], 0.125),), own, np.ones(2))
    lost, bits = np.array([0.0625, 0.03125]), np.full(2, UNKNOWN)
    for itself in (0.5, 3.0):
        scores = replace(SOFT, own=itself)
        found = written._kept(reading, scores, lost, bits)
        assert found is not None
        centre, radius = found
        assert (centre == own.centre[0]).all()
        size = exact(own.size[0]) + Fraction(1, 4) + exact(lost)
        formula = (
            Fraction(1, 4)
            + exact(lost)
            + exact(written._mixing(np.asarray(size, dtype=float), bits, True))
        )
        if rule is Rule.SOFTMAX:
            formula = formula + exact(written._range(reading)) * 3 * Fraction(written._leak(itself))
        nearly(radius, formula)
    assert written._kept(replace(reading, beginning=None), SOFT, lost, bits) is None
    with pytest.raises(CertificationError, match="attend to itself"):
        written._kept(reading, replace(SOFT, own=0.0), lost, bits)


# Aggregates


@pytest.mark.parametrize("rule", [Rule.HARD_MAX, Rule.SOFTMAX])
def test_the_default_is_what_the_beginning_token_has(rule: Rule) -> None:
    written = made(MEAN, None, rule=rule)
    node: Any = written.facts.nodes[-1]
    own = read(None, [[0.7, 0.3]], 0.25)
    reading = Reading((), own, np.ones(2))
    stray = np.array([1.5, 2.5])

    def code(values: Any, places: Any) -> Any:
        assert list(values) == [0]
        assert places.tolist() == [0]
        return np.array([[0.5, -0.25]]), np.ones(1, bool)

    scores = Scores(0.25, 9.0, -5.0, -4.0, 6.0)
    away = abs(exact(own.centre[0]) - exact([0.5, -0.25])) + Fraction(1, 4)
    if rule is Rule.SOFTMAX:
        away = away + exact(stray) * 3 * Fraction(written._leak(9 - 5 - 0.25))
    nearly(written._default(node, reading, code, scores, stray), away)
    for wrong, text in (
        (replace(scores, gap=5.25), "outweigh"),
        (replace(scores, lowest=-9.0), "outweigh"),
    ):
        with pytest.raises(CertificationError, match=text):
            written._default(node, reading, code, wrong, stray)
    with pytest.raises(CertificationError, match="no beginning token"):
        written._default(node, replace(reading, beginning=None), code, scores, stray)
    with pytest.raises(CertificationError, match="no code"):
        written._default(
            node, reading, lambda *_: (np.zeros((1, 2)), np.zeros(1, bool)), scores, stray
        )


def with_codes(written: _Written, codes: Any) -> None:
    """Let the register be meant to hold these codes: by value and, last, at the beginning."""
    values = len(codes) - 1
    steps = {
        (i, j): codes[i][j] - (codes[i - 1][j] if 0 < i < values else 0)
        for i in range(len(codes))
        for j in range(2)
    }
    register = replace(written.register, steps=Matrix.of(len(codes), 2, steps))
    written.register = register
    state = written.state
    state.blueprint = replace(state.blueprint, registers=(*state.blueprint.registers[:2], register))


@pytest.mark.parametrize("bent", [Fraction(0), Fraction(-1, 8)])
def test_codes_of_a_mean_are_a_line_and_what_they_are_off_it(bent: Fraction) -> None:
    """From the codes of the smallest and largest number; the rest is how far others are from it."""
    written = made(MEAN, None, vocabulary=(-5, 1, 3), max_length=2)
    universe = [Fraction(v) for v in written.facts.universe(written.register.node)]
    assert len(universe) > 3
    assert universe[0] == -5
    assert universe[-1] == 3
    codes = [[v / 2 - 1, -2 * v + bent * (k == 1)] for k, v in enumerate(universe)]
    with_codes(written, [*codes, [Fraction(-19), Fraction(-19)]])
    off = blurred(written) if bent else np.zeros((1, 2))
    code, nearness = written._code(written.register.node, 0, uniform=False)
    numbers = [-3, 0, 1, 2, 7]
    line, known = code(numbers, np.arange(5))
    assert known.all()
    assert np.abs(line - [[n / 2 - 1, -2 * n] for n in numbers]).max() < 1e-12
    again, _ = code(numbers, np.array([4, 4, 1]))
    assert (again == line[[4, 4, 1]]).all()
    slope, level, largest = np.array([0.5, 2.0]), np.array([1.0, 0.0]), 5.0
    # The largest code is the beginning token's.
    size = largest * slope + level + 19
    nearly(nearness, exact(off.max(0)) + exact(size) / 2**48 + np.array([0, -bent]))
    with pytest.raises(CertificationError, match="default is not a number"):
        code([1, "a"], np.zeros(1, np.int64))


def blurred(written: _Written) -> Any:
    """Let the codes that the register is meant to hold be known up to errors, and return these."""
    centre, _ = written.state.claimed(2)
    errors = np.random.default_rng(7).random(centre.shape) / 8
    written.state._claims[2] = centre, errors
    return errors


def test_a_mean_may_be_of_two_numbers() -> None:
    everything = rasp.Select(rasp.tokens, rasp.tokens, rasp.Comparison.TRUE)
    mean = made(rasp.Aggregate(everything, rasp.tokens), None, vocabulary=(0, 1), max_length=1)
    centre, _ = mean.state.claimed(2)
    code, _ = mean._code(mean.register.node, 0, uniform=False)
    assert (code([0, 1], np.arange(2))[0] == centre[:2]).all()


def test_codes_of_shared_values_are_looked_up() -> None:
    written = made(MOVED, None)
    blurred(written)
    centre, error = written.state.claimed(2)
    code, nearness = written._code(written.register.node, 0, uniform=True)
    wanted, known = code([3, 99, 0], np.array([0, 2, 1, 2]))
    assert known.tolist() == [True, True, False, True]
    assert (wanted[known] == centre[[2, 0, 0]]).all()
    assert (nearness == error.max(0)).all()


def test_means_are_of_different_numbers() -> None:
    one = made(
        rasp.Aggregate(rasp.Select(rasp.tokens, rasp.tokens, rasp.Comparison.TRUE), rasp.tokens),
        None,
        vocabulary=(2,),
    )
    with pytest.raises(CertificationError, match="not different numbers"):
        one._code(one.register.node, 0, uniform=False)
    texts = made(MOVED, None, vocabulary=("a", "b"))
    with pytest.raises(CertificationError, match="not different numbers"):
        texts._code(texts.register.node, 0, uniform=False)


@pytest.mark.parametrize("name", [None, "bfloat16"])
@pytest.mark.parametrize("expression", [MEAN, MOVED, ONLY], ids=["mean", "moved", "only"])
@pytest.mark.parametrize("default", [0.0, 9.0])
@pytest.mark.parametrize("beginning", [True, False])
def test_an_aggregate_errs_by_values_codes_weights_and_rounding(
    name: str | None,
    expression: rasp.SOp,
    default: float,
    beginning: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = made(expression, name, share=1 / 16, beginning=beginning)
    if not beginning:
        monkeypatch.setattr(type(written.facts), "may_be_empty", lambda *_: False)
    monkeypatch.setattr(_Written, "_default", lambda *_: np.array([0.0, default]))
    if expression is ONLY:  # what is never selected may be anywhere
        held = written.state.held[0]
        far = np.array([40.0, 1.0, 40.0, 1.0])[: len(held.centre), None]
        written.state.hold(0, held.centre * far, held.radius)
    blurred(written)
    uniform = expression is not MEAN
    node: Any = written.facts.nodes[-1]
    centre, radius = with_scores(written, SOFT, monkeypatch)
    claimed, error = written.state.claimed(2)
    assert (centre == claimed).all()
    reading, lost, bits = written._values()
    code, nearness = written._code(written.register.node, node.values, uniform)
    cases = cases_of(written.state, [part.root for part in reading.parts], node.values, None)
    value, away = reading.at(cases.columns, len(cases))
    wanted, known = code(written.facts.universe(node.values), cases.target)
    off = (abs(exact(value) - exact(wanted)) + exact(away))[known].max(0)
    stray = written._range(reading)
    if beginning:
        off = np.maximum(off, exact([0.0, default]))
    rounding = exact(written._mixing(written._largest(reading) + lost, bits, uniform))
    leaks = Fraction(written._selecting(SOFT, uniform)) * exact(stray)
    total = off + exact(lost) + exact(nearness) + leaks + rounding
    rows = len(centre) - beginning
    holds(radius[:rows], total + exact(error[:rows]))
    if beginning:
        kept = written._kept(reading, SOFT, lost, bits)
        assert kept is not None
        holds(
            radius[-1], abs(exact(centre[-1]) - exact(kept[0])) + exact(kept[1]) + exact(error[-1])
        )


# Widths


def width_of(name: str | None, rule: Rule, share: float = 1 / 16) -> _Written:
    """A width that is read at the beginning token: its register holds nothing elsewhere."""
    head = plain_head(
        {(3, 0): Fraction(3, 4), (4, 1): Fraction(-5, 8)}, {(0, 2): 1, (1, 2): Fraction(3, 2)}
    )
    written = made(WIDTH, name, term=0, rule=rule, share=share, head=head)
    written.state.hold(1, np.array([[0.0], [0.875]]), np.array([[0.0], [0.0625]]))
    return written


@pytest.mark.parametrize("name", [None, "bfloat16", "float16"])
@pytest.mark.parametrize(
    "scores",
    [
        Scores(0.25, 9.0, -0.0625, 0.125, 6.0),
        Scores(0.0, 9.0, -0.25, 0.125, 6.0),
        Scores(0.0, 9.0, -0.0625, 0.25, 6.0),
    ],
)
def test_a_width_is_the_share_of_the_beginning_token(
    name: str | None, scores: Scores, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = width_of(name, Rule.SOFTMAX)
    blurred(written)
    centre, radius = with_scores(written, scores, monkeypatch)
    check_width(written, scores, centre, radius, Fraction(1, 4))


@pytest.mark.parametrize("tiny", ["lowest", "highest"])
def test_a_spread_of_a_width_that_products_would_lose_is_raised(
    tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spreads: list[float] = []
    relative = _Written._relative

    def noted(self: _Written, scores: Scores, spread: float, widths: Any) -> Any:
        spreads.append(spread)
        return relative(self, scores, spread, widths)

    monkeypatch.setattr(_Written, "_relative", noted)
    scores = Scores(0.0, 9.0, 0.0, 0.0, 6.0)
    off = replace(scores, **{tiny: 2.0**-900 if tiny == "highest" else -(2.0**-900)})
    for lying in (scores, off):
        with_scores(width_of(None, Rule.SOFTMAX), lying, monkeypatch)
    assert spreads == [0.0, SMALLEST]


@pytest.mark.parametrize("name", [None, "bfloat16"])
def test_a_width_by_a_hard_maximum_is_a_share_exactly(
    name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = width_of(name, Rule.HARD_MAX)
    scores = Scores(0.0, 9.0, 0.0, 0.0, 6.0)
    centre, radius = with_scores(written, scores, monkeypatch)
    check_width(written, scores, centre, radius, Fraction(0))
    for wrong in (
        replace(scores, lowest=-0.5),
        replace(scores, highest=0.5),
        replace(scores, spread=0.5),
    ):
        with pytest.raises(CertificationError, match="exactly equal scores"):
            with_scores(written, wrong, monkeypatch)


def check_width(
    written: _Written, scores: Scores, centre: Any, radius: Any, spread: Fraction
) -> None:
    claimed, error = written.state.claimed(2)
    assert (centre == claimed).all()
    reading, lost, bits = written._values()
    own = reading.beginning
    assert own is not None
    widths = np.array(written.facts.term_widths(written.facts.nodes[-1].selector, 0), dtype=float)
    assert len(widths) > 2
    share = np.array([1 / Fraction(w + 1) for w in widths.tolist()])[:, None]
    relative = exact(written._relative(scores, float(spread), widths))[:, None]
    first, off = exact(own.centre[0]), exact(own.radius[0])
    size = abs(first) + off + exact(lost)
    if written.arithmetic.format is None:
        rounding = exact(np.zeros(2))
    elif written.hard:
        rounding = exact(written._mixing(np.asarray(size, dtype=float), bits, one_value=False))
    else:
        name = written.arithmetic.format.name
        k = weight_roundings(name, True, False)
        rounding = gamma(name, k) * size + exact(written.underflow)
    formula = share * (relative * size + off + exact(lost) + rounding * (1 + relative))
    kept = written._kept(reading, scores, lost, bits)
    assert kept is not None
    formula = np.vstack([formula, exact(kept[1])])
    away = abs(exact(centre) - np.vstack([share * first, exact(kept[0])]))
    holds(radius, away + formula + exact(error))


def test_without_spread_a_width_is_mixed_in_one_sum() -> None:
    """Exact codes and weights, equal scores, one term that is not zero: γ of one sum remains."""
    written = width_of("bfloat16", Rule.SOFTMAX, share=0.0)
    written.state.hold(1, np.array([[0.0], [0.875]]), np.zeros((2, 1)))
    scores = Scores(0.0, np.inf, 0.0, 0.0, 600.0)
    node: Any = written.facts.nodes[-1]
    centre, radius = written._width(node, scores)
    reading, lost, _ = written._values()
    assert reading.beginning is not None
    size = (
        abs(exact(reading.beginning.centre[0])) + exact(reading.beginning.radius[0]) + exact(lost)
    )
    rounding = gamma("bfloat16", weight_roundings("bfloat16", False, False)) * size
    away = abs(exact(centre[0]) - exact(reading.beginning.centre[0]))
    assert radius[0].tolist() > np.asarray(away + rounding, dtype=float).tolist()
    holds(
        radius[0],
        away
        + rounding
        + exact(lost)
        + abs(exact(reading.beginning.centre[0])) / 2**52
        + exact(reading.beginning.radius[0]),
    )


def test_a_width_in_exact_arithmetic_is_off_by_the_rounding_of_its_share() -> None:
    """1/(w + 1) and its product are rounded: 2^−52 of it, where nothing else is."""
    written = width_of(None, Rule.SOFTMAX, share=0.0)
    written.state.hold(1, np.array([[0.0], [0.875]]), np.zeros((2, 1)))
    reading, _, _ = written._values()
    assert reading.beginning is not None
    assert not reading.beginning.radius.any()
    first, node = reading.beginning.centre[0], written.facts.nodes[-1]
    widths = np.array(written.facts.term_widths(node.selector, 0))
    shares = 1 / (widths[:, None] + 1) * first
    written.state._claims[2] = np.vstack([shares, first]), np.zeros((len(widths) + 1, 2))
    _, radius = written._width(node, Scores(0.0, np.inf, 0.0, 0.0, 600.0))
    truth = np.array([1 / Fraction(int(w) + 1) for w in widths])[:, None] * abs(exact(first))
    nearly(radius[:-1], truth / 2**52)


def test_widths_are_counted_at_the_beginning_token_alone() -> None:
    node: Any = made(WIDTH, None, term=0).facts.nodes[-1]
    with pytest.raises(CertificationError, match="there is none"):
        made(WIDTH, None, term=0, beginning=False)._width(node, SOFT)
    apart = plain_head({(3, 0): 1, (4, 1): 1}, {(0, 2): 1, (1, 0): 1})
    for centre, radius in ((0.0, 0.0), (0.5, 0.0), (-0.5, 0.0), (0.0, 0.5)):
        written = made(WIDTH, None, term=0, head=apart)
        written.state.hold(0, np.zeros((4, 2)), np.zeros((4, 2)))
        written.state.hold(1, np.array([[centre], [0.875]]), np.array([[radius], [0.0]]))
        if centre == radius == 0:
            written._width(node, SOFT)
            continue
        with pytest.raises(CertificationError, match="other positions add to it"):
            written._width(node, SOFT)


# Registers


def test_a_head_selects_by_a_hard_maximum_or_by_softmax_of_temperature_one() -> None:
    written = made(MEAN, None)
    state = written.state
    for selection in (
        Selection(Rule.ONE_HOT_MAX),
        Selection(Rule.SOFTMAX, Fraction(2)),
        Selection(Rule.HARD_MAX, Fraction(2)),
    ):
        state.blueprint = replace(state.blueprint, selection=selection)
        with pytest.raises(CertificationError, match="select by"):
            _Written(state, written.head, 2)


@pytest.mark.parametrize(
    "register",
    [
        Register(None, None, (3, 4), Matrix.of(2, 2, {})),
        Register(0, None, (3, 4), Matrix.of(4, 2, {})),
    ],
)
def test_a_head_writes_aggregates_and_widths(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = made(MEAN, None)
    written.register = register
    with pytest.raises(CertificationError, match="neither an aggregate nor a width"):
        with_scores(written, SOFT, monkeypatch)


def test_an_aggregate_or_a_width_is_meant_as_a_whole_or_by_a_term(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mean, width = made(MEAN, None), made(WIDTH, None, term=0)
    mean.register = replace(mean.register, term=0)
    width.register = replace(width.register, term=None)
    for written in (mean, width):
        with pytest.raises(CertificationError, match="neither an aggregate nor a width"):
            with_scores(written, SOFT, monkeypatch)
    union = made(MEAN, None)
    monkeypatch.setattr(union.facts, "conjunction", lambda _: None)
    with pytest.raises(CertificationError, match="neither an aggregate nor a width"):
        with_scores(union, SOFT, monkeypatch)


def test_every_register_of_a_head_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    written = made(MEAN, None)
    monkeypatch.setattr(HeadScores, "scores", lambda *_: SOFT)
    ((number, centre, radius),) = prove_head(written.state, written.head, [2])
    assert number == 2
    assert all((a == b).all() for a, b in zip((centre, radius), written.prove(), strict=True))


def test_sums_of_scores_are_not_rounded_up() -> None:
    assert _total(2.0**53, 1.0) == 2.0**53 - 1
    assert _total(0.5, -0.25, 1.0) == 1.25
