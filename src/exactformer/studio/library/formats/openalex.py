"""OpenAlex JSON: a work, a list of works, or a page of results from its interface."""

from __future__ import annotations

from itertools import islice
from typing import Any

from exactformer.studio.errors import InvalidError, TooLargeError
from exactformer.studio.library import names
from exactformer.studio.library.formats.texts import (
    Problems,
    check_number,
    collected,
    without_markup,
)
from exactformer.studio.library.records import PaperRecord, checked

_KINDS = {
    "article": "article",
    "review": "article",
    "book-chapter": "article",
    "letter": "article",
    "preprint": "preprint",
    "report": "preprint",
    "book": "book",
    "dissertation": "thesis",
    "dataset": "dataset",
    "software": "software",
}
MOST_WORDS = 10_000
_TOPICS = 12


def recognises(data: Any) -> bool:
    """Whether this is OpenAlex: works with an identifier of it."""
    works = _works(data)
    first = works[0] if isinstance(works, list) and works else None
    return isinstance(first, dict) and names.openalex_id(str(first.get("id", ""))) is not None


def read(data: Any, problems: Problems = None) -> list[PaperRecord]:
    """Return the records of OpenAlex works."""
    works = _works(data)
    if not isinstance(works, list):
        raise InvalidError("results: this must be a list of works.")
    check_number(len(works))
    return collected(works, _record, "Work", problems)


def _works(data: Any) -> Any:
    if isinstance(data, dict) and "results" in data:
        return data["results"]
    return data if isinstance(data, list) else [data]


def _record(work: Any, where: str) -> PaperRecord:
    if not isinstance(work, dict):
        raise InvalidError(f"{where} is not an object.")
    doi = names.doi(_text(work, "doi"))
    place = _inner(work, "primary_location")
    address = _text(place, "landing_page_url")
    open_access = _inner(work, "open_access").get("is_oa")
    fields: dict[str, Any] = {
        "title": without_markup(_text(work, "title") or _text(work, "display_name")),
        "abstract": _abstract(work.get("abstract_inverted_index"), where),
        "year": _year(work.get("publication_year")),
        "kind": _KINDS.get(_text(work, "type"), "other"),
        "source": _text(_inner(place, "source"), "display_name"),
        "open_access": open_access if isinstance(open_access, bool) else None,
        "doi": doi,
        "arxiv_id": names.arxiv_id_of_doi(doi)
        or (names.arxiv_id(address) if "arxiv.org/" in address.lower() else None),
        "openalex_id": names.openalex_id(_text(work, "id")),
        "url": names.web_address(address),
        "authors": [_author(one) for one in _list(work, "authorships") if _name(one)],
        "topics": list(dict.fromkeys(_topics(work))),
        "references": [
            f"openalex:{id}"
            for cited in _list(work, "referenced_works")
            if isinstance(cited, str) and (id := names.openalex_id(cited))
        ],
    }
    return checked(fields, where)


def _abstract(inverted: Any, where: str) -> str:
    """Put an abstract together from its inverted index: each word with the places it has."""
    if not isinstance(inverted, dict):
        return ""
    places: dict[int, str] = {}
    for word, positions in inverted.items():
        for position in positions if isinstance(positions, list) else []:
            if isinstance(position, int) and position >= 0:
                places[position] = word
        if len(places) > MOST_WORDS:
            raise TooLargeError(f"{where}: abstract: more than {MOST_WORDS:,} words.")
    return without_markup(" ".join(places[position] for position in sorted(places)))


def _author(authorship: dict[str, Any]) -> dict[str, Any]:
    houses = [_text(house, "display_name") for house in _list(authorship, "institutions")]
    return {
        "name": _name(authorship),
        "orcid": names.orcid(_text(_inner(authorship, "author"), "orcid")),
        "institutions": [house for house in houses if house],
    }


def _name(authorship: Any) -> str:
    return _text(_inner(authorship, "author"), "display_name")


def _topics(work: dict[str, Any]) -> list[str]:
    for key in ("topics", "keywords", "concepts"):
        topics = [_text(one, "display_name") for one in islice(_list(work, key), _TOPICS)]
        if any(topics):
            return [topic for topic in topics if topic]
    return []


def _year(year: Any) -> int | None:
    return year if isinstance(year, int) and 1000 <= year <= 2999 else None


def _inner(data: Any, key: str) -> dict[str, Any]:
    value = data.get(key) if isinstance(data, dict) else None
    return value if isinstance(value, dict) else {}


def _list(data: Any, key: str) -> list[Any]:
    value = data.get(key) if isinstance(data, dict) else None
    return value if isinstance(value, list) else []


def _text(data: Any, key: str) -> str:
    value = data.get(key) if isinstance(data, dict) else None
    return value.strip() if isinstance(value, str) else ""
