"""Layers in place of attention: their symmetries, what they see, and their equal sizes."""

from itertools import product

import pytest
import torch

import exactformer as ef
from exactformer.errors import InputError
from exactformer.experiments.models.mixing import (
    BilinearProjection,
    Block,
    MixingEncoder,
    SelfAttention,
    SeparableConvolution,
    matched_hidden,
    mixer,
)
from exactformer.learning.laws.trained.network import count_parameters

KINDS = ("attention", "bilinear", "convolution")


def encoder(*kinds, tokens=9, **options):
    torch.manual_seed(0)
    return MixingEncoder(kinds, 16, 4, tokens, 48, **options).double().eval()


def inputs(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize(
    ("width", "tokens", "hidden", "shape"),
    [(128, 32, 512, ()), (128, 64, 512, (8, 8)), (64, 32, 128, ()), (32, 16, 64, (4, 4))],
)
def test_every_kind_and_mix_has_the_parameters_of_attention_within_one_percent(
    width, tokens, hidden, shape
):
    counts = {
        kinds: count_parameters(MixingEncoder(kinds, width, 4, tokens, hidden, 3, shape))
        for kinds in product(KINDS, repeat=2)
    }
    wanted = counts["attention", "attention"]
    assert all(abs(count / wanted - 1) <= 0.01 for count in counts.values()), counts


def test_the_matched_size_is_the_nearest_there_is():
    whole = {
        kind: count_parameters(
            Block(
                mixer(kind, 24, 3, 10, 5),
                24,
                matched_hidden(kind, 40, width=24, heads=3, tokens=10, kernel=5),
            )
        )
        for kind in KINDS
    }
    for kind in KINDS:
        assert abs(whole[kind] - whole["attention"]) <= (2 * 24 + 1) / 2


def test_a_layer_that_cannot_be_matched_is_refused_with_the_figures():
    with pytest.raises(InputError, match=r"over 200 tokens has .* more than a whole block"):
        matched_hidden("bilinear", 32, width=16, heads=4, tokens=200)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing(kind):
    model = encoder(kind, kind)
    x, filler = inputs(3, 5, 16), inputs(3, 4, 16)
    mask = torch.arange(9).expand(3, 9) < 5
    padded = model(torch.cat([x, filler], dim=1), mask)[:, :5]
    torch.testing.assert_close(padded, model(x), rtol=0, atol=1e-12)
    unmasked = model(torch.cat([x, filler], dim=1))[:, :5]
    assert (unmasked - model(x)).abs().max() > 1e-3


def test_only_attention_is_equivariant():
    found = {kind: bool(ef.check_equivariance(encoder(kind), 9, 16)) for kind in KINDS}
    assert found == {"attention": True, "bilinear": False, "convolution": False}


def influence(model, tokens):
    """Which token (row) depends on which (column)."""
    x = inputs(1, tokens, 16).requires_grad_()
    values = model(x)[0] @ inputs(16)  # a plain sum would be constant, after a norm
    rows = [torch.autograd.grad(v, x, retain_graph=True)[0][0].abs().sum(1) for v in values]
    return torch.stack(rows) > 0


def test_a_convolution_sees_its_window_and_the_others_see_everything():
    distance = (torch.arange(9)[:, None] - torch.arange(9)).abs()
    assert torch.equal(influence(encoder("convolution"), 9), distance <= 1)
    assert torch.equal(influence(encoder("convolution", "convolution"), 9), distance <= 2)
    assert torch.equal(influence(encoder("convolution", kernel=5), 9), distance <= 2)
    assert influence(encoder("attention"), 9).all()
    assert influence(encoder("bilinear"), 9).all()


def test_on_a_grid_neighbours_are_those_on_the_grid():
    places = torch.stack(torch.meshgrid(torch.arange(3), torch.arange(3), indexing="ij"), -1)
    places = places.reshape(9, 2)
    distance = (places[:, None] - places).abs().amax(-1)
    assert torch.equal(influence(encoder("convolution", shape=(3, 3)), 9), distance <= 1)


def test_a_bilinear_projection_is_linear_and_attention_is_not():
    x, y = inputs(2, 1, 7, 8)
    for layer, linear in ((BilinearProjection(8, 2, 7), True), (SelfAttention(8, 2), False)):
        layer = layer.double()
        gap = layer(x) + layer(y) - layer(x + y) - layer(torch.zeros_like(x))
        assert bool(gap.abs().max() < 1e-12) is linear


def test_attention_is_pytorchs():
    torch.manual_seed(0)
    ours = SelfAttention(8, 2).double()
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True).double()
    theirs.load_state_dict(
        {
            "in_proj_weight": ours.incoming.weight,
            "in_proj_bias": ours.incoming.bias,
            "out_proj.weight": ours.outgoing.weight,
            "out_proj.bias": ours.outgoing.bias,
        }
    )
    x, mask = inputs(2, 5, 8), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    expected, _ = theirs(x, x, x, key_padding_mask=~mask)
    torch.testing.assert_close(ours(x, mask)[mask], expected[mask])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("recurrent", 16, 4, 9, 3), "none of attention, bilinear, convolution"),
        (("attention", 16, 3, 9, 3), "not a multiple"),
        (("convolution", 16, 4, 9, 4), "odd"),
        (("convolution", 16, 4, 9, 3, (2, 2)), "does not have 9 tokens"),
    ],
)
def test_what_is_no_layer_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        mixer(*arguments)


def test_windows_are_no_contexts_until_attention_is_on_top():
    """Two inputs that differ at the last token: a convolution cannot tell their first tokens."""
    x = inputs(9, 16)
    other = x.clone()
    other[-1] = -x[0]
    contexts = torch.stack([x, other]).numpy()
    windows, whole = encoder("convolution", "convolution"), encoder("convolution", "attention")
    alone = ef.is_contextual_mapping(windows, contexts, tolerance=1e-12)
    assert not alone
    assert alone.collisions == 2 * (9 - 3)  # all but the last token and the two that see it
    assert ef.is_contextual_mapping(whole, contexts, tolerance=1e-12)
    assert isinstance(encoder("convolution").blocks[0].mix, SeparableConvolution)
