"""Formats of files: one module each, both directions where there are two.

bibtex, own             read and written
csl, arxiv, openalex    read
table                   written, for spreadsheets
texts                   bytes to text and data, within bounds

Which format a file is in is told by what it holds, never by its name (:func:`read`).
"""

from __future__ import annotations

from exactformer.studio.errors import InvalidError
from exactformer.studio.library.formats import arxiv, bibtex, csl, openalex, own
from exactformer.studio.library.formats.texts import Problems, decoded, parsed_json
from exactformer.studio.library.records import PaperRecord

FORMATS = {
    "bibtex": "BibTeX",
    "csl": "CSL-JSON",
    "arxiv": "arXiv Atom",
    "openalex": "OpenAlex JSON",
    "library": "exactformer JSON",
}
_JSON = {"library": own, "openalex": openalex, "csl": csl}


def read(data: bytes, problems: Problems = None) -> tuple[str, list[PaperRecord]]:
    """Return the name of a file's format, and its records.

    One bad record refuses the whole file, unless there are ``problems`` to note it in.
    """
    text = decoded(data)
    start = text.lstrip()[:1]
    name, records = "", []
    if not start:
        raise InvalidError("The file is empty.")
    if start == "<":
        name, records = "arxiv", arxiv.read(text, problems)
    elif start in "{[":
        name, records = _from_json(text, problems)
    elif "@" in text:
        name, records = "bibtex", bibtex.read(text, problems)
    else:
        known = ", ".join(FORMATS.values())
        raise InvalidError(f"This is none of the formats we read: {known}.")
    if not records:
        told = f" {problems[0]}" if problems else ""
        raise InvalidError(f"The file holds no record ({FORMATS[name]}).{told}")
    return name, records


def _from_json(text: str, problems: Problems) -> tuple[str, list[PaperRecord]]:
    data = parsed_json(text)
    for name, module in _JSON.items():
        if module.recognises(data):
            return name, module.read(data, problems)
    if data in ([], {}, {"results": []}):
        raise InvalidError("The file holds no record.")
    raise InvalidError(
        "This JSON is none we read: CSL-JSON (items with type and title), OpenAlex works (with an "
        "id such as https://openalex.org/W…) or an export of this library."
    )
