"""arXiv's Atom feeds: what its export interface answers. Entities and DTDs are refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

from exactformer.studio.errors import InvalidError
from exactformer.studio.library import names
from exactformer.studio.library.formats.texts import MOST_DEPTH, Problems, check_number, collected
from exactformer.studio.library.records import PaperRecord, checked

_ATOM = "{http://www.w3.org/2005/Atom}"
_ARXIV = "{http://arxiv.org/schemas/atom}"


def read(text: str, problems: Problems = None) -> list[PaperRecord]:
    """Return the records of a feed or of a single entry."""
    root = _parsed(text)
    entries = [root] if root.tag == f"{_ATOM}entry" else root.findall(f"{_ATOM}entry")
    if root.tag not in (f"{_ATOM}feed", f"{_ATOM}entry"):
        raise InvalidError("This XML is not an Atom feed, which is what arXiv's interface gives.")
    check_number(len(entries))
    return collected(entries, _record, "Entry", problems)


class _Builder(TreeBuilder):
    """Builds a tree that is not too deep."""

    depth = 0

    def start(self, tag: str, attributes: dict[str, str], /) -> Element:
        """Open an element."""
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise InvalidError(f"The XML is nested deeper than {MOST_DEPTH} levels.")
        return super().start(tag, attributes)

    def end(self, tag: str, /) -> Element:
        """Close it."""
        self.depth -= 1
        return super().end(tag)


def _parsed(text: str) -> Element:
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import DefusedXMLParser

    # The text is decoded already, whatever encoding it declares.
    parser = DefusedXMLParser(target=_Builder(), encoding="utf-8", forbid_dtd=True)
    try:
        parser.feed(text.encode())
        root: Element = parser.close()
    except ParseError as error:
        line, column = error.position
        raise InvalidError(f"Line {line}, column {column + 1}: this is not XML: {error}.") from None
    except DefusedXmlException:
        raise InvalidError("The XML declares a document type or entities; remove them.") from None
    return root


def _record(entry: Element, where: str) -> PaperRecord:
    address = _text(entry, f"{_ATOM}id")
    identifier = names.arxiv_id(address)
    if identifier is None:
        raise InvalidError(f"{where}: id: {address[:80]!r} is not an arXiv address.")
    doi = names.doi(_text(entry, f"{_ARXIV}doi"))
    published = _text(entry, f"{_ATOM}published")[:4]
    fields: dict[str, Any] = {
        "title": _text(entry, f"{_ATOM}title"),
        "abstract": " ".join(_text(entry, f"{_ATOM}summary").split()),
        "year": int(published) if published.isdecimal() and published.isascii() else None,
        "kind": "preprint",
        "source": _text(entry, f"{_ARXIV}journal_ref")[:200] or "arXiv",
        "open_access": True,
        "doi": doi,
        "arxiv_id": identifier,
        "url": f"https://arxiv.org/abs/{identifier}",
        "authors": list(_authors(entry)),
        "topics": list(dict.fromkeys(_categories(entry))),
    }
    return checked(fields, where)


def _authors(entry: Element) -> Iterator[dict[str, Any]]:
    for author in entry.findall(f"{_ATOM}author"):
        houses = [_words(house) for house in author.findall(f"{_ARXIV}affiliation")]
        if name := _text(author, f"{_ATOM}name"):
            yield {"name": name, "institutions": [house for house in houses if house]}


def _categories(entry: Element) -> Iterator[str]:
    for category in entry.findall(f"{_ATOM}category"):
        if term := " ".join(category.get("term", "").split()):
            yield term


def _text(element: Element, tag: str) -> str:
    found = element.find(tag)
    return _words(found) if found is not None else ""


def _words(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())
