from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from exactformer.errors import InputError
from exactformer.learning.ensembles import AttentionConfiguration, AttentionEnsemble
from exactformer.learning.ensembles.models.positions import sinusoids
from tests.examples import examples
from tests.learning.plain_attention import PlainAttention

SMALL = AttentionConfiguration(2, 0, width=6, features=5, value_dim=4)


def ensemble(*heads, seeds=None, **changes):
    configurations = [
        replace(SMALL, head_dim=head, seed=seed, **changes)
        for head, seed in zip(heads, seeds or range(len(heads)), strict=True)
    ]
    return AttentionEnsemble(configurations, dtype=torch.float64)


def inputs(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def assert_equal_up_to_rounding(a, b):
    # Values are of order one and every sum has fewer than 100 terms: 1e3 roundings are ample.
    torch.testing.assert_close(a, b, rtol=1e3 * 2**-53, atol=1e3 * 2**-53)


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 4),
    st.sampled_from(["relu", "gelu", "tanh"]),
    st.booleans(),
)
@settings(max_examples=examples(30))
def test_every_model_is_the_plain_transformer_of_equation_5(heads, d, o, depth, act, causal):
    made = ensemble(*heads, input_dim=d, output_dim=o, depth=depth, activation=act, causal=causal)
    x = inputs(3, 4) if d == 1 else inputs(3, 4, d)
    activation = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh}[act]
    for model, output in enumerate(made(x)):
        plain = PlainAttention(made.weights(model), activation, causal)
        assert_equal_up_to_rounding(output, plain(x))


def test_models_may_have_inputs_of_their_own():
    made, x = ensemble(1, 3), inputs(2, 5, 4)
    assert made(x).shape == (2, 5, 4)
    for model in range(2):
        assert_equal_up_to_rounding(made(x)[model], made(x[model])[model])


def test_attention_is_a_probability_over_tokens_for_every_query():
    attention = ensemble(1, 2, 3).attention(inputs(5, 7))
    assert attention.shape == (3, 5, 7, 7)
    assert_equal_up_to_rounding(attention.sum(dim=-1), torch.ones(3, 5, 7, dtype=torch.float64))


def test_a_model_does_not_depend_on_its_company():
    together, alone = ensemble(1, 4, 2, seeds=[7, 8, 9]), ensemble(4, seeds=[8])
    for name, weight in alone.weights(0).items():
        assert torch.equal(together.weights(1)[name], weight), name


def test_models_of_one_seed_share_all_but_query_and_key():
    made = ensemble(1, 4, seeds=[3, 3])
    first, second = made.weights(0), made.weights(1)
    for name in set(first) - {"query", "key"}:
        assert torch.equal(first[name], second[name]), name
    assert first["query"].shape == (1, 5)
    assert second["query"].shape == (4, 5)


def test_weights_start_uniform_within_one_over_the_root_of_fan_in():
    """The distribution of ``nn.Linear``: with 4000 draws the largest is within 1 % of the bound."""
    made = AttentionEnsemble([AttentionConfiguration(64, 5, width=64, features=64, value_dim=64)])
    weights = made.weights(0)
    for name, fan_in in (("inner.weights.1", 64), ("query", 64), ("key", 64), ("value", 64)):
        largest = weights[name].abs().max().item() * fan_in**0.5
        assert 0.99 < largest <= 1, name
        assert (
            abs(weights[name].mean().item()) * fan_in**0.5 < 5 / (3 * weights[name].numel()) ** 0.5
        )
    reference = nn.Linear(64, 64).weight
    assert weights["query"].std().item() == pytest.approx(reference.std().item(), rel=0.05)


def test_padded_heads_have_no_gradient():
    made = ensemble(1, 3, 5)
    made(inputs(6, 4)).square().sum().backward()
    for weight in (made.query, made.key):
        for model, head in enumerate((1, 3, 5)):
            assert torch.all(weight.detach()[model, head:] == 0)
            assert torch.all(weight.grad[model, head:] == 0)
            assert torch.all(weight.grad[model, :head] != 0)


