"""Vocabularies and inputs as text: tokens with commas or spaces between them, or one per character."""

from __future__ import annotations

import re
from collections.abc import Sequence

from exactformer.errors import InputError
from exactformer.programs.values import Value

_WHOLE = re.compile(r"-?[0-9]{1,9}")


def read_vocabulary(text: str) -> list[Value]:
    """Return the tokens of a vocabulary: ``abc``, ``red, green`` or ``0, 1, 2``, which are numbers.

    >>> read_vocabulary("abc"), read_vocabulary("0, 1, -2")
    (['a', 'b', 'c'], [0, 1, -2])
    """
    text = text.strip()
    if "," not in text:
        return list(text)
    cells = [cell.strip() for cell in text.split(",")]
    if not all(cells):
        raise InputError(f"the vocabulary {text!r} has no token between two commas")
    return [int(cell) if _WHOLE.fullmatch(cell) else cell for cell in cells]


def read_tokens(text: str, vocabulary: Sequence[Value]) -> list[Value]:
    """Return the tokens of an input; what is not in the vocabulary stays text.

    >>> read_tokens("abca", "abc"), read_tokens("2, 10", [2, 10])
    (['a', 'b', 'c', 'a'], [2, 10])
    """
    by_text = {str(token): token for token in vocabulary}
    if len(by_text) < len(vocabulary):
        twice = next(token for token in vocabulary if by_text[str(token)] != token)
        raise InputError(
            f"the vocabulary has two tokens that are written {twice}; use model.decode, which takes "
            "tokens rather than text"
        )
    cells = [cell for cell in re.split(r"[,\s]+", text.strip()) if cell]
    if "," not in text and any(cell not in by_text for cell in cells):
        cells = list(text.strip())
    return [by_text.get(cell, cell) for cell in cells]
