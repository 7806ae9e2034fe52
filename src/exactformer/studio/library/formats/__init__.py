"""Formats in which records are read and written: BibTeX and this library's own JSON."""

from __future__ import annotations

from exactformer.studio.errors import InvalidError
from exactformer.studio.library.formats import bibtex, own
from exactformer.studio.library.records import PaperRecord


def read(text: str) -> list[PaperRecord]:
    """Return the records of a text; its content tells which format it is in."""
    start = text.lstrip()[:1]
    if start and start in "{[":
        records = own.read(own.parsed(text))
    elif "@" in text:
        records = bibtex.read(text)
    else:
        raise InvalidError("This is neither BibTeX nor JSON that this library has written.")
    if not records:
        raise InvalidError("The text holds no record.")
    return records
