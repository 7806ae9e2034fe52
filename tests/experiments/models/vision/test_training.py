"""Training vision transformers: what they are shown, and that each is trained as if alone."""

import dataclasses

import pytest
import torch

from exactformer.errors import InputError
from exactformer.experiments.models.vision import (
    Recipe,
    VisionConfiguration,
    VisionEnsemble,
    score,
    train_vision,
)
from exactformer.experiments.models.vision.model import normalised
from exactformer.experiments.models.vision.recipe import augmented, draw_pass
from exactformer.experiments.models.vision.training import soft_losses

SMALL = VisionConfiguration(
    head_dim=4, side=8, classes=2, width=8, layers=2, heads=2, value_dim=4, hidden=8
)
PLAIN = Recipe(
    epochs=3, batch=20, rate=1e-2, margin=0, mirror=False, mix=False, smoothing=0.0, drop_path=0.0
)


def bright_or_dark(count=100):
    source = torch.Generator().manual_seed(0)
    labels = torch.randint(2, (count,), generator=source)
    noise = torch.randint(100, (count, 3, 8, 8), generator=source)
    return (noise + 120 * labels[:, None, None, None]).to(torch.uint8), labels


def one_step(recipe, images):
    plan = draw_pass(recipe, len(images), 2, torch.Generator().manual_seed(0))
    return plan.at(torch.zeros(1, dtype=torch.long))


def test_models_learn():
    images, labels = bright_or_dark()
    ensemble = VisionEnsemble([SMALL, dataclasses.replace(SMALL, head_dim=1, seed=1)])
    before = score(ensemble, images, labels)
    history = train_vision(ensemble, images, labels, PLAIN)
    after = score(ensemble, images, labels)
    assert after.accuracy == [1.0, 1.0]
    assert all(new < old / 2 for new, old in zip(after.loss, before.loss, strict=True))
    assert history.steps == 15
    assert history.diverged == [False, False]
    assert len(history.losses) == 3


def test_a_member_is_trained_as_if_alone():
    images, labels = bright_or_dark()
    recipe = Recipe(epochs=2, batch=20, rate=1e-2, margin=2)
    members = [SMALL, dataclasses.replace(SMALL, head_dim=1, seed=1)]
    together = VisionEnsemble(members, torch.float64)
    train_vision(together, images, labels, recipe)
    for k, one in enumerate(members):
        alone = VisionEnsemble([one], torch.float64)
        train_vision(alone, images, labels, recipe)
        for name, value in alone.weights(0).items():
            torch.testing.assert_close(value, together.weights(k)[name], rtol=1e-7, atol=1e-9)


def test_padding_stays_zero():
    images, labels = bright_or_dark()
    ensemble = VisionEnsemble([SMALL, dataclasses.replace(SMALL, head_dim=1)])
    train_vision(ensemble, images, labels, PLAIN)
    assert torch.count_nonzero(ensemble.queries[1, ..., 1:]) == 0
    assert torch.count_nonzero(ensemble.keys[1, ..., 1:]) == 0


def test_without_changes_images_are_shown_as_they_are():
    images, labels = bright_or_dark()
    step = one_step(PLAIN, images)
    x, share = augmented(images, labels, step, 2)
    assert torch.equal(x, normalised(images[step.rows]))
    assert torch.equal(share.argmax(dim=1), labels[step.rows])
    assert bool((step.kept == 1).all())


def test_images_are_moved_as_if_padded_by_reflection():
    images, labels = bright_or_dark()
    step = one_step(dataclasses.replace(PLAIN, margin=3, mirror=True), images)
    x, _ = augmented(images, labels, step, 2)
    wide = torch.nn.functional.pad(normalised(images[step.rows]), (3,) * 4, mode="reflect")
    for k, (down, right) in enumerate(step.shift.T.tolist()):
        cut = wide[k, :, 3 + down : 11 + down, 3 + right : 11 + right]
        assert torch.equal(x[k], cut.flip(2) if step.mirrored[k] else cut)
    assert step.shift.min() == -3
    assert step.shift.max() == 3
    assert 0 < step.mirrored.sum() < 20


@pytest.mark.parametrize("whole", [True, False])
def test_mixed_labels_have_the_share_of_the_pixels(whole):
    images, labels = bright_or_dark()
    plan = draw_pass(dataclasses.replace(PLAIN, mix=True), 100, 2, torch.Generator().manual_seed(3))
    places = [k for k in range(5) if bool(plan.own[k] < 1) == whole]
    step = plan.at(torch.tensor(places[:1]))
    x, share = augmented(images, labels, step, 2)
    own = normalised(images[step.rows])
    other = own.roll(1, 0)
    for k in range(20):
        told_apart = (own[k] - other[k]).abs() > 0.05
        part = float(((x[k] - other[k]) / (own[k] - other[k]))[told_apart].mean())
        expected = torch.zeros(2)
        expected[labels[step.rows[k]]] += part
        expected[labels[step.rows[k - 1]]] += 1 - part
        torch.testing.assert_close(share[k], expected, rtol=0, atol=0.03)


def test_a_pass_shows_every_image_once_and_is_the_same_again():
    recipe = Recipe(batch=20)
    one, two = (draw_pass(recipe, 100, 2, torch.Generator().manual_seed(5)) for _ in range(2))
    assert sorted(one.rows.flatten().tolist()) == list(range(100))
    assert torch.equal(one.shift, two.shift)
    assert torch.equal(one.kept, two.kept)
    assert torch.equal(one.own, two.own)


def test_parts_are_dropped_more_often_above_and_what_stays_makes_up_for_it():
    plan = draw_pass(Recipe(batch=100, drop_path=0.4), 20_000, 3, torch.Generator().manual_seed(0))
    dropped = (plan.kept == 0).double().mean(dim=(0, 2, 3))
    torch.testing.assert_close(dropped, torch.tensor([0, 0.2, 0.4]).double(), rtol=0, atol=0.02)
    assert float(plan.kept.mean()) == pytest.approx(1, abs=0.02)


def test_soft_losses_are_cross_entropies():
    source = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(3, 7, 4, generator=source), torch.arange(7) % 4
    share = torch.nn.functional.one_hot(labels, 4).float()
    for k, loss in enumerate(soft_losses(logits, share, 0.1)):
        own = torch.nn.functional.cross_entropy(logits[k], labels, label_smoothing=0.1)
        torch.testing.assert_close(loss, own)


def test_a_pass_takes_as_many_steps_as_there_are_whole_batches():
    images, labels = bright_or_dark()
    history = train_vision(
        VisionEnsemble([SMALL]), images, labels, dataclasses.replace(PLAIN, epochs=2)
    )
    assert history.steps == 2 * (len(images) // PLAIN.batch)
    assert len(history.losses) == 2


def test_images_of_another_size_are_refused():
    images, labels = bright_or_dark()
    with pytest.raises(InputError, match="8, 8"):
        train_vision(VisionEnsemble([SMALL]), images[..., :4, :4], labels, PLAIN)


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"drop_path": 1.0}, {"smoothing": -0.1}])
def test_recipes_that_cannot_be_followed_are_refused(wrong):
    with pytest.raises(InputError):
        Recipe(**wrong)
