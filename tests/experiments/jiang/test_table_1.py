"""Table 1: its data, what altering the order is, and that nothing is told that should not be known."""

import gzip
import sys
from dataclasses import replace

import pytest
import torch

from exactformer.errors import InputError
from exactformer.experiments import Scale, find, real_data
from exactformer.experiments.jiang.moved_patches import learn_patches
from exactformer.experiments.jiang.table_1 import (
    CAUSAL,
    LSTM,
    MOVED,
    NAMERS,
    NAMING,
    ORDERS,
    ORIGINAL,
    READERS,
    TRANSFORMER,
    TRANSLATORS,
    _kept,
)
from exactformer.experiments.jiang.token_recall import Namer, learn_to_name, share_right
from exactformer.experiments.jiang.translation import (
    QUALITIES,
    THINGS,
    learn_to_translate,
    made_up,
    pairs,
    score,
    translator,
)
from exactformer.experiments.models.translation.altered_order import first_to_end
from exactformer.experiments.models.translation.subwords import PAD

SMOKE = {**TRANSLATORS[Scale.SMOKE][TRANSFORMER], "model": TRANSFORMER, "seed": 0}


def made_up_pairs():
    return pairs("made-up", 200, 20, 320, 8)


def test_every_scale_has_every_model_and_only_smoke_makes_up_its_data():
    for scale in Scale:
        grid = find("jiang-table-1").cells(scale)
        kinds = {(cell["task"], cell["model"], cell.get("order")) for cell in grid}
        assert kinds == {
            *(("translation", model, None) for model in (TRANSFORMER, LSTM)),
            *(("images", model, None) for model in (TRANSFORMER, LSTM)),
            *(("naming", model, order) for model in NAMERS for order in ORDERS),
        }
        made = {cell["data"] in ("made-up", "synthetic") for cell in grid}
        assert made == {scale is Scale.SMOKE}


def test_ten_are_moved_beyond_smoke_scale():
    for scale in (Scale.DEFAULT, Scale.FULL):
        assert {cell["moved"] for cell in find("jiang-table-1").cells(scale)} == {10}


def test_the_other_language_says_the_thing_first():
    for sentence, translation in zip(*made_up(30), strict=True):
        words, other = sentence.split(), translation.split()
        assert len(words) == len(other)
        for k in range(0, len(words), 2):
            assert (other[k], other[k + 1]) == (THINGS[words[k + 1]], QUALITIES[words[k]])


def test_pairs_are_read_line_by_line_from_both_languages(tmp_path, monkeypatch):
    texts = {
        "train.en": ["A dog.", "Two cats.", "left out"],
        "train.de": ["Ein Hund.", "Zwei Katzen.", "ausgelassen"],
        "test_2016_flickr.en": ["A cat."],
        "test_2016_flickr.de": ["Eine Katze."],
    }
    folder = tmp_path / "multi30k"
    folder.mkdir()
    for name, lines in texts.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    monkeypatch.setenv(real_data.VARIABLE, str(tmp_path))
    for reader in (pairs, real_data.multi30k):
        reader.cache_clear()
    data = pairs("multi30k", 2, 5, 280, 30)
    for reader in (pairs, real_data.multi30k):
        reader.cache_clear()
    assert data.subwords.decode(data.source) == texts["train.en"][:2]
    assert data.subwords.decode(data.target) == texts["train.de"][:2]
    assert data.subwords.decode(data.test) == texts["test_2016_flickr.en"]
    assert data.references == tuple(texts["test_2016_flickr.de"])


def test_a_tiny_translator_learns_the_made_up_language():
    found = learn_to_translate({**SMOKE, "steps": 250, "fine_steps": 1}, "cpu")
    assert found["original"] > 95
    assert found["moved at once"] < 50
    assert found["places moved too"] == pytest.approx(found["original"])


@pytest.mark.parametrize("model", [TRANSFORMER, LSTM])
def test_a_cell_gives_the_same_scores_twice(model):
    parameters = {**TRANSLATORS[Scale.SMOKE][model], "model": model, "seed": 3}
    first, again = (
        learn_to_translate({**parameters, "steps": 5, "fine_steps": 3}, "cpu") for _ in range(2)
    )
    assert first == again


def test_a_score_does_not_change_what_is_translated_when_references_do(monkeypatch):
    data, said = made_up_pairs(), []

    def keep(lines, references):
        said.append(list(lines))
        return 0.0

    monkeypatch.setattr("exactformer.experiments.jiang.translation.bleu", keep)
    torch.manual_seed(0)
    model = translator(SMOKE, data.subwords.size).eval()
    for references in (data.references, ("nothing",) * len(data.references)):
        score(model, replace(data, references=references), torch.arange(8))
    assert said[0] == said[1]
    assert len(said[0]) == len(data.references)


def test_a_missing_counter_of_bleu_is_told_before_training(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    monkeypatch.setattr("exactformer.experiments.jiang.translation.fit", None)
    with pytest.raises(InputError, match=r"exactformer\[reproduce\]"):
        learn_to_translate(SMOKE, "cpu")


@pytest.mark.parametrize("kind", NAMERS)
def test_only_the_full_transformer_looks_ahead(kind):
    torch.manual_seed(0)
    model = Namer(kind, 30, 8, 16, 2, 2).eval()
    ids = torch.randint(3, 30, (4, 8))
    other = ids.clone()
    other[:, 5:] = torch.randint(3, 30, (4, 3))
    before, after = model(ids)[:, :5], model(other)[:, :5]
    assert torch.allclose(before, after) == (kind in (CAUSAL, LSTM))


def test_padding_is_not_counted():
    asked = torch.tensor([[3, 4, PAD], [5, PAD, PAD]])
    named = torch.tensor([[3, 9, PAD], [5, PAD, PAD]])
    assert share_right(named, asked) == pytest.approx(2 / 3)


def test_causal_models_can_only_guess_what_comes_later():
    parameters = {**NAMING[Scale.SMOKE], "model": LSTM, "order": MOVED, "seed": 0}
    found = learn_to_name(parameters, "cpu")
    assert found["first"] < found["guess"] + 0.1 < 0.5
    assert learn_to_name({**parameters, "order": ORIGINAL}, "cpu")["first"] > 0.99


def test_an_lstm_reads_the_patches_in_the_order_given():
    parameters = {**READERS[Scale.SMOKE], "seed": 0}
    found = learn_patches(parameters, "cpu")
    assert found["original"] > 0.9
    assert found["moved at once"] < found["original"] - 0.1 < found["control"]


def test_the_share_kept_is_taken_seed_by_seed():
    class Made:
        def __init__(self, **metrics):
            self.metrics = metrics

    assert _kept([Made(moved=[0.4, 0.9], control=[0.5, 0.9])]) == pytest.approx([0.8, 1.0])
    assert _kept([Made(moved=30.0, control=40.0)]) == pytest.approx([0.75])


def test_the_altered_order_is_a_permutation():
    assert sorted(first_to_end(40, 10).tolist()) == list(range(40))
