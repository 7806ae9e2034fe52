"""Formats of files, each both read and written: BibTeX and this library's own JSON.

The content of a file tells which format it is in, never its name (:func:`read`).
"""

from __future__ import annotations

from exactformer.studio.errors import InvalidError
from exactformer.studio.library.formats import bibtex, own
from exactformer.studio.library.formats.texts import Problems, decoded, parsed_json
from exactformer.studio.library.records import PaperRecord

FORMATS = {"bibtex": "BibTeX", "library": "exactformer JSON"}


def read(data: bytes, problems: Problems = None) -> tuple[str, list[PaperRecord]]:
    """Return the name of a file's format, and its records.

    One bad record refuses the whole file, unless there are ``problems`` to note it in.
    """
    text = decoded(data)
    start = text.lstrip()[:1]
    if not start:
        raise InvalidError("The file is empty.")
    if start in "{[":
        name, records = "library", own.read(parsed_json(text), problems)
    elif "@" in text:
        name, records = "bibtex", bibtex.read(text, problems)
    else:
        known = ", ".join(FORMATS.values())
        raise InvalidError(f"This is none of the formats we read: {known}.")
    if not records:
        told = f" {problems[0]}" if problems else ""
        raise InvalidError(f"The file holds no record ({FORMATS[name]}).{told}")
    return name, records
