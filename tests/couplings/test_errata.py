"""Where the text of Theorem 4.1 and of appendix A.2 does not hold, shown on constructed models."""

import numpy as np
import pytest

import exactformer as ef
from exactformer.targets import Coupling, sine_family
from exactformer.theory import bound, pod


@pytest.mark.parametrize(("scale", "holds"), [(1.0, True), (1e-3, False)])
def test_a_model_of_a_small_coupling_violates_the_printed_inequality(scale, holds):
    """(50) adds Σσ² to an L¹ error: of a coupling times c, the error is like c, the bound like c²."""
    target = sine_family(scale / np.arange(1, 5.0), tau=4)
    model = ef.compile_coupling(target, 2, 4096)
    error = model.measure(samples=2000)
    printed = bound(target, 2, 4096).printed.squares
    assert (error.value + 5 * error.standard_error < printed) is holds
    assert (error.value - 5 * error.standard_error > printed) is not holds
    assert error.value <= model.certificate.bound()


def test_the_diagonal_can_be_all_of_the_error():
    """A narrow ridge along u = v has hardly any L² norm, but every token meets itself there.

    With (46), E Σ_t|H_t − Ĥ_t| ≤ τ K R (τ T²)^½: violated. With the diagonal it holds.
    """
    target = Coupling(
        lambda h: h, lambda u: u, lambda u, v: 3 * np.exp(-(((u - v) / 1e-3) ** 2)), 2
    )
    found = pod(target.rho, measure="probability", max_nodes=512)
    model = ef.compile_coupling(target, 1, 4096, decomposition=found)
    error, limit = model.measure(samples=2000), model.certificate.rounded()
    without = target.tau * limit.lipschitz * limit.radius * (target.tau * limit.tail**2) ** 0.5
    interpolation = sum(v for name, v in limit.parts.items() if "interpolation" in name)
    assert error.value - 5 * error.standard_error > without + interpolation
    assert error.value <= limit.total


def test_the_printed_row_of_w_k_reads_the_value_in_place_of_a_key():
    """[W_K]_k = e_(k + m_h + 1), counted from 1, skips ψ̂_1 and ends on value_1."""
    blueprint = ef.compile_coupling(sine_family([1.0, 0.5], tau=2), 2, 8).blueprint
    names, m = blueprint.dimensions, blueprint.head_dim
    printed = [names[k + m + 1 - 1] for k in range(1, m + 1)]
    assert printed == ["psi_2", "value_1"]
    assert [names[j] for _, j, _ in blueprint.key] == ["psi_1", "psi_2"]
