"""Leakage of softmax: the recursion of the errors, term by term, and what it is made of."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from math import inf, log
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError
from exactformer.sequences.proof.leakage import PRECISION, Leakage
from tests.cases.forged_sequences import made, units_of, with_parts, with_units


def by_the_book(
    n: int, K: int, G: int, sharpness: float, e: float, rounding: Any
) -> tuple[Any, Any, Any]:
    """Return e_n, the leak and the error of a code, by the formulas of the module's docstring."""
    with mp.workprec(300):
        apart = 1 - 2 * mpf(e)
        leak = (n - 1) * apart * mp.exp(-sharpness * (mpf(0.5) - e) * apart) + rounding
        U = K * leak / (1 - mp.exp(-sharpness * apart))
        last = 2 * U + K * (2 * U + 2 * leak)
        for _ in range(n - 1):
            last = 2 * U + K * (last + U + 2 * leak)
        return last, leak, last + G * (last + leak)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize(("n", "K"), [(2, 4), (3, 4), (2, 9), (4, 3)])
def test_codes_are_off_by_the_recursion_of_the_errors(n: int, K: int, binary: bool) -> None:
    """For an e that is not exceeded; rounding is added where float64 does not swallow the leak."""
    G = K ** (n + 1)
    leakage = Leakage(n, K, G, binary)
    exact_from = 2 * (log(n - 1) + (n + 2) * log(K) + 55 * log(2))
    assert leakage.float_exact() == pytest.approx(exact_from)
    start = leakage.sharpness_for(0.25) if binary else 60.0
    for sharpness in (start, start + 5, exact_from - 1e-3, exact_from + 1e-3, 2 * exact_from):
        found = leakage.code_error(sharpness)
        rounds = not binary or sharpness < exact_from
        rounding = 2 * (n + 4) * 2.0**-53 * K ** (n + 1) if rounds else 0.0
        least = by_the_book(n, K, G, sharpness, 0.0, rounding)[2]
        last = found / (1 + G)  # nearly e_n; any e of at least that size will do
        assert (
            least <= found <= by_the_book(n, K, G, sharpness, 2.1 * last, rounding)[2] * (1 + 1e-9)
        )


@pytest.mark.parametrize("sharpness", [30.0, 60.0, 1100.0])
@pytest.mark.parametrize("e", [0.0, 0.01, 0.1])
def test_columns_of_the_recursion(sharpness: float, e: float) -> None:
    """Never below the formulas, and above by what the exponentials are, and a last rounding."""
    for n, sharp in itertools.product((2, 3, 150), (sharpness, sharpness + 1 / 3, sharpness + 0.7)):
        leakage = Leakage(n, 5, 7, True)
        rounds = sharp < leakage.float_exact()
        with mp.workprec(500):
            rounding = mpf(2 * (n + 4) * 5 ** (n + 1)) / 2**53 if rounds else 0
        *exact, _ = by_the_book(n, 5, 7, sharp, e, rounding)
        for found, wanted in zip(leakage._columns(sharp, e), exact, strict=True):
            assert wanted <= found <= wanted * (1 + (sharp + 5) * mpf(2) ** -50)


def test_a_head_misses_its_maximum_by_at_most_its_leak() -> None:
    """Σ_j (k_max − k_j) weight_j for keys at least 1 − 2e apart and a query of at least ½ − e."""
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(2000):
        n, e = int(rng.integers(2, 5)), float(rng.choice([0.0, 0.02, 0.1]))
        sharpness = float(rng.uniform(4, 40))
        gaps = np.concatenate([[0.0], (1 - 2 * e) * (1 + rng.exponential(0.05, n - 1))])
        query = (0.5 - e) * (1 + rng.exponential(0.02))
        weights = np.exp(-sharpness * query * gaps)
        missed = float((gaps * weights).sum() / weights.sum())
        leakage = Leakage(n, 2, 1, True)
        bound = leakage._columns(sharpness, e)[1]
        if bound < inf:
            assert missed <= bound
            ratios.append(missed / bound)
    assert max(ratios) > 0.9


def test_nothing_is_said_where_scores_hardly_differ() -> None:
    """The function g·exp(−Λag) falls in g only from Λag = 1 on."""
    leakage = Leakage(2, 4, 64, True)
    assert leakage._columns(2.0, 0.0)[0] < inf
    assert leakage._columns(1.999, 0.0) == (inf, inf)
    assert leakage.code_error(2.0) == inf
    assert Leakage(1, 4, 64, True).code_error(0.1) == 0


