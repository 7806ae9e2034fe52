"""Texts as they are stored: within a stated length, with plain ends of lines."""

from __future__ import annotations

from exactformer.studio.errors import InvalidError, TooLargeError
from exactformer.studio.web import markup


def bounded(name: str, text: str, limit: int, *, required: bool = False) -> str:
    """Return ``text`` ready to store, or say why it cannot be."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    if len(text) > limit:
        raise TooLargeError(f"{name} has {len(text):,} characters; the limit is {limit:,}")
    if required and not text:
        raise InvalidError(f"{name} is empty; write a few words")
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidError(f"{name} holds a character that is not text")
    return text


def prose(name: str, text: str, limit: int, *, required: bool = False) -> str:
    """Return ``text``, which will be shown as markdown, ready to store."""
    return markup.checked(bounded(name, text, limit, required=required))
