"""The table of section 6: which measures a change of temporal structure changes."""

import numpy as np
import pytest

from exactformer.couplings.target import identity
from exactformer.errors import InputError
from exactformer.targets import (
    Coupling,
    LinearTarget,
    effect_of,
    exponential_kernel,
    mix,
    random_filter,
    reorder,
    sine_family,
    swap_ends,
)

TARGET = LinearTarget(exponential_kernel(32))
SIGMAS = [f"σ_{k} of T" for k in range(1, 5)]


def test_reordering_costs_the_rnn_everything_and_the_singular_values_nothing() -> None:
    effect = effect_of(TARGET, reorder(TARGET, swap_ends(32)))
    assert effect.before["in the RNN's space"] == "yes"
    assert effect.changed("C_RNN")
    assert effect.after["C_RNN"] == np.inf
    assert effect.after["least error, linear RNN"] == pytest.approx(0.0804632, rel=1e-5)
    assert not any(effect.changed(sigma) for sigma in SIGMAS)


def test_a_causal_filter_keeps_the_rnn_and_the_printed_one_does_not() -> None:
    theta = random_filter(5, seed=0)
    causal, printed = (effect_of(TARGET, mix(TARGET, theta, causal=c)) for c in (True, False))
    assert not causal.changed("C₁ of the RNN", tolerance=1e-3)
    assert causal.after["least error, linear RNN"] == 0
    assert printed.changed("C₁ of the RNN")
    assert printed.after["least error, linear RNN"] == pytest.approx(0.0318505, rel=1e-5)
    assert all(causal.changed(sigma) and printed.changed(sigma) for sigma in SIGMAS)


def test_the_example_of_appendix_d_3() -> None:
    """ρ̃ = 1 + cos 2πv − cos 2π(2u + v): σ² = (7 ± √33)/8 and 1/4."""
    rho = Coupling(identity, identity, lambda u, v: 1 + 2 * np.sin(2 * np.pi * u) * np.sin(2 * np.pi * v), 2)  # fmt: skip  # noqa: E501
    effect = effect_of(rho, mix(rho, [1.0, 1.0], causal=True))
    assert [effect.before[f"σ_{k} of ρ"] for k in (1, 2, 3)] == pytest.approx([1, 1, 0], abs=1e-12)
    closed = [np.sqrt((7 + np.sqrt(33)) / 8), 0.5, np.sqrt((7 - np.sqrt(33)) / 8)]
    assert [effect.after[f"σ_{k} of ρ"] for k in (1, 2, 3)] == pytest.approx(closed, abs=1e-12)
    assert (effect.before["rank"], effect.after["rank"]) == (2, 3)
    assert effect.after["C₁, α = 1"] < effect.before["C₁, α = 1"]


def test_longer_couplings_lose_their_form() -> None:
    target = sine_family([1.0, 0.5], tau=3)
    effect = effect_of(target, reorder(target, [2, 0, 1]))
    assert effect.after == {"form": "not pairwise"}


def test_the_table_marks_what_changed() -> None:
    lines = str(effect_of(TARGET, mix(TARGET, random_filter(), causal=True))).splitlines()
    assert lines[0].split() == ["before", "after"]
    assert [line.endswith("*") for line in lines if line.startswith("C_RNN")] == [True]
    assert [line.endswith("*") for line in lines if line.startswith("in the RNN")] == [False]


def test_other_objects_are_refused() -> None:
    with pytest.raises(InputError, match="linear targets and couplings"):
        effect_of(TARGET, np.sin)