def test_the_threshold_is_the_smallest_sharpness() -> None:
    leakage = Leakage(2, 4, 64, True)
    for allowed in (0.25, 1e-3, 1e-6):
        found = leakage.sharpness_for(allowed)
        assert leakage.code_error(found) <= allowed < leakage.code_error(found * (1 - 1e-5))
    assert Leakage(6, 50, 50**7, False).sharpness_for(0.25) == inf  # rounding alone is more
    assert Leakage(1, 4, 64, True).sharpness_for(0.25) == 1
    assert Leakage(3, 0, 0, True).sharpness_for(0.25) == 1
    assert Leakage(1, 4, 64, True).float_exact() == Leakage(3, 0, 0, True).float_exact() == 1


@pytest.mark.parametrize(("form", "cells"), [("compact", 4), ("paper", 4), ("paper", 3)])
def test_k_and_g_are_read_off_the_layers(form: str, cells: int) -> None:
    honest, _ = made(form, (1, 2, cells))
    found = Leakage.of(honest)
    last = honest.stage("contextual mapping").parts[-1]
    shift = last.heads[0].value[0, 0]  # type: ignore[union-attr]
    binary = form == "compact" or cells == 4
    assert found == Leakage(2, cells, int(shift), binary)


def test_shifts_down_or_by_halves_are_not_the_theorem_s() -> None:
    honest, _ = made("compact")
    for shift in (Fraction(-64), Fraction(0), Fraction(129, 2)):
        *rest, last = honest.stages[1].parts
        (head,) = last.heads  # type: ignore[union-attr]
        value = Matrix.of(*head.value.shape, {(0, 0): shift})
        moved = replace(last, heads=(replace(head, value=value),))  # type: ignore[call-arg]
        stages = (
            honest.stages[0],
            replace(honest.stages[1], parts=(*rest, moved)),
            honest.stages[2],
        )
        with pytest.raises(CertificationError, match="neither uniform"):
            Leakage.of(replace(honest, stages=stages))


@pytest.mark.parametrize("tokens", [2, 3, 4])
def test_a_mean_is_rounded_unless_it_is_of_a_power_of_two(tokens: int) -> None:
    """n + 2 times on the way to a code, which is at most as large as a key or a number times K·n."""
    honest, _ = made("four-layer", (1, tokens, 2))
    found = Leakage.of(honest)
    number = units_of(honest, "contextual mapping")
    row, rest = 2, number.b2[2, 0]
    weight = honest.stages[1].parts[1].heads[0].value[1, 2]  # type: ignore[union-attr]
    most = max(abs(v + rest) for r, _, v in number.w2 if r == row)
    assert found.size == max(weight * most, honest.largest_key)
    assert (found.factor, found.global_shift, found.tokens, found.binary) == (0, 0, tokens, True)
    off = found.code_error(5.0)
    if tokens == 3:
        assert_rounded(off, found)
    else:
        assert off == 0
        assert_rounded(replace(found, binary=False).code_error(5.0), found)


def assert_rounded(off: float, found: Leakage) -> None:
    """(1 + u)^(n+2) − 1 of the size, which is n + 2 roundings and a little more."""
    u, times = Fraction(1, 2**PRECISION), found.tokens + 2
    size = Fraction(found.size)
    assert ((1 + u) ** times - 1) * size <= Fraction(off) <= times * u * size * (1 + u * 2**33)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("cells", [1, 3])
def test_a_unit_that_writes_no_number_leaves_the_rest(sign: int, cells: int) -> None:
    """Numbers are 0 for the first id and −700 for the other, which is averaged as well."""
    honest, _ = made("four-layer", (1, 3, 2))
    number = units_of(honest, "contextual mapping")
    forged = with_units(
        honest,
        "contextual mapping",
        w2=Matrix.of(*number.w2.shape, {(2, 0): 700}),
        b2=Matrix.of(*number.b2.shape, {(2, 0): -700}),
    )
    _, mean = forged.stages[1].parts
    (head,) = mean.heads  # type: ignore[union-attr]
    value = Matrix.of(*head.value.shape, {(1, 2): sign * head.value[1, 2]})
    turned = replace(mean, heads=(replace(head, value=value),))  # type: ignore[call-arg]
    forged = with_parts(forged, "contextual mapping", lambda parts: [parts[0], turned])
    code = Matrix.of(*honest.code.shape, {p: cells * v for p, v in honest.code.entries.items()})
    assert Leakage.of(replace(forged, code=code)).size == 700 * head.value[1, 2] * cells


def test_the_threshold_has_a_leading_term() -> None:
    found = Leakage(3, 5, 700, True).estimate()
    assert found == pytest.approx(2 * (4 * log(5) + log(700) + log(16)))
