import torch
from torch.nn import functional

from exactformer.experiments.models.translation.subwords import PAD
from exactformer.experiments.models.translation.training import cross_entropy, fit
from exactformer.learning.ensembles.data import RowOrder
from exactformer.learning.ensembles.training.protocol import warm_up


def test_the_loss_is_the_mean_surprise_with_padding_left_out():
    torch.manual_seed(0)
    scores, asked = torch.randn(4, 5, 7), torch.randint(0, 7, (4, 5))
    logs, there = functional.log_softmax(scores, dim=-1), asked != PAD
    right = logs.gather(-1, asked[..., None]).squeeze(-1)
    for smoothing in (0.0, 0.1):
        wanted = (1 - smoothing) * right + smoothing * logs.mean(dim=-1)
        torch.testing.assert_close(cross_entropy(scores, asked, smoothing), -wanted[there].mean())


def test_the_rate_rises_to_one_and_falls_to_nearly_nothing():
    share = warm_up(200)
    assert share.max() == share[19] == 1
    assert (share[:19].diff() > 0).all()
    assert (share[20:].diff() < 0).all()
    assert 0 < share[-1] < 1e-3


def test_every_row_is_seen_once_before_any_is_seen_again():
    torch.manual_seed(0)
    rows = RowOrder(10, 5).next(7)
    assert rows.shape == (7, 5)
    for epoch in rows[:6].reshape(3, 10):
        assert sorted(epoch.tolist()) == list(range(10))


def test_a_plane_is_fitted_and_the_model_is_left_ready_for_use():
    torch.manual_seed(0)
    x = torch.randn(64, 3)
    y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.25
    model = torch.nn.Linear(3, 1)
    losses = fit(
        model,
        lambda rows: (model(x[rows])[:, 0] - y[rows]).square().mean(),
        64,
        steps=400,
        batch=16,
        rate=0.1,
    )
    assert len(losses) == 400
    assert losses[-1] < 1e-5 < losses[0]
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())
