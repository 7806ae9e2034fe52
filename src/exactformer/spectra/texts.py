"""Texts as a model's inputs, by its tokenizer."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from exactformer.errors import InputError, needs


class CutTextWarning(UserWarning):
    """Texts are longer than the model reads."""


def are_texts(inputs: Any) -> bool:
    """Whether inputs are a list of texts."""
    return isinstance(inputs, list | tuple) and bool(inputs) and isinstance(inputs[0], str)


def tokenizer_at(path: str | Path) -> Any:
    """Load the tokenizer saved with a model; nothing is fetched."""
    with needs("models", "reading texts"):
        from transformers import AutoTokenizer
    try:
        return AutoTokenizer.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: no tokenizer there ({error}); give tokenizer=") from error


def tokenized(inputs: Any, tokenizer: Any, model: Any, batch_size: int) -> Any:
    """Return texts as batches of tokens, and other inputs as they are."""
    return TokenizedTexts(inputs, tokenizer, model, batch_size) if are_texts(inputs) else inputs


class TokenizedTexts:
    """Batches of texts, tokenized when they are asked for, padded to the longest of the batch."""

    def __init__(self, texts: Sequence[str], tokenizer: Any, model: Any, batch_size: int) -> None:
        if tokenizer is None:
            raise InputError(
                "the inputs are texts: give tokenizer=, or a model by its path with one beside it"
            )
        self._texts, self._tokenizer, self._size = list(texts), tokenizer, batch_size
        config = getattr(model, "config", None)
        self._decodes = bool(getattr(config, "is_encoder_decoder", False))
        self._longest = _longest(tokenizer, config)
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token

    def __len__(self) -> int:
        return -(-len(self._texts) // self._size)

    def _batch(self, place: int) -> dict[str, Any]:
        """Return a batch; a model with a decoder gets each text on both sides."""
        texts = self._texts[place * self._size : (place + 1) * self._size]
        batch = dict(
            self._tokenizer(
                texts, return_tensors="pt", padding=True, truncation=True, max_length=self._longest
            )
        )
        if batch["input_ids"].shape[1] == self._longest:
            self._warn_if_cut(texts)
        if self._decodes:
            batch["decoder_input_ids"] = batch["input_ids"]
            batch["decoder_attention_mask"] = batch["attention_mask"]
        return batch

    def _warn_if_cut(self, texts: Sequence[str]) -> None:
        whole = self._tokenizer(texts, verbose=False)["input_ids"]
        if max(map(len, whole)) > self._longest:
            warnings.warn(
                f"a text of {max(map(len, whole)):,} tokens is cut to the {self._longest:,} that the "
                "model or its tokenizer takes; split long texts to have all of them read",
                CutTextWarning,
                stacklevel=2,
            )

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self._batch(place) for place in range(len(self)))


def _longest(tokenizer: Any, config: Any) -> int:
    known = [tokenizer.model_max_length, getattr(config, "max_position_embeddings", None)]
    return min([length for length in known if isinstance(length, int) and length > 0], default=512)
