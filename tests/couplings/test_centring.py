"""What depends on the query alone is lost on a softmax: without it couplings are smaller."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import exactformer as ef
from exactformer.couplings.centring import centred
from exactformer.targets import Coupling, ProductKernel
from exactformer.theory import pod
from tests.cases.couplings import random_case
from tests.examples import examples

near = Coupling(lambda h: h, lambda u: u, lambda u, v: -20 * (u - v) ** 2, 5)


@given(st.integers(0, 10**6))
@settings(max_examples=examples(20))
def test_centring_changes_no_output_and_raises_no_singular_value(seed):
    target = random_case(np.random.default_rng(seed)).target
    other = centred(target)
    x = target.sample(20)
    size = 1 + np.abs(target(x)).max()
    assert np.abs(other(x) - target(x)).max() < 1e-10 * size
    nodes = max(128, 32 * target.tau)
    before, after = (
        pod(t.rho, t.intervals, measure="probability", max_nodes=nodes) for t in (target, other)
    )
    terms = max(before.rank, after.rank, 1)
    wide = [np.pad(d.singular_values, (0, terms - d.rank)) for d in (before, after)]
    room = 2 * (before.error + after.error) + 1e-9
    assert (wide[1] <= wide[0] + room).all()


def test_the_squared_distance_has_rank_three_and_centred_two():
    assert pod(near.rho).rank == 3
    assert pod(centred(near).rho).rank == 2
    plain, smaller = (ef.compile_coupling(near, 2, 512, centre=c) for c in (False, True))
    assert plain.measure(samples=200).value > 0.01
    assert smaller.measure(samples=200).value <= smaller.certificate.bound() < 0.001


def test_products_stay_products():
    kernel = ProductKernel(
        np.array([1.0, 2.0]),
        lambda u: np.stack([u, u**2], axis=-1),
        lambda v: np.stack([1 + 0 * v, np.exp(v)], axis=-1),
    )
    target = centred(Coupling(np.tanh, np.cos, kernel, 4))
    assert isinstance(target.rho, ProductKernel)
    u = np.linspace(0, 1, 7)
    wanted = 2 * np.outer(u**2, np.exp(u) - (np.e - 1))
    assert target.rho.matrix(u, u) == pytest.approx(wanted, abs=1e-13)
    assert pod(target.rho).rank == 1


def test_elementwise_and_by_matrix_it_is_one_kernel():
    rho = centred(near).rho
    u, v = np.random.default_rng(0).uniform(size=(2, 3, 4))
    wanted = rho(u[..., :, None], v[..., None, :])
    assert np.abs(rho.matrix(u, v) - wanted).max() < 1e-12
