"""Text as windows of tokens, all of one length, and the part of them that no fit sees."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from exactformer.errors import InputError

SHORTEST, LONGEST = 16, 512
"""Tokens in a window."""
_EVERY = 5
"""One window in five is held out."""


def windows_of(
    texts: Any, tokenizer: Any, length: int | None, name: str = "texts", most: int = LONGEST
) -> Tensor:
    """Return windows (number, length) of a text, of several joined by line ends, or of given tokens.

    A window begins with the tokenizer's beginning token, if it sets one before every text. Unless a
    length is given, it is ``most`` or a tenth of the text.
    """
    if isinstance(texts, Tensor):
        if texts.ndim != 2 or texts.is_floating_point() or texts.shape[1] < 2:
            raise InputError(f"{name}: tokens are a tensor of whole numbers (windows, length)")
        return texts.long()
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise InputError(f"{name}: give a text, a list of texts, or a tensor of tokens")
    if tokenizer is None:
        raise InputError(
            f"{name} are texts: give tokenizer=, or a model by its path with one beside it"
        )
    begin = [t for t in tokenizer("")["input_ids"] if t == tokenizer.bos_token_id]
    ids = tokenizer("\n".join(texts), add_special_tokens=False, verbose=False)["input_ids"]
    if length is None:
        length = max(SHORTEST, min(most, len(ids) // 10))
    room = length - len(begin)
    number = len(ids) // room
    if number < 1:
        raise InputError(
            f"{name}: {len(ids):,} tokens, fewer than one window of {room}; give more text, or a "
            "smaller window="
        )
    rows = [begin + ids[i * room : (i + 1) * room] for i in range(number)]
    return torch.tensor(rows)


def parted(windows: Tensor) -> tuple[Tensor, Tensor]:
    """Return windows to fit on, and every fifth to measure on."""
    if len(windows) < 2:
        raise InputError(
            f"the texts fill {len(windows)} window of {windows.shape[1]} tokens: at least two are "
            "needed, one of them to measure on. Give more text, a smaller window=, or held_out="
        )
    kept = torch.arange(len(windows)) % _EVERY == min(_EVERY, len(windows)) - 1
    return windows[~kept], windows[kept]
