from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from exactformer.errors import InputError, SizeError
from exactformer.learning.ensembles import (
    AttentionConfiguration,
    AttentionEnsemble,
    EnsembleProtocol,
    LinearRNNConfiguration,
    LinearRNNEnsemble,
    evaluate,
    train,
)
from exactformer.learning.ensembles.data import RowOrder
from exactformer.learning.ensembles.models.base import generators
from exactformer.learning.ensembles.training.memory import sequence_bytes, weight_bytes
from tests.examples import examples
from tests.learning.plain_attention import PlainAttention

EPSILON = 1e-2
SHORT = EnsembleProtocol(steps=40, batch_size=8, rate=1e-2, epsilon=EPSILON, reports=8, clip=0.1)

# Two ways of the same training differ by rounding, u = 2⁻⁵³. Gradients here are means over 32 tokens
# and at most 0.1 long, so they differ by 32 · 0.1 u, or 4 u; Adam divides them by ε at the least, and
# 40 steps of at most 10⁻² add up, with the rounding of the weights themselves. The steps' effect on
# later ones is given a factor of 10.
ROUNDING = SHORT.steps * 2**-53 * (1 + 10 * 1e-2 * 4 / EPSILON)


def ensemble(*heads, seeds=None, **changes):
    configurations = [
        AttentionConfiguration(head, seed, width=6, features=5, value_dim=4, **changes)
        for head, seed in zip(heads, seeds or range(len(heads)), strict=True)
    ]
    return AttentionEnsemble(configurations, dtype=torch.float64)


def sample(rows=30, tau=4, seed=0):
    x = torch.rand(rows, tau, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return x, torch.softmax(5 * x, dim=1) * x.sin()


def assert_same_weights(one, other, tolerance):
    for name, weight in one.items():
        torch.testing.assert_close(weight, other[name], rtol=0, atol=tolerance, msg=name)


def plain_training(weights, x, y, protocol):
    """The same with ``torch.nn`` and ``torch.optim``: weights and the loss of every step."""
    network = PlainAttention(weights)
    adam = torch.optim.AdamW if protocol.weight_decay else torch.optim.Adam
    optimiser = adam(
        network.parameters(),
        lr=protocol.rate,
        eps=protocol.epsilon,
        weight_decay=protocol.weight_decay,
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=protocol.rate, total_steps=protocol.steps, cycle_momentum=False
    )
    losses = []
    for rows in RowOrder(len(x), protocol.batch_size, *generators([protocol.seed])).next(
        protocol.steps
    ):
        loss = nn.functional.mse_loss(network(x[rows]), y[rows])
        optimiser.zero_grad()
        loss.backward()
        if protocol.clip is not None:
            nn.utils.clip_grad_norm_(network.parameters(), protocol.clip)
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
    return network.weights(), np.array(losses)


@pytest.mark.parametrize("changes", [{}, {"clip": None}, {"weight_decay": 0.1}], ids=str)
def test_training_is_that_of_torch(changes):
    protocol = replace(SHORT, reports=SHORT.steps, **changes)
    made, (x, y) = ensemble(2, 5, 3), sample()
    before = [made.weights(model) for model in range(3)]
    history = train(made, x, y, protocol)
    for model in range(3):
        weights, losses = plain_training(before[model], x, y, protocol)
        assert_same_weights(made.weights(model), weights, ROUNDING)
        np.testing.assert_allclose(history.losses[model], losses, rtol=0, atol=ROUNDING)
        assert np.abs(losses - losses[0]).max() > 1e6 * ROUNDING, "training must have moved"


@given(st.lists(st.integers(1, 4), min_size=2, max_size=4), st.integers(0, 9))
@settings(max_examples=examples(5))
def test_models_train_together_as_they_train_alone(heads, seed):
    x, y = sample(seed=seed)
    protocol = replace(SHORT, seed=seed, patience=3, least_gain=0.05)
    together = ensemble(*heads)
    history = train(together, x, y, protocol)
    for model, head in enumerate(heads):
        alone = ensemble(head, seeds=[model])
        found = train(alone, x, y, protocol)
        assert found.steps[0] == history.steps[model]
        assert_same_weights(alone.weights(0), together.weights(model), ROUNDING)
        looks = found.losses.shape[1]
        np.testing.assert_allclose(
            history.losses[model, :looks], found.losses[0], rtol=0, atol=ROUNDING
        )
        assert np.isnan(history.losses[model, looks:]).all()


def test_padded_heads_stay_zero():
    made = ensemble(1, 4)
    train(made, *sample(), replace(SHORT, weight_decay=0.1))
    assert torch.all(made.query[0, 1:] == 0)
    assert torch.all(made.key[0, 1:] == 0)
    assert torch.all(made.query[1] != 0)


@pytest.mark.parametrize("steps", [1, 2, 3, 10, 77])
def test_rates_are_those_of_one_cycle(steps):
    parameter = nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.Adam([parameter], lr=1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=0.3, total_steps=steps, cycle_momentum=False
    )
    expected = []
    for _ in range(steps):
        expected.append(schedule.get_last_lr()[0])
        optimiser.step()
        schedule.step() if len(expected) < steps else None
    found = EnsembleProtocol(steps=steps, rate=(0.3, 0.6)).rate_table(2)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-12)
    assert torch.equal(found[:, 1], 2 * found[:, 0])


