"""The three tasks of appendix B.1: direct answers against equation (8), ranks, bounds, and slips."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exactformer.errors import InputError
from exactformer.targets import (
    EQUATION_66,
    AverageBySelection,
    CentreOfGravity,
    NearestPoint,
    attend,
    soft_attention,
    soft_error_bound,
)

EPSILON = np.finfo(float).eps
TASKS = [
    NearestPoint(),
    NearestPoint(tau=9, dim=3),
    CentreOfGravity(),
    CentreOfGravity(tau=17, dim=1, shortest=3),
    AverageBySelection(),
    AverageBySelection(tau=12, dim=3, k=2, unit_indices=False),
]
seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("task", TASKS, ids=repr)
@given(seed=seeds)
def test_the_direct_answer_is_equation_8(task, seed):
    x = task.sample(20, seed)
    weights, size = task.attention(x), np.abs(task.values(x)).max()
    assert np.abs(weights.sum(axis=-1) - 1).max() <= task.tau * EPSILON
    assert weights.min() >= 0
    assert task(x).shape == (20, task.tau, task.output_dim)
    assert np.abs(attend(task, x, weights) - task(x)).max() <= 8 * task.tau * EPSILON * size


@pytest.mark.parametrize("task", TASKS, ids=repr)
def test_samples_are_a_function_of_the_seed(task):
    assert (task.sample(3, seed=1) == task.sample(3, seed=1)).all()
    assert (task.sample(3, seed=1) != task.sample(3, seed=2)).any()
    assert task.encode(task.sample(3, 1)).shape == (3, task.tau, task.token_dim)


@pytest.mark.parametrize("task", TASKS, ids=repr)
@pytest.mark.parametrize("sharpness", [1.0, 5.0, 20.0, 60.0])
def test_what_a_softmax_of_finite_rank_gets_wrong_is_what_it_leaks(task, sharpness):
    x = task.sample(200, seed=3)
    weights, meant = soft_attention(task, x, sharpness), task.attention(x)
    error = np.linalg.norm(attend(task, x, weights) - task(x), axis=-1)
    room = 1e-8  # scores are up to 10⁷ at this sharpness, rounding in them and so in A is 10⁻⁹
    assert (error <= soft_error_bound(task, x, sharpness) + room).all()
    kept = np.where(meant > 0, weights, 0.0)
    share = kept / kept.sum(axis=-1, keepdims=True)
    assert np.abs(share - meant).max() <= room, "among the tokens that count, softmax is right"


@pytest.mark.parametrize("task", [t for t in TASKS if not isinstance(t, NearestPoint)], ids=repr)
def test_the_bound_falls_exponentially_where_the_task_is_continuous(task):
    x = task.sample(200, seed=4)
    at = {sharpness: soft_error_bound(task, x, sharpness).max() for sharpness in (20.0, 30.0)}
    assert 0 < at[30.0] <= 1.01 * np.exp(-10) * at[20.0]


def test_a_hard_max_costs_an_error_of_order_one_over_the_sharpness():
    task = NearestPoint()
    x = task.sample(40_000, seed=5)
    errors = [
        ((attend(task, x, soft_attention(task, x, sharpness)) - task(x)) ** 2).mean()
        for sharpness in (100.0, 400.0, 1600.0)
    ]
    slopes = np.diff(np.log(errors)) / np.log(4)
    assert np.abs(slopes + 1).max() < 0.15


def rows_of_scores(task):
    """Scores of many queries against the same keys, less what softmax does not see."""
    x = task.sample(1, 0)
    if isinstance(task, NearestPoint):
        x = np.repeat(x, 50, axis=0)
        x[..., : task.dim] = task.sample(50, 1)[..., : task.dim]
    elif isinstance(task, AverageBySelection):
        x = task.sample(200, 0)
    rows = task.scores(x, 3.0).reshape(-1, task.tau)
    return rows - rows.mean(axis=-1, keepdims=True)


@pytest.mark.parametrize(
    "task",
    [
        *(NearestPoint(tau=20, dim=dim) for dim in (1, 2, 5)),
        *(CentreOfGravity(tau=tau) for tau in (20, 60)),
        *(AverageBySelection(k=k) for k in (1, 2, 3, 5)),
        AverageBySelection(tau=20),
    ],
    ids=repr,
)
def test_scores_have_the_rank_that_is_said(task):
    assert np.linalg.matrix_rank(rows_of_scores(task)) == task.rank


def test_every_way_of_cutting_is_as_likely():
    task = CentreOfGravity()
    cuts, counts = np.unique(task.sample(9000, 0)[..., -1] == 0, axis=0, return_counts=True)
    assert len(cuts) == 9
    assert ((counts - 1000) ** 2 / 1000).sum() < 26.1  # χ² of 8 degrees, level 0.001


def test_equation_61_is_met():
    task = CentreOfGravity(tau=7)
    x = task.sample(1, 0, lengths=(3, 2))
    (points, m), y = (x[0, :, :2], x[0, :, 2]), task(x)[0, :, 0]
    first, second = slice(1, 4), slice(5, 7)
    assert y[0] == pytest.approx(np.linalg.norm(m[first] @ points[first] / m[first].sum()))
    assert y[4] == pytest.approx(np.linalg.norm(m[second] @ points[second] / m[second].sum()))
    assert y[[1, 2, 3, 5, 6]] == pytest.approx(np.linalg.norm(points, axis=1)[[1, 2, 3, 5, 6]])


def test_equation_65_is_met():
    task = AverageBySelection(tau=3)
    x = task.sample(1, 0, indices=np.array([(1, 1, 2), (1, 2, 3), (3, 3, 3)]) - 1)
    v1, v2, v3 = x[0, :, :2]
    assert task(x)[0] == pytest.approx(np.array([2 * v1 + v2, v1 + v2 + v3, 3 * v3]) / 3)


def test_the_outputs_of_figure_6_rely_on_as_many_inputs_as_the_text_says():
    task = AverageBySelection()
    used = (task.attention(task.sample(1, 0, EQUATION_66))[0] > 0).sum(axis=1)
    assert {n: np.flatnonzero(used == n).tolist() for n in (1, 2, 3)} == {
        1: [1, 3, 6],
        2: [0, 2],
        3: [4, 5, 7],
    }


def test_a_selection_is_equivariant_to_nothing_but_a_set_of_points_is():
    order = np.random.default_rng(0).permutation(6)
    nearest = NearestPoint()
    x = nearest.sample(50, 0)
    assert (nearest(x[:, order]) == nearest(x)[:, order]).all()
    selection = AverageBySelection(tau=6)
    x = selection.sample(50, 0)
    assert (selection(x[:, order]) != selection(x)[:, order]).any()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: NearestPoint(tau=0),
        lambda: NearestPoint()(np.zeros((6, 3))),
        lambda: CentreOfGravity(tau=2),
        lambda: CentreOfGravity().sample(1, 0, lengths=(3, 6)),
        lambda: CentreOfGravity().sample(1, 0, lengths=(1, 7)),
        lambda: CentreOfGravity()(np.ones((10, 3))),
        lambda: CentreOfGravity(lightest=0.0),
        lambda: AverageBySelection(k=0),
        lambda: AverageBySelection()(np.full((8, 5), 0.5)),
        lambda: AverageBySelection()(np.full((8, 5), 8.0)),
    ],
)
def test_what_cannot_be_an_input_is_refused(wrong):
    with pytest.raises(InputError):
        wrong()
