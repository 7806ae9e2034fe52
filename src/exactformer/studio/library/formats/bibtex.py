"""BibTeX: read by pybtex, accents and the commonest commands of TeX becoming letters; and written.

Abbreviations (``@string``) may be built of one another, so that a small file could grow without
bound: what they give is counted. What is special to TeX is written so that it comes out as it is.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from exactformer.studio.errors import InvalidError, TooLargeError
from exactformer.studio.library import names
from exactformer.studio.library.records import PaperRecord, checked

MOST_ABBREVIATED = 1_000_000
LONGEST_FIELD = 100_000

_KINDS = {
    "article": "article",
    "inproceedings": "article",
    "conference": "article",
    "incollection": "article",
    "inbook": "article",
    "book": "book",
    "proceedings": "book",
    "phdthesis": "thesis",
    "mastersthesis": "thesis",
    "thesis": "thesis",
    "unpublished": "preprint",
    "techreport": "preprint",
    "software": "software",
    "dataset": "dataset",
}
_SOURCES = ("journal", "journaltitle", "booktitle", "publisher", "school", "institution")
SYMBOLS = {
    "textbackslash": "\\",
    "textasciitilde": "~",
    "textasciicircum": "^",
    "textbraceleft": "{",
    "textbraceright": "}",
}
MATHEMATICS = r"(?<!\\)\$(?:\\.|[^$\\])+\$"
_TOKEN = re.compile(rf"{MATHEMATICS}|\\(?:{'|'.join(SYMBOLS)})(?:{{}}|\b)|\\?[%&#_$]")
_DRESS = re.compile(r"\\(?:emph|textbf|textit|textsc|texttt|text|mathrm|url|bf|it|em)\b\s*|[{}]")
_SPACE = re.compile(r"\\[,;:! \\]|~")
_TEX = re.compile(r"\\|--|``|''|[?!]`")
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


@dataclass(frozen=True)
class _Entry:
    type: str
    key: str
    fields: dict[str, str]


def read(text: str) -> list[PaperRecord]:
    """Return the records of a BibTeX text."""
    return [_record(entry, f"Entry {entry.key[:60]!r}") for entry in _entries(text)]


def _entries(text: str) -> Iterator[_Entry]:
    from pybtex.database.input.bibtex import LowLevelParser, month_names
    from pybtex.exceptions import PybtexError
    from pybtex.utils import CaseInsensitiveDict

    class Abbreviations(CaseInsensitiveDict):  # type: ignore[misc]
        spent = 0

        def __getitem__(self, name: str) -> str:
            value: str = super().__getitem__(name)
            self.spent += len(value)
            if self.spent > MOST_ABBREVIATED:
                raise TooLargeError(
                    f"Abbreviations give more than {MOST_ABBREVIATED:,} characters, which is the "
                    "limit. Write them out."
                )
            return value

    parser = LowLevelParser(text, macros=Abbreviations(month_names))
    try:
        for command, body in parser:
            if command.lower() not in ("string", "preamble"):
                yield _entry(command, *body)
    except PybtexError as error:
        raise _refusal(error, text, parser.command_start) from None


def _entry(command: str, key: str, fields: list[tuple[str, list[str]]]) -> _Entry:
    values = {name.lower(): "".join(parts) for name, parts in fields}
    for name, value in values.items():
        if len(value) > LONGEST_FIELD:
            raise TooLargeError(
                f"Entry {key[:60]!r}: {name[:60]}: {len(value):,} characters; "
                f"the limit is {LONGEST_FIELD:,}."
            )
    return _Entry(command.lower(), key, values)


def _refusal(error: Exception, text: str, begun: int) -> InvalidError:
    """Say where reading ended, and where the entry begins that it ended in."""
    line, first = getattr(error, "lineno", None), text.count("\n", 0, begun) + 1
    place = f"Line {line}: " if line else ""
    entry = f"; the entry begins in line {first}" if line and line != first else ""
    message = re.sub(r"^(?:syntax error )?in line \d+: ", "", str(error))[:200]
    return InvalidError(f"{place}this is not BibTeX: {message}{entry}.")


def _record(entry: _Entry, where: str) -> PaperRecord:
    fields = entry.fields
    doi = names.doi(plain(fields.get("doi", "")))
    arxiv = _arxiv(fields, doi)
    year = plain(fields.get("year", "") or fields.get("date", ""))[:4]
    source = next((plain(fields[name]) for name in _SOURCES if fields.get(name)), "")
    kind = _KINDS.get(entry.type, "other")
    if arxiv and (kind == "other" or "arxiv" in source.lower()):
        kind, source = "preprint", "arXiv"
    keywords = re.split(r"[,;]", plain(fields.get("keywords", "")))
    given: dict[str, Any] = {
        "title": plain(fields.get("title", "")),
        "abstract": plain(fields.get("abstract", "")),
        "year": int(year) if re.fullmatch(r"[12][0-9]{3}", year) else None,
        "kind": kind,
        "source": source,
        "doi": doi,
        "arxiv_id": arxiv,
        "url": names.web_address(fields.get("url", "").replace("\\_", "_").replace("\\%", "%")),
        "authors": [{"name": name} for name in _names(fields.get("author", ""))],
        "topics": [word.strip() for word in keywords if word.strip()],
    }
    return checked(given, where)


def plain(text: str) -> str:
    r"""Return TeX as text; mathematics between dollars stays as it is.

    A percent sign without a backslash is one, too: in a bibliography it begins no comment.

    >>> plain(r"{\L}ukasz \v{C}ernock{\'y} on ${\mathcal O}(n)$, 50% or 60\% {BERT}")
    'Łukasz Černocký on ${\\mathcal O}(n)$, 50% or 60% BERT'
    """
    parts: list[str] = []
    end = 0
    for token in _TOKEN.finditer(text):
        parts += [_decoded(text[end : token.start()]), _meant(token[0])]
        end = token.end()
    return " ".join("".join([*parts, _decoded(text[end:])]).split())


def _meant(token: str) -> str:
    name = token.removesuffix("{}").removeprefix("\\")
    return token if token[0] == "$" else SYMBOLS.get(name, name)


def _decoded(text: str) -> str:
    import latexcodec  # noqa: F401  (makes the codec known)

    spaced = _SPACE.sub(" ", text)
    if not _TEX.search(spaced):
        return _DRESS.sub("", spaced)
    from_latex: Callable[[Any], tuple[str, int]] = codecs.getdecoder("ulatex")
    lead = " " if spaced[:1].isspace() else ""  # which the codec would swallow
    try:
        letters = from_latex(spaced)[0]
    except ValueError:  # a backslash that begins nothing TeX knows: leave it as it is
        letters = spaced
    return lead + _DRESS.sub("", letters)


def _names(authors: str) -> Iterator[str]:
    from pybtex.bibtex.utils import split_name_list
    from pybtex.database import Person

    for written in split_name_list(" ".join(authors.split())):
        if written == "others":
            continue
        person = Person(written)
        parts = [
            *person.first_names,
            *person.middle_names,
            *person.prelast_names,
            *person.last_names,
            *person.lineage_names,
        ]
        if name := plain(" ".join(parts)):
            yield name


def _arxiv(fields: dict[str, str], doi: str | None) -> str | None:
    if found := names.arxiv_id_of_doi(doi):
        return found
    eprint = fields.get("eprint", "")
    archive = (fields.get("archiveprefix") or fields.get("eprinttype") or "arxiv").lower()
    if archive == "arxiv" and (found := names.arxiv_id(eprint)):
        return found
    for name in ("journal", "note", "howpublished", "volume", "number", "url"):
        value = fields.get(name, "")
        if "arxiv" in value.lower():
            words = value.replace(",", " ").replace("{", "").replace("}", "").split()
            if found := next(filter(None, map(names.arxiv_id, words)), None):
                return found
    return None


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
