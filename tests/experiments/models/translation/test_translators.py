"""Both translators: what they see, what they do not, and that steps are the whole."""

import pytest
import torch

from exactformer.errors import InputError
from exactformer.experiments.models.translation.altered_order import first_to_end
from exactformer.experiments.models.translation.greedy import translate
from exactformer.experiments.models.translation.recurrent import RecurrentTranslator
from exactformer.experiments.models.translation.subwords import END, PAD, START
from exactformer.experiments.models.translation.transformer import TransformerTranslator

TOKENS = 9
KINDS = ("transformer", "lstm")


def translator(kind, seed=0):
    torch.manual_seed(seed)
    if kind == "lstm":
        return RecurrentTranslator(20, 16, 2, 0.3).eval()
    return TransformerTranslator(20, TOKENS, 16, 2, 32, 2, 0.3).eval()


def sentences(count=6):
    ids = torch.randint(3, 20, (count, TOKENS), generator=torch.Generator().manual_seed(1))
    length = torch.arange(count)[:, None] % TOKENS + 1
    return torch.where(torch.arange(TOKENS) < length, ids, PAD)


def without_cache(model, source, tokens):
    """The same translation by asking the whole model again at every step."""
    said = torch.full((len(source), 1), START)
    ended = torch.zeros(len(source), dtype=torch.bool)
    for _ in range(tokens):
        word = model(source, said)[:, -1].argmax(dim=1).masked_fill(ended, PAD)
        said = torch.cat([said, word[:, None]], dim=1)
        ended |= (word == END) | (word == PAD)
    return said[:, 1:]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_steps_with_kept_keys_say_what_the_whole_model_says(kind, seed):
    model, source = translator(kind, seed), sentences()
    with torch.no_grad():
        expected = without_cache(model, source, TOKENS)
    assert torch.equal(translate(model, source, TOKENS), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_steps_are_those_of_the_whole(kind):
    model, source = translator(kind).double(), sentences()
    said = torch.randint(3, 20, (len(source), 5))
    whole, state = model(source, said), model.begin(source)
    for place in range(5):
        scores, state = model.advance(said[:, place : place + 1], state)
        torch.testing.assert_close(scores[:, 0], whole[:, place])


def test_several_ids_after_others_are_refused():
    model, source = translator("transformer"), sentences()
    said = torch.randint(3, 20, (len(source), 4))
    _, state = model.advance(said[:, :2], model.begin(source))
    with pytest.raises(InputError, match="one id at a time"):
        model.advance(said[:, 2:], state)


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_next_does_not_depend_on_what_comes_later(kind):
    model, source = translator(kind), sentences()
    said = torch.randint(3, 20, (len(source), 6))
    other = said.clone()
    other[:, 3:] = torch.randint(3, 20, (len(source), 3))
    before, after = model(source, said), model(source, other)
    torch.testing.assert_close(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3:], after[:, 3:])


@pytest.mark.parametrize("kind", KINDS)
def test_a_translation_depends_on_the_source_alone(kind):
    """``translate`` is given no reference; what is said by one row is no help to another."""
    model, source = translator(kind), sentences()
    together = translate(model, source, TOKENS)
    alone = torch.cat([translate(model, row[None], TOKENS) for row in source])
    assert torch.equal(together, alone)


def test_positions_moved_along_undo_the_altered_order():
    model, source = translator("transformer").double(), sentences()
    said = torch.randint(3, 20, (len(source), 5))
    expected = model(source, said)
    order = first_to_end(TOKENS, 4)
    altered = model(source[:, order], said)
    assert not torch.allclose(altered, expected)
    model.source_places.copy_(model.source_places[order].clone())
    torch.testing.assert_close(model(source[:, order], said), expected)


def test_padding_is_not_looked_at():
    model, source = translator("transformer").double(), sentences()
    said = torch.randint(3, 20, (len(source), 5))
    expected = model(source, said)
    with torch.no_grad():
        model.words.weight[PAD] = torch.randn(16, dtype=torch.double)
    scores = model(source, said)
    torch.testing.assert_close(scores[..., PAD + 1 :], expected[..., PAD + 1 :])


def test_a_short_sentence_is_ended_and_padded():
    class Counting:
        """Says 5, 6, and then the end; it does not know that it was heard already."""

        def begin(self, source):
            return 5

        def advance(self, said, state):
            word = state if state < 7 else END if state == 7 else 9
            return torch.nn.functional.one_hot(torch.full_like(said, word), 20), state + 1

    said = translate(Counting(), sentences(2), 6)
    assert said.tolist() == [[5, 6, END, PAD, PAD, PAD]] * 2
