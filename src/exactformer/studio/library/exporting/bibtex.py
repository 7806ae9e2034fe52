"""BibTeX in UTF-8, with what is special to TeX written so that it comes out as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from exactformer.studio.library.importing.bibtex import MATHEMATICS, SYMBOLS
from exactformer.studio.library.records import PaperRecord

_TYPES = {
    "article": "article",
    "book": "book",
    "thesis": "phdthesis",
    "software": "software",
    "dataset": "dataset",
}
_SPECIAL = {sign: f"\\{name}{{}}" for name, sign in SYMBOLS.items()}
_SPECIAL |= {sign: f"\\{sign}" for sign in "%&#_$"}
_MATHEMATICS = re.compile(rf"({MATHEMATICS})")
_LIGATURE = re.compile(
    r"(?<=-)(?=-)|(?<=[`?!])(?=`)|(?<=')(?=')|(?<=<)(?=<)|(?<=>)(?=>)|(?<=,)(?=,)"
)
_SIMPLE_NAME = re.compile(r"[\w.'’-]+(?: [\w.'’-]+)*")


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

    Braces have to match for BibTeX whether or not a backslash is in front, so they have names; what
    TeX would join to one sign (two hyphens, say) is kept apart.

    >>> escaped("50% of $x_1$ & y--z")
    '50\\% of $x_1$ \\& y-{}-z'
    """
    parts = _MATHEMATICS.split(text)
    return "".join(
        part if index % 2 and _balanced(part) else _literally(part)
        for index, part in enumerate(parts)
    )


def _literally(text: str) -> str:
    apart = _LIGATURE.sub("\0", text)
    return "".join(_SPECIAL.get(c, c) for c in apart).replace("\0", "{}")


def _name(name: str) -> str:
    """Write a name so that it stays one: in braces, unless it is words and none of them is "and"."""
    simple = _SIMPLE_NAME.fullmatch(name) and not re.search(
        r"\b(?:and|others)\b", name, re.IGNORECASE
    )
    return escaped(name) if simple else f"{{{escaped(name)}}}"


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