def test_every_row_comes_once_in_an_epoch():
    rows = RowOrder(10, 4, *generators([0])).next(15).flatten()  # batches straddle epochs
    for epoch in rows.split(10):
        assert sorted(epoch.tolist()) == list(range(10))
    pieces = RowOrder(10, 4, *generators([0]))
    assert torch.equal(torch.cat([pieces.next(7), pieces.next(8)]).flatten(), rows)


def test_a_stopped_model_is_frozen_to_the_bit_and_the_others_go_on():
    x, y = sample()
    made, endless = ensemble(2, 3), ensemble(2, 3)
    made.set_weights(0, {"outer.biases.2": [100.0]})  # so far off that a look changes little
    endless.set_weights(0, {"outer.biases.2": [100.0]})
    at_reports = []

    def note(progress):
        at_reports.append((progress.training.tolist(), made.weights(0)))

    protocol = replace(SHORT, least_gain=0.01, patience=2)
    history = train(made, x, y, protocol, report=note)
    assert history.steps.tolist() == [15, 40]
    assert np.isnan(history.losses[0, 3:]).all()
    assert np.isfinite(history.losses[1]).all()
    stopped = [weights for training, weights in at_reports if not training[0]]
    assert len(stopped) == 6
    for weights in (*stopped, made.weights(0)):
        assert_same_weights(weights, stopped[0], 0)
    train(endless, x, y, replace(protocol, patience=None))
    assert_same_weights(made.weights(1), endless.weights(1), 0)


def test_a_model_that_diverges_does_not_disturb_the_others():
    x, y = sample()
    made, sound = ensemble(2, 3, 2), ensemble(2, 3, 2)
    made.set_weights(1, {"outer.biases.2": [torch.inf]})
    before = made.weights(1)
    history = train(made, x, y, replace(SHORT, finish="lbfgs", finish_steps=3))
    expected = train(sound, x, y, replace(SHORT, finish="lbfgs", finish_steps=3))
    assert history.diverged.tolist() == [False, True, False]
    assert history.steps.tolist() == [40, 0, 40]
    assert_same_weights(made.weights(1), before, 0)
    for model in (0, 2):
        assert_same_weights(made.weights(model), sound.weights(model), 0)
        assert np.array_equal(history.losses[model], expected.losses[model])


def test_a_model_that_diverges_on_the_way_keeps_its_last_finite_weights():
    x, y = sample()
    made = ensemble(2, 3)
    history = train(made, x, y, replace(SHORT, rate=(1e200, 1e-2), schedule="constant"))
    assert history.diverged.tolist() == [True, False]
    assert 0 < history.steps[0] < 40
    assert all(weight.isfinite().all() for weight in made.weights(0).values())


def test_each_model_has_its_own_rate():
    x, y = sample()
    slow_and_fast, fast = ensemble(2, 2, seeds=[1, 1]), ensemble(2, seeds=[1])
    train(slow_and_fast, x, y, replace(SHORT, rate=(0.0, 1e-2)))
    train(fast, x, y, SHORT)
    assert_same_weights(slow_and_fast.weights(0), ensemble(2, seeds=[1]).weights(0), 0)
    assert_same_weights(slow_and_fast.weights(1), fast.weights(0), ROUNDING)


def test_targets_are_chosen_from_a_bank():
    x, y = sample()
    bank = torch.stack([y, -y])
    made = ensemble(2, 3, 2)
    history = train(made, x, bank, SHORT, choice=[1, 0, 1], validation=(x[:9], bank[:, :9]))
    for model, target in enumerate((-y, y, -y)):
        alone = ensemble((2, 3, 2)[model], seeds=[model])
        found = train(alone, x, target, SHORT, validation=(x[:9], target[:9]))
        assert_same_weights(made.weights(model), alone.weights(0), ROUNDING)
        assert history.final[model] == pytest.approx(found.final[0], abs=ROUNDING)
    own_inputs = train(ensemble(2, 3), torch.stack([x, x]), torch.stack([y, y]), SHORT)
    shared = train(ensemble(2, 3), x, y, SHORT)
    np.testing.assert_allclose(own_inputs.losses, shared.losses, rtol=0, atol=ROUNDING)