def test_without_positions_the_models_are_permutation_equivariant():
    made, x, order = ensemble(1, 3), inputs(4, 6), torch.tensor([3, 0, 5, 1, 2, 4])
    assert_equal_up_to_rounding(made(x[:, order]), made(x)[:, :, order])


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "one-hot"])
def test_positions_tell_orders_apart(positions):
    made = ensemble(1, 3, positions=positions, position_dim=5, tokens=6)
    x, order = inputs(4, 6), torch.tensor([3, 0, 5, 1, 2, 4])
    assert (made(x[:, order]) - made(x)[:, :, order]).abs().amax() > 1e-6


def test_positions_are_an_affine_map_of_the_token():
    """x(t) ↦ A x(t) + e(t), section 4.1."""
    made, x = ensemble(1, 3, positions="sinusoidal", position_dim=5, input_dim=2), inputs(4, 6, 2)
    encoded = made.positions(x)
    A = made.positions.matrix.detach()
    expected = torch.einsum("mij,btj->mbti", A, x) + sinusoids(6, 5)
    assert_equal_up_to_rounding(encoded, expected)
    exact = ensemble(1, positions="one-hot", tokens=8).positions(inputs(4, 6, 1))
    assert torch.equal(exact[..., 1:], torch.eye(6, 8, dtype=torch.float64).expand(4, -1, -1))


def test_causal_models_do_not_see_what_comes_later():
    made, x = ensemble(2, 3, causal=True), inputs(4, 6)
    changed = x.clone()
    changed[:, 4:] += 1
    assert torch.equal(made(x)[:, :, :4], made(changed)[:, :, :4])


def test_tokens_that_are_not_there_change_nothing():
    made, x = ensemble(2, 3), inputs(4, 6)
    mask = torch.ones(4, 6, dtype=torch.bool)
    mask[:, 4:] = False
    assert_equal_up_to_rounding(made(x, mask)[:, :, :4], made(x[:, :4]))


def test_weights_can_be_taken_from_one_model_and_given_to_another():
    made, x = ensemble(2, 3, 2), inputs(4, 6)
    made.set_weights(0, made.weights(2))
    assert torch.equal(made(x)[0], made(x)[2])
    assert torch.all(made.query[0, 2:] == 0)


@pytest.mark.parametrize(("tau", "options"), [(4, {}), (9, {"activation": "gelu", "input_dim": 3})])
def test_memory_is_predicted_within_a_factor_of_two(tau, options):
    """What autograd keeps for one more sequence, against the count."""

    def kept(batch):
        sizes = {}
        x = inputs(batch, tau, options["input_dim"]) if options else inputs(batch, tau)

        def note(tensor):
            storage = tensor.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes() // 8
            holder.append(tensor)
            return tensor

        holder = []
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            made(x)
        return sum(sizes.values())

    made = ensemble(2, 5, 3, **options)
    one_more = (kept(24) - kept(8)) / 16 / made.models
    assert made.activations(tau) / 2 <= one_more <= made.activations(tau)


def test_sizes_that_differ_are_refused():
    with pytest.raises(InputError, match="share width, and these have 6, 7"):
        AttentionEnsemble([SMALL, replace(SMALL, width=7)])
    with pytest.raises(InputError, match="at least one"):
        AttentionEnsemble([])
    with pytest.raises(InputError, match="head_dim is 0"):
        AttentionConfiguration(0)
    with pytest.raises(InputError, match="need tokens="):
        ensemble(1, positions="one-hot")
    with pytest.raises(InputError, match="longer than tokens=3"):
        ensemble(1, positions="learned", tokens=3)(inputs(2, 4))


def test_inputs_of_another_shape_are_refused():
    with pytest.raises(InputError, match=r"take \(B, τ, 2\) or \(3, B, τ, 2\)"):
        ensemble(1, 2, 3, input_dim=2)(inputs(4, 6))
    with pytest.raises(InputError, match="query of model 0 has shape"):
        ensemble(1, 2).set_weights(0, {"query": inputs(2, 5)})
    with pytest.raises(InputError, match="no weight 'queries'"):
        ensemble(1, 2).set_weights(0, {"queries": inputs(2, 5)})
