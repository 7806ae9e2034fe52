"""Texts as inputs: what a model cannot read is said."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest

from exactformer.spectra.texts import CutTextWarning, TokenizedTexts

pytest.importorskip("transformers", reason="transformers is not installed")


def texts(*counts: int) -> TokenizedTexts:
    """Texts of so many words for a model that reads four."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({"[PAD]": 0, "cat": 1}, unk_token="[PAD]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]")
    model = SimpleNamespace(config=SimpleNamespace(max_position_embeddings=4))
    return TokenizedTexts([" ".join(["cat"] * count) for count in counts], fast, model, 2)


def test_a_text_that_is_cut_is_told() -> None:
    with pytest.warns(CutTextWarning, match="a text of 9 tokens is cut to the 4"):
        batches = list(texts(2, 3, 9, 5))
    assert [batch["input_ids"].shape for batch in batches] == [(2, 3), (2, 4)]


def test_texts_that_fit_are_read_without_a_word() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [batch["input_ids"].shape for batch in texts(4, 2)] == [(2, 4)]