def test_tokens_that_are_not_there_teach_nothing():
    x, y = sample()
    mask = torch.ones_like(x, dtype=torch.bool)
    mask[:, 3:] = False
    wild_x, wild_y = x.masked_fill(~mask, 1e3), y.masked_fill(~mask, -1e3)
    padded, cut = ensemble(2, 3), ensemble(2, 3)
    train(padded, wild_x, wild_y, SHORT, mask=mask)
    train(cut, x[:, :3], y[:, :3], SHORT)
    for model in range(2):
        assert_same_weights(padded.weights(model), cut.weights(model), ROUNDING)
    torch.testing.assert_close(
        evaluate(padded, wild_x, wild_y, mask=mask, rows=7),
        evaluate(cut, x[:, :3], y[:, :3]),
        rtol=0,
        atol=ROUNDING,
    )


@pytest.mark.parametrize("kind", ["attention", "causal", "recurrent"])
def test_tokens_that_are_not_there_may_be_anything_anywhere(kind):
    """Gaps before the tokens that are there, filled by NaN or by 1000: the same training."""
    x, y = sample()
    mask = torch.ones_like(x, dtype=torch.bool)
    mask[:, :2] = False
    results = []
    for filling in (torch.nan, 1e3, 0.0):
        made = (
            LinearRNNEnsemble([LinearRNNConfiguration(0, states=3)], dtype=torch.float64)
            if kind == "recurrent"
            else ensemble(2, causal=kind == "causal")
        )
        train(made, x.masked_fill(~mask, filling), y.masked_fill(~mask, filling), SHORT, mask=mask)
        results.append(made.weights(0))
    assert all(weight.isfinite().all() for weight in results[0].values())
    for other in results[1:]:
        assert_same_weights(results[0], other, 0.0)


def test_best_weights_on_the_validation_set_are_handed_back():
    x, y = sample()
    made = ensemble(2, 3, 2)
    noisy = replace(SHORT, rate=0.3, schedule="constant", clip=None)
    history = train(made, x, y, noisy, validation=(x[:9], y[:9]))
    assert np.array_equal(history.best, history.validation.min(axis=1))
    assert np.array_equal(history.final, history.best)
    assert np.any(history.validation[:, -1] > history.best), "the last look must not be the best"
    found = evaluate(made, x[:9], y[:9], rows=9)
    np.testing.assert_allclose(found, history.best, rtol=1e-13)


def test_losses_over_pieces_are_those_of_the_whole():
    x, y = sample()
    made = ensemble(2, 3)
    expected = (made(x) - y).square().mean(dim=(1, 2)).detach()
    for rows in (7, 30, 100):
        torch.testing.assert_close(evaluate(made, x, y, rows=rows), expected, rtol=1e-14, atol=0)


def test_parameters_are_as_they_were_but_for_their_values():
    made = ensemble(2, 3)
    identities = [id(p) for p in made.parameters()]
    train(made, *sample(), SHORT)
    assert [id(p) for p in made.parameters()] == identities
    for parameter in made.parameters():
        assert parameter.is_contiguous()
        assert parameter.untyped_storage().nbytes() == parameter.numel() * 8
        assert parameter.grad is None


