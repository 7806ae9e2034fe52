"""C_RNN: exact values, membership, and what propositions 6.1 and 6.3 may and may not say."""

from math import exp, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exactformer.errors import InputError
from exactformer.targets import (
    LinearTarget,
    exponential_kernel,
    mix,
    random_filter,
    random_kernel,
    reorder,
)
from exactformer.theory.recurrent import (
    ExponentialKernel,
    PowerKernel,
    mixing_constant,
    rnn_complexity,
    why_no_kernel,
)

memories = st.floats(0.2, 20)


@given(memories, st.floats(0.1, 10))
def test_exponential_kernels_have_exact_measures(gamma: float, scale: float) -> None:
    found = rnn_complexity(ExponentialKernel(gamma, -scale))
    c1, c2, product = found.C1, found.C2, found.C_RNN
    assert c1 == 1 + gamma
    assert c2 == scale
    assert product == (1 + gamma) * scale
    assert found.rate(4, dim=2) == 2 * product / 4
    assert found.member


@given(memories)
def test_samples_of_an_exponential_give_its_memory(gamma: float) -> None:
    found = rnn_complexity(ExponentialKernel(gamma)(np.arange(64)))
    low, high = found.gamma_interval
    assert low <= gamma * (1 + 1e-9)
    assert high >= gamma * (1 - 1e-9)
    assert found.gamma == pytest.approx(gamma, rel=1e-6)


def test_an_oscillating_kernel_is_measured_by_its_envelope() -> None:
    found = rnn_complexity(lambda s: np.exp(-s / 5) * np.cos(s))
    low, high = found.gamma_interval
    assert low <= 5 <= high
    assert high - low < 2


@pytest.mark.parametrize(
    "kernel", [PowerKernel(2), PowerKernel(2)(np.arange(64)), lambda s: (1 + s) ** -1.5]
)
def test_power_laws_are_outside_and_it_is_said_so(kernel: object) -> None:
    found = rnn_complexity(kernel)  # type: ignore[arg-type]
    assert not found.member
    assert found.rate(10**6) == inf
    assert "slower than any exponential" in str(found)


def test_a_random_kernel_shows_no_decay_and_costs_much_if_it_ends() -> None:
    kernel = random_kernel(32, seed=0)
    assert "no exponential decay" in rnn_complexity(kernel).reason
    ends = rnn_complexity(kernel, ends=True)
    c1, c2 = ends.C1, ends.C2
    assert c1 == 1
    assert c2 == pytest.approx((np.exp(np.arange(32)) * kernel).max(), rel=1e-12)


def test_c_rnn_grows_when_a_kernel_is_cut_off() -> None:
    """Proposition 6.3 takes |ρ| ≤ e^(−s/γ) to imply C₂ ≤ 1."""
    whole = rnn_complexity(ExponentialKernel(10.0))
    cut = rnn_complexity(ExponentialKernel(10.0)(np.arange(32)), ends=True)
    before, c2 = whole.C_RNN, cut.C2
    assert before == 11
    assert c2 == pytest.approx(exp(31 * 0.9), rel=1e-12)
    assert cut.C_RNN > 1e12
    assert cut.least <= whole.least * (1 + 1e-9)


@given(memories, st.integers(1, 40), st.integers(0, 999))
def test_the_monotone_measure_is_bounded_by_the_memory(gamma: float, tau: int, seed: int) -> None:
    signs = np.random.default_rng(seed).uniform(-1, 1, tau)
    found = rnn_complexity(signs * np.exp(-np.arange(tau) / gamma), ends=True)
    assert found.least <= max(gamma, 1) * (1 + 1e-12)
    assert found.least <= found.C_RNN * (1 + 1e-12)


def test_proposition_6_3_forgets_the_one_in_c1() -> None:
    found = rnn_complexity(ExponentialKernel(1.0))
    assert found.C_RNN == 2 > 1.0


@given(st.integers(2, 10).flatmap(lambda n: st.permutations(range(n))), st.integers(0, 99))
def test_reordering_leaves_the_space_unless_nothing_moves(p: list[int], seed: int) -> None:
    """Proposition 6.1; it needs ρ(0) ≠ 0."""
    kernel = 0.1 + random_kernel(len(p), seed)
    why = why_no_kernel(reorder(LinearTarget(kernel), p).matrix)
    assert why.startswith("not causal") if p != sorted(p) else why == ""


