"""CSL-JSON: the form in which citation managers (Zotero, Pandoc, Crossref) give records."""

from __future__ import annotations

from typing import Any

from exactformer.studio.errors import InvalidError
from exactformer.studio.library import names
from exactformer.studio.library.formats.texts import (
    Problems,
    check_number,
    collected,
    without_markup,
)
from exactformer.studio.library.records import PaperRecord, checked

_KINDS = {
    "article-journal": "article",
    "paper-conference": "article",
    "chapter": "article",
    "article-magazine": "article",
    "article-newspaper": "article",
    "article": "preprint",
    "manuscript": "preprint",
    "report": "preprint",
    "speech": "talk",
    "book": "book",
    "thesis": "thesis",
    "software": "software",
    "dataset": "dataset",
}


def recognises(data: Any) -> bool:
    """Whether this is CSL-JSON: items with a ``type`` of its vocabulary."""
    items = data if isinstance(data, list) else [data]
    first = items[0] if items else None
    return isinstance(first, dict) and isinstance(first.get("type"), str) and "title" in first


def read(data: Any, problems: Problems = None) -> list[PaperRecord]:
    """Return the records of CSL-JSON data, one item or a list of them."""
    items = data if isinstance(data, list) else [data]
    check_number(len(items))
    return collected(items, _record, "Item", problems)


def _record(item: Any, where: str) -> PaperRecord:
    if not isinstance(item, dict):
        raise InvalidError(f"{where} is not an object.")
    doi = names.doi(_text(item, "DOI"))
    address = _text(item, "URL")
    fields: dict[str, Any] = {
        "title": without_markup(_text(item, "title")),
        "abstract": without_markup(_text(item, "abstract")),
        "year": _year(item.get("issued")),
        "kind": _KINDS.get(_text(item, "type"), "other"),
        "source": without_markup(_text(item, "container-title") or _text(item, "publisher")),
        "doi": doi,
        "arxiv_id": _arxiv(item, doi, address),
        "url": names.web_address(address),
        "authors": [{"name": name} for name in _names(item.get("author"))],
        "topics": [word.strip() for word in _text(item, "keyword").split(",") if word.strip()],
    }
    return checked(fields, where)


def _text(item: dict[str, Any], key: str) -> str:
    value = item.get(key, "")
    if isinstance(value, list):  # Crossref gives titles as lists
        value = value[0] if value else ""
    return value.strip() if isinstance(value, str) else ""


def _names(authors: Any) -> list[str]:
    written = []
    for author in authors if isinstance(authors, list) else []:
        if not isinstance(author, dict):
            continue
        parts = [_text(author, key) for key in ("given", "non-dropping-particle", "family")]
        parts.append(_text(author, "suffix"))
        written.append(_text(author, "literal") or " ".join(part for part in parts if part))
    return [name for name in written if name]


def _year(issued: Any) -> int | None:
    if not isinstance(issued, dict):
        return None
    try:
        year = int(issued["date-parts"][0][0])
    except (KeyError, IndexError, TypeError, ValueError, OverflowError):
        raw = _text(issued, "raw") or _text(issued, "literal")
        year = int(raw[:4]) if raw[:4].isdecimal() and raw[:4].isascii() else 0
    return year if 1000 <= year <= 2999 else None


def _arxiv(item: dict[str, Any], doi: str | None, address: str) -> str | None:
    if found := names.arxiv_id_of_doi(doi):
        return found
    for key in ("archive_location", "number", "note", "container-title", "id"):
        value = _text(item, key)
        if "arxiv" in value.lower() or _text(item, "archive").lower() == "arxiv":
            words = value.replace(",", " ").split()
            if found := next(filter(None, map(names.arxiv_id, words)), None):
                return found
    return names.arxiv_id(address) if "arxiv.org/" in address.lower() else None
