"""BibTeX in UTF-8, with what is special to TeX written so that it comes out as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from exactformer.studio.services.records import PaperRecord

_TYPES = {
    "article": "article",
    "book": "book",
    "thesis": "phdthesis",
    "software": "software",
    "dataset": "dataset",
}
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "$": r"\$",
}
_MATHEMATICS = re.compile(r"(\$[^$]*\$)")


def written(papers: Iterable[tuple[str, PaperRecord]]) -> Iterator[str]:
    """Write papers as BibTeX; an entry's key is the paper's slug."""
    for slug, record in papers:
        fields = {name: value for name, value in _fields(record).items() if value}
        lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items())
        yield f"@{_TYPES.get(record.kind, 'misc')}{{{slug},\n{lines}}}\n\n"


def _fields(record: PaperRecord) -> dict[str, str]:
    places = {"article": "journal", "book": "publisher", "thesis": "school"}
    arxiv = record.arxiv_id or ""
    return {
        "title": "{" + escaped(record.title) + "}",
        "author": " and ".join(_name(author.name) for author in record.authors),
        "year": str(record.year or ""),
        places.get(record.kind, "howpublished"): escaped(record.source),
        "doi": record.doi or "",
        "eprint": arxiv,
        "archiveprefix": "arXiv" if arxiv else "",
        "url": _address(record.url),
        "keywords": escaped(", ".join(record.topics)),
        "abstract": escaped(record.abstract),
    }


def escaped(text: str) -> str:
    r"""Write text for TeX; mathematics between dollars, if its braces match, stays as it is.

    >>> escaped("50% of $x_1$ & {y}")
    '50\\% of $x_1$ \\& \\{y\\}'
    """
    parts = _MATHEMATICS.split(text)
    return "".join(
        part if index % 2 and _balanced(part) else "".join(_SPECIAL.get(c, c) for c in part)
        for index, part in enumerate(parts)
    )


def _name(name: str) -> str:
    """Write a name so that BibTeX keeps its order; a word "and" or a comma would divide it."""
    plain = escaped(name)
    return f"{{{plain}}}" if re.search(r",|\band\b", name, flags=re.IGNORECASE) else plain


def _address(address: str) -> str:
    """Write an address; braces have no place in one and would end the field."""
    return address.replace("{", "%7B").replace("}", "%7D")


def _balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character == "{") - (character == "}")
        if depth < 0:
            return False
    return depth == 0
