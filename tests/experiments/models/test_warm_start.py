"""Training that begins at a construction: same class, same knots, never worse."""

import numpy as np
import pytest
import torch

from exactformer.couplings.run.fused import FusedCoupling
from exactformer.couplings.run.tables import KnotTable
from exactformer.couplings.target import Sines
from exactformer.errors import InputError
from exactformer.experiments.models.warm_start import (
    CouplingEnsemble,
    MovableTable,
    cosines,
    warm_start,
)
from exactformer.learning.ensembles import EnsembleProtocol
from exactformer.targets import sine_family

PIECES, TAU = 64, 6
SIGMA = np.array([1.0, 0.5, 0.25])
WAVES = cosines(PIECES + 1, 64)
QUICK = {"protocol": EnsembleProtocol(steps=10, batch_size=64, rate=1e-2, reports=2)}


def constructed(heads, dtype=torch.float64):
    """Cut ρ after so many terms; smaller heads are filled up with zeros."""
    largest = max(heads)
    knots = torch.linspace(0, 1, PIECES + 1, dtype=torch.float64)
    waves = Sines(largest)(knots) * torch.as_tensor(SIGMA[:largest]).sqrt()
    own = [waves * (torch.arange(largest) < head) for head in heads]
    values = torch.stack([torch.cat([w, w, knots[:, None]], dim=1) for w in own])
    return FusedCoupling(KnotTable(values.to(dtype)), None, largest)


def data(count=512):
    target = sine_family(SIGMA, TAU)
    x = torch.as_tensor(target.sample(count, seed=3))
    return x, target(x)


def test_cosines_are_orthonormal_on_the_unit_interval():
    waves = cosines(2001, 20)
    weights = torch.full((2001,), 1 / 2000, dtype=torch.float64)
    weights[[0, -1]] /= 2  # the trapezoidal rule is exact for products of these cosines
    gram = (waves * weights[:, None]).T @ waves
    torch.testing.assert_close(gram, torch.eye(20, dtype=torch.float64), rtol=0, atol=1e-12)


def test_without_coefficients_the_ensemble_is_the_construction():
    start = constructed([1, 2])
    x, _ = data(16)
    assert torch.equal(CouplingEnsemble(start, cosines(PIECES + 1, 8))(x), start(x))


@pytest.mark.parametrize("per_model", [False, True])
def test_moving_the_function_is_moving_its_knot_values(per_model):
    table = MovableTable(constructed([1, 2]).features, cosines(PIECES + 1, 5))
    source = torch.Generator().manual_seed(0)
    drawn = torch.randn(table.coefficients.shape, generator=source, dtype=torch.float64)
    table.coefficients.data = drawn
    x = torch.rand(2, 30, generator=source, dtype=torch.float64)
    plain = table.moved(torch.tensor([True, True]))
    torch.testing.assert_close(table(x, None, per_model), plain(x, None, per_model))
    half = table.moved(torch.tensor([True, False]))
    assert torch.equal(half.values[1], table.values[1])
    assert not torch.equal(half.values[0], table.values[0])


def test_a_warm_start_is_better_where_terms_are_missing_and_never_worse():
    start = constructed([1, 2, 3])
    before = start.features.values.clone()
    x, y = data()
    protocol = EnsembleProtocol(steps=60, batch_size=64, rate=1e-2, reports=5)
    tuned = warm_start(start, x, y, directions=cosines(PIECES + 1, 12), protocol=protocol)
    assert (tuned.after <= tuned.before).all()
    assert (tuned.after[:2] < 0.7 * tuned.before[:2]).all()
    assert torch.equal(start.features.values, before), "the construction itself is left alone"
    held = x[448:]
    measured = (tuned.model(held) - y[448:]).square().mean(dim=(1, 2))
    torch.testing.assert_close(measured, tuned.after)


def test_head_sizes_stay_what_they_were():
    x, y = data()
    model = warm_start(constructed([1, 3]), x, y, directions=WAVES, **QUICK).model
    phi, psi = model.features.values[0, :, 1:3], model.features.values[0, :, 4:6]
    assert (phi == 0).all()
    assert (psi == 0).all()


def test_each_model_learns_its_own_target_as_if_alone():
    x, y = data()
    bank = torch.stack([y, sine_family(SIGMA[::-1].copy(), TAU)(x)])
    both = warm_start(constructed([1, 1]), x, bank, choice=[0, 1], directions=WAVES, **QUICK)
    for place in range(2):
        alone = warm_start(constructed([1]), x, bank[place], directions=WAVES, **QUICK)
        torch.testing.assert_close(alone.after[0], both.after[place])


def test_what_cannot_be_trained_is_refused():
    x, y = data(8)
    single = FusedCoupling(KnotTable(constructed([1]).features.values[0].detach()), None, 1)
    with pytest.raises(InputError, match="axis of models"):
        warm_start(single, x, y, directions=WAVES, **QUICK)
    with pytest.raises(InputError, match="as many knots"):
        warm_start(constructed([1]), x, y, directions=cosines(PIECES, 4), **QUICK)
    with pytest.raises(InputError, match="too few"):
        warm_start(constructed([1]), x[:1], y[:1], directions=WAVES, **QUICK)
