"""Where the text of appendix B.1 is wrong or loose, with numbers."""

import numpy as np
import pytest

from exactformer.errors import InputError
from exactformer.targets import (
    AverageBySelection,
    CentreOfGravity,
    Coupling,
    NearestPoint,
    attend,
)


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def test_the_coupling_printed_below_equation_56_takes_the_farthest_point():
    task = NearestPoint()
    x = task.sample(500, 0)
    u, v = task.split(x)
    distance = np.linalg.norm(u[:, :, None] - v[:, None], axis=-1)
    printed = attend(task, x, np.eye(6)[distance.argmax(axis=-1)])
    reached = np.linalg.norm(u - printed, axis=-1)
    assert (reached == distance.max(axis=-1)).all()
    assert (np.linalg.norm(u - task(x), axis=-1) == distance.min(axis=-1)).all()


def test_segments_of_3_and_5_points_have_prediction_tokens_at_0_and_4():
    task = CentreOfGravity()
    x = task.sample(1, 0, lengths=(3, 5))
    assert np.flatnonzero(x[0, :, -1] == 0).tolist() == [0, 4]
    assert np.flatnonzero(task.sample(1, 0, lengths=(4, 4))[0, :, -1] == 0).tolist() == [0, 5]
    with pytest.raises(InputError, match="11 tokens, not 10"):
        task.sample(1, 0, lengths=(4, 5))


def test_no_score_of_two_tokens_gives_the_weights_of_equation_62():
    """Two inputs, the same tokens at 0, 1 and 6: one segment, or two with a cut at 4 between them.

    Softmax of scores ρ(x(t), x(s)) has A_06 / A_01 = exp(ρ_06 − ρ_01) in both. Positions do not help,
    they are the same too; the number of the segment, which `encode` adds, is not.
    """
    task = CentreOfGravity()
    whole = task.sample(1, 0, lengths=(9,))[0]
    cut = whole.copy()
    cut[4] = 0.0
    ratios = [task.attention(x)[0, 6] / task.attention(x)[0, 1] for x in (whole, cut)]
    assert ratios[0] == pytest.approx(whole[6, -1] / whole[1, -1])
    assert ratios[1] == 0
    same, encoded = [0, 1, 6], task.encode(np.stack([whole, cut]))
    assert (whole[same] == cut[same]).all()
    assert (encoded[0, 6] != encoded[1, 6]).any()


def test_the_weights_of_equation_64_are_not_scores():
    """Taken as ρ, their softmax gives 0.28 in place of 1 to the only index named."""
    task = AverageBySelection()
    x = task.sample(1, 0, indices=np.full((8, 3), 4))
    assert (task.attention(x)[0, :, 4] == 1).all()
    assert softmax(task.attention(x))[0, 0, 4] == pytest.approx(np.e / (np.e + 7))


def test_three_indices_give_thirds():
    task = AverageBySelection()
    weights = np.unique(task.attention(task.sample(500, 0)))
    assert weights == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert not np.isclose(weights, 1 / 2).any()


def test_with_positions_equal_maps_need_not_have_equal_readouts_of_values():
    """Proposition B.1 (1) uses constant sequences, and inputs of equation (7) never are.

    Uniform attention on disjoint intervals: what f gains on one it may lose on the others.
    """
    offsets = np.array([0.0, 2.0, 4.0])
    shift = np.array([0.25, 0.5, -0.75])

    def shifted(u):
        return u + shift[np.rint((u - 0.5) / 2).astype(int)]

    def no_coupling(u, v):
        return 0.0 * (u + v)

    first, second = (
        Coupling(F=lambda h: h, f=f, rho=no_coupling, tau=3, positions=offsets)
        for f in (lambda u: u, shifted)
    )
    x = first.sample(200, 0)
    assert np.abs(first(x) - second(x)).max() <= 1e-14
    assert np.abs(shifted(x + offsets) - (x + offsets)).min() > 0.24


def test_without_positions_constant_sequences_give_the_readout_of_the_value():
    target = Coupling(F=np.sqrt, f=np.square, rho=lambda u, v: np.sin(5 * u * v), tau=5)
    x = np.repeat(np.random.default_rng(0).random((50, 1)), 5, axis=1)
    assert np.abs(target(x) - x).max() <= 1e-15


def test_a_softmax_does_not_determine_the_arg_max():
    """Proposition B.1 (3) asks for unbounded ρ; one of equation (8) is continuous on a compact set.

    The condition is never met, and it is needed: what F = f = id makes with one weight of a token on
    itself F = ∛, f = cube make with another, and these lie on different sides of 1/2.
    """
    a, b = 1.0, 0.25
    own = 0.55
    mean = own * a + (1 - own) * b
    cubed = (mean**3 - b**3) / (a**3 - b**3)
    assert np.cbrt(cubed * a**3 + (1 - cubed) * b**3) == pytest.approx(mean)
    assert cubed < 1 / 2 < own