def test_a_second_order_finish_learns_the_exponential_kernel_to_rounding():
    """y(t) = Σ e^(−s) x(t − s) is a network of one state; 40 values have a mean square near 1."""
    lag = torch.arange(10.0, dtype=torch.float64)
    kernel = torch.exp(-(lag[:, None] - lag)).tril()
    x = torch.rand(40, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    made = LinearRNNEnsemble(
        [LinearRNNConfiguration(s, states=4, start="orthogonal", radius=0.5) for s in range(3)],
        dtype=torch.float64,
    )
    protocol = EnsembleProtocol(steps=50, batch_size=16, finish="lbfgs", finish_steps=150)
    history = train(made, x, x @ kernel.T, protocol)
    assert np.all(np.diff(history.finish) <= 0)
    assert np.all(history.final < 1e-26)
    np.testing.assert_allclose(history.final, history.finish[:, -1], rtol=1e-6, atol=1e-30)


def test_a_finish_in_pieces_is_that_of_the_whole():
    x, y = sample()
    protocol = replace(SHORT, steps=0, finish="lbfgs", finish_steps=3)
    whole, pieces = ensemble(2, 3), ensemble(2, 3)
    expected = train(whole, x, y, protocol)
    limit = weight_bytes(pieces, protocol) + 8 * sequence_bytes(pieces, tau=4)  # 8, 8, 8 and 6 rows
    found = train(pieces, x, y, protocol, memory_limit=limit)
    # Three steps of length one at most, each with gradients that differ by a few roundings.
    np.testing.assert_allclose(found.finish, expected.finish, rtol=0, atol=1e3 * 2**-53)


def test_a_finish_that_is_worse_on_the_validation_set_is_not_kept():
    x, y = sample()
    made = ensemble(2, 3)
    protocol = replace(SHORT, finish="lbfgs", finish_steps=20)
    history = train(made, x, y, protocol, validation=(x[:9], -y[:9]))
    assert np.all(history.finish[:, -1] < history.finish[:, 0])
    assert np.array_equal(history.final, history.best)


def test_no_steps_and_no_finish_change_nothing():
    made, (x, y) = ensemble(2, 3), sample()
    history = train(made, x, y, replace(SHORT, steps=0))
    assert history.losses.shape == (2, 0)
    assert_same_weights(made.weights(0), ensemble(2, 3).weights(0), 0)
    np.testing.assert_allclose(history.final, evaluate(made, x, y), rtol=1e-14)


def test_precision_is_set_for_training_alone():
    seen = []
    before = torch.get_float32_matmul_precision()
    train(
        ensemble(2),
        *sample(),
        replace(SHORT, precision="high"),
        report=lambda progress: seen.append(torch.get_float32_matmul_precision()),
    )
    assert set(seen) == {"high"}
    assert torch.get_float32_matmul_precision() == before


def test_what_does_not_fit_is_refused_before_it_is_allocated():
    made, (x, y) = ensemble(2, 3), sample()
    fitting = weight_bytes(made, SHORT) + 3 * sequence_bytes(made, tau=4)
    with pytest.raises(SizeError, match="a batch_size of 3 would fit"):
        train(made, x, y, SHORT, memory_limit=fitting)
    train(made, x, y, replace(SHORT, batch_size=3), memory_limit=fitting)
    with pytest.raises(SizeError, match="fewer models would fit"):
        train(made, x, y, SHORT, memory_limit=1000)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (((5,), (5, 4)), {}, r"x has shape \(5,\)"),
        (((5, 4), (5, 3)), {}, "they must agree"),
        (((5, 4), (3, 5, 4)), {}, "3 sets of sequences and 2 models"),
        (((5, 4), (3, 5, 4)), {"choice": [0, 3]}, "2 numbers from 0 to 2"),
        (((3, 5, 4), (2, 5, 4)), {}, "different numbers of entries"),
        (((5, 4), (5, 4)), {"mask": np.zeros((5, 4), bool)}, "without a token"),
        (((5, 4), (5, 4)), {"mask": np.ones((5, 3), bool)}, "mask has shape"),
        (((0, 4), (0, 4)), {}, "nothing to learn from"),
        (((5, 0), (5, 0)), {}, "nothing to learn from"),
        (((5, 4), (5, 4)), {"validation": (np.ones((5, 4)),)}, "validation is"),
        (((5, 4), (5, 4)), {"protocol": replace(SHORT, rate=(1.0,) * 3)}, "rate has 3 entries"),
    ],
)
def test_data_that_do_not_fit_the_models_are_refused(arguments, options, message):
    protocol = options.pop("protocol", SHORT)
    with pytest.raises(InputError, match=message):
        train(ensemble(2, 3), *(np.ones(shape) for shape in arguments), protocol, **options)


@pytest.mark.parametrize(
    "option",
    [
        {"batch_size": 0},
        {"schedule": "linear"},
        {"finish": "newton"},
        {"reports": 0},
        {"betas": (0, 0.9)},
        {"betas": (0.9,)},
        {"clip": -1.0},
        {"rate": -1.0},
        {"rate": (0.1, float("nan"))},
        {"steps": 1.5},
        {"patience": 0},
        {"finish_rows": 0},
        {"finish_steps": -1},
        {"precision": "low"},
    ],
)
def test_protocols_that_make_no_sense_are_refused(option):
    with pytest.raises(InputError, match=next(iter(option))):
        EnsembleProtocol(**option)