def test_reordered_delays_need_not_be_anticipating() -> None:
    """The proof of 6.1 finds every reordered target non-causal: not so if ρ(0) = 0."""
    delay = reorder(LinearTarget([0.0, 1.0, 0.0, 0.0]), [1, 0, 2, 3])
    assert delay.is_causal
    assert why_no_kernel(delay.matrix).startswith("not time-invariant")
    longer = LinearTarget([0.0, 0.0, 1.0, 0.5])
    unseen = reorder(longer, [0, 1, 3, 2])
    assert why_no_kernel(unseen.matrix) == ""
    assert np.array_equal(unseen.matrix, longer.matrix)


def mixed_kernel(theta: np.ndarray, kernel: np.ndarray, causal: bool) -> np.ndarray:
    """Return Σ θ(s') ρ(s − s') if causal, else Σ θ(s') ρ(s + s'), at as many lags as are known."""
    if causal:
        return np.convolve(theta, kernel)[: len(kernel)]
    return np.convolve(theta[::-1], kernel, mode="valid")


@given(memories, st.integers(1, 6), st.booleans(), st.integers(0, 999))
def test_mixing_constants_hold_and_are_attained(
    gamma: float, length: int, causal: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    theta, lags = rng.uniform(-1, 1, length), np.arange(2 * length)
    bound = mixing_constant(theta, gamma, causal)
    envelope = np.exp(-lags / gamma)
    worst = np.sign(theta[::-1] if causal else theta)
    for signs in (rng.uniform(-1, 1, 2 * length), np.pad(worst, (0, length))):
        mixed = np.abs(mixed_kernel(theta, signs * envelope, causal))
        assert (mixed <= bound * envelope[: len(mixed)] * (1 + 1e-9)).all()
    lag = length - 1 if causal else 0
    assert mixed[lag] == pytest.approx(bound * envelope[lag], rel=1e-9)
    assert causal or bound <= np.abs(theta).sum() * (1 + 1e-12)


def test_a_causal_filter_of_norm_one_can_pass_the_envelope() -> None:
    """(99) holds for ρ(s + s'): a pure delay moves the kernel the other way."""
    delay = [0.0, 0.0, 0.0, 0.0, 1.0]
    mixed = mix(LinearTarget(exponential_kernel(32)), delay, causal=True)
    assert mixed.kernel is not None
    assert mixed.kernel[4] == 1 > exp(-4)
    assert mixing_constant(delay, 1.0, causal=True) == pytest.approx(exp(4))
    found = rnn_complexity(mixed.kernel)
    assert found.gamma == pytest.approx(1, rel=1e-3)
    c1, c2 = found.C1, found.C2
    assert c2 == pytest.approx(exp(4 / c1), rel=1e-3)


@given(st.integers(0, 99))
def test_causal_mixing_keeps_the_memory_and_the_printed_leaves_the_space(seed: int) -> None:
    target, theta = LinearTarget(exponential_kernel(32)), random_filter(5, seed)
    before = rnn_complexity(target.kernel)
    after = rnn_complexity(mix(target, theta, causal=True).kernel)
    size = after.C2
    assert after.gamma == pytest.approx(before.gamma, rel=1e-2)
    assert size <= mixing_constant(theta, 1.0, causal=True) * (1 + 1e-9)
    assert rnn_complexity(mix(target, theta).matrix).reason.startswith("not causal")


def test_stability_is_a_matter_of_modulus_not_of_real_parts() -> None:
    """Section D.1 asks for negative real parts, which belongs to e^(Ws); (74) has Wˢ."""

    def kernel(eigenvalue: float) -> np.ndarray:
        return eigenvalue ** np.arange(64.0)

    assert abs(kernel(-2.0)[-1]) > 1e18
    assert rnn_complexity(kernel(0.5)).member
    assert not rnn_complexity(kernel(-2.0)).member


def test_nothing_is_the_easiest_relationship() -> None:
    assert rnn_complexity([0.0, 0.0]).C_RNN == 0
    assert rnn_complexity(ExponentialKernel(2.0, scale=0.0)).C_RNN == 0
    assert not rnn_complexity(ExponentialKernel(-1.0)).member


def test_what_is_no_kernel_is_refused() -> None:
    for wrong in ([], [np.inf], np.zeros((2, 2, 2))):
        with pytest.raises(InputError):
            rnn_complexity(wrong)
    with pytest.raises(InputError, match="its own point only"):
        rnn_complexity(lambda lag: np.exp(-lag) / np.exp(-lag).sum())
    with pytest.raises(InputError):
        rnn_complexity([1.0]).rate(0)
