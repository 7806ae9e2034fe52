"""Vision transformers trained as one: every member is the model it would be alone."""

import dataclasses

import pytest
import torch

from exactformer.errors import InputError
from exactformer.experiments.models.vision import (
    VisionConfiguration,
    VisionEnsemble,
    VisionTransformer,
)
from exactformer.experiments.models.vision.model import normalised, patches_of
from exactformer.spectra import spectrum

SMALL = VisionConfiguration(
    head_dim=8, side=16, classes=4, width=12, layers=3, heads=2, value_dim=5, hidden=20
)


def variants(**changes):
    return dataclasses.replace(SMALL, **changes)


MEMBERS = [
    SMALL,
    variants(head_dim=1, seed=1),
    variants(head_dim=3, seed=2, moved=5),
    variants(head_dim=3),
]


def some_images(count=6, side=16, seed=0):
    source = torch.Generator().manual_seed(seed)
    return torch.randint(256, (count, 3, side, side), generator=source, dtype=torch.uint8)


def test_a_member_alone_answers_as_in_the_ensemble():
    ensemble = VisionEnsemble(MEMBERS, torch.float64)
    images = normalised(some_images()).double()
    together = ensemble(images)
    assert together.shape == (len(MEMBERS), 6, 4)
    for k, logits in enumerate(together):
        alone = ensemble.member(k)
        assert isinstance(alone, VisionTransformer)
        assert alone.blocks[0].attention.query.out_features == 2 * MEMBERS[k].head_dim
        torch.testing.assert_close(alone(images), logits, rtol=0, atol=1e-10)


def test_a_model_without_feed_forward_parts_stands_alone_too():
    ensemble = VisionEnsemble([variants(hidden=0), variants(hidden=0, head_dim=2)], torch.float64)
    images = normalised(some_images()).double()
    for k, logits in enumerate(ensemble(images)):
        torch.testing.assert_close(ensemble.member(k)(images), logits, rtol=0, atol=1e-10)


def test_a_member_does_not_depend_on_its_company():
    together = VisionEnsemble(MEMBERS, torch.float64)
    images = normalised(some_images()).double()
    for k, one in enumerate(MEMBERS):
        alone = VisionEnsemble([one], torch.float64)
        for name, value in alone.weights(0).items():
            assert torch.equal(value, together.weights(k)[name]), name
        torch.testing.assert_close(alone(images)[0], together(images)[k], rtol=0, atol=1e-12)


def test_models_of_one_seed_differ_in_queries_and_keys_alone():
    ensemble = VisionEnsemble([SMALL, variants(head_dim=3)])
    one, two = ensemble.weights(0), ensemble.weights(1)
    differing = {name for name in one if one[name].shape != two[name].shape}
    assert differing == {"queries", "keys"}
    assert all(torch.equal(one[name], two[name]) for name in one if name not in differing)


def test_padding_is_zero_and_has_no_gradient():
    ensemble = VisionEnsemble(MEMBERS, torch.float64)
    with torch.no_grad():  # even if something were there
        ensemble.queries += 1.0
        ensemble.keys += 1.0
    ensemble(normalised(some_images()).double()).square().sum().backward()
    for part in (ensemble.queries, ensemble.keys):
        for k, one in enumerate(MEMBERS):
            assert torch.count_nonzero(part.grad[k, ..., one.head_dim :]) == 0
            assert torch.count_nonzero(part.grad[k, ..., : one.head_dim]) > 0


def test_the_first_patches_come_last():
    assert variants(moved=3).order == [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2]
    moved = VisionEnsemble([variants(moved=3)], torch.float64).member(0)
    still = VisionEnsemble([SMALL], torch.float64).member(0)
    images = normalised(some_images()).double()
    patches = patches_of(images, 4)
    shuffled = torch.cat([patches[:, 3:], patches[:, :3]], dim=1)
    back = shuffled.reshape(6, 4, 4, 3, 4, 4).permute(0, 3, 1, 4, 2, 5).reshape(6, 3, 16, 16)
    torch.testing.assert_close(moved(images), still(back), rtol=0, atol=1e-12)
    assert not torch.allclose(moved(images), still(images))


def test_patches_are_cut_row_by_row():
    image = torch.arange(3 * 64.0).reshape(1, 3, 8, 8)
    patches = patches_of(image, 4)
    assert torch.equal(patches[0, 1].reshape(3, 4, 4), image[0, :, :4, 4:])
    assert torch.equal(patches[0, 2].reshape(3, 4, 4), image[0, :, 4:, :4])


def test_a_short_format_for_products_changes_little():
    images = normalised(some_images())
    exact, short = VisionEnsemble(MEMBERS), VisionEnsemble(MEMBERS, compute=torch.bfloat16)
    torch.testing.assert_close(short(images), exact(images), rtol=0, atol=0.05)
    assert short(images).dtype == torch.float32


def test_what_is_dropped_adds_nothing():
    ensemble = VisionEnsemble(MEMBERS, torch.float64)
    images = normalised(some_images()).double()
    kept = torch.ones(SMALL.layers, 2, 6, dtype=torch.float64)
    torch.testing.assert_close(ensemble(images, kept), ensemble(images))
    kept[:, :, 2] = 0
    logits = ensemble(images, kept)
    assert torch.equal(logits[:, 0], ensemble(images, kept)[:, 0])
    without = VisionEnsemble(MEMBERS, torch.float64)
    with torch.no_grad():
        without.project.zero_()
        without.narrow.zero_()
    torch.testing.assert_close(logits[:, 2], without(images)[:, 2])
    torch.testing.assert_close(logits[:, 3], ensemble(images)[:, 3])


def test_every_layer_and_head_has_a_spectrum():
    ensemble = VisionEnsemble(MEMBERS)
    for k, one in enumerate(MEMBERS):
        found = spectrum(
            ensemble.member(k), normalised(some_images()), control="reinitialised", progress=False
        )
        assert [layer.heads for layer in found.layers] == [one.heads] * one.layers
        assert {layer.head_dim for layer in found.layers} == {one.head_dim}
        assert found.agreement < 1e-5
        assert found.control is not None


def test_parameters_are_counted():
    alone = VisionEnsemble([SMALL]).member(0)
    assert sum(p.numel() for p in alone.parameters()) == SMALL.parameters


@pytest.mark.parametrize(
    "changes", [{"head_dim": 0}, {"side": 15}, {"moved": 16}, {"hidden": -1}, {"layers": 0}]
)
def test_sizes_that_make_no_model_are_refused(changes):
    with pytest.raises(InputError):
        variants(**changes)


def test_models_that_share_too_little_are_refused():
    with pytest.raises(InputError, match="width"):
        VisionEnsemble([SMALL, variants(width=16)])
