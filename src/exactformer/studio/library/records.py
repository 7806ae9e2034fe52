"""A paper as plain data: what is read, stored and written.

Limits are part of the types; :func:`checked` refuses what exceeds them and says where.
References are keys (``doi:…``, ``arxiv:…``, ``title:…``), so that a record stands
alone and its citations are tied when both ends are known.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError

from exactformer.claims import records as claims
from exactformer.studio.errors import InvalidError, TooLargeError
from exactformer.studio.library import names
from exactformer.studio.web import markup

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile(r"[\x01-\x08\x0b-\x1f\x7f-\x9f]")


def _storable(text: str) -> str:
    if found := _UNSTORABLE.search(text):
        raise ValueError(f"holds the character U+{ord(found[0]):04X}, which is not text")
    return _CONTROL.sub(" ", text)


def _one_line(text: str) -> str:
    return " ".join(_storable(text).split())


def _followable(text: str) -> str:
    if text and not names.web_address(text):
        raise ValueError("is not an address that begins with http:// or https://")
    return text


def _showable(text: str) -> str:
    try:
        return markup.checked(text)
    except TooLargeError as refusal:
        raise ValueError(str(refusal)) from None


def _within(most: int, least: int = 0) -> AfterValidator:
    """Bound a text's length: after whitespace was tidied, so limits hold for what is stored."""

    def bounded(text: str) -> str:
        if len(text) > most:
            raise ValueError(f"has {len(text):,} characters; the limit is {most:,}")
        if len(text) < least:
            raise ValueError("is empty")
        return text

    return AfterValidator(bounded)


Line = Annotated[str, AfterValidator(_one_line)]
Title = Annotated[Line, _within(500, least=1)]
Short = Annotated[Line, _within(500)]
Source = Annotated[Line, _within(200)]
PersonName = Annotated[Line, _within(200, least=1)]
InstitutionName = Annotated[Line, _within(300, least=1)]
TopicName = Annotated[Line, _within(120, least=1)]
ClaimTitle = Annotated[Line, _within(300, least=1)]
Prose = Annotated[str, AfterValidator(lambda text: _storable(text).strip()), _within(20_000)]
Marked = Annotated[Prose, AfterValidator(_showable)]
Address = Annotated[Short, AfterValidator(_followable)]
Doi = Annotated[Line, Field(pattern=r"^10\.\d{4,9}/\S+$", max_length=200)]
Word = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,59}$")]
Kind = Literal["article", "preprint", "talk", "book", "thesis", "software", "dataset", "other"]
ClaimKind = claims.Kind
CLAIM_KINDS: tuple[str, ...] = get_args(claims.Kind)


def _known_key(key: str) -> str:
    scheme, _, rest = key.partition(":")
    if scheme not in ("doi", "arxiv", "title") or not rest or len(key) > 620:
        raise ValueError("is not a key (doi:…, arxiv:… or title:…|year|family)")
    return key


Key = Annotated[Line, AfterValidator(_known_key)]


@dataclass(frozen=True)
class AuthorRecord:
    """A person in a list of authors, with the houses the paper gives for her."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: PersonName
    orcid: Annotated[str, Field(pattern=r"^\d{4}-\d{4}-\d{4}-\d{3}[\dX]$")] | None = None
    institutions: Annotated[tuple[InstitutionName, ...], Field(max_length=50)] = ()


@dataclass(frozen=True)
class ClaimRecord:
    """A theorem, table, figure or sentence that evidence can speak to."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    anchor: Word
    kind: ClaimKind
    title: ClaimTitle
    statement: Marked = ""
    ledger: Annotated[str, Field(pattern=r"^([a-z0-9-]+/[a-z0-9-]+)?$", max_length=120)] = ""


def _distinct(claims: tuple[ClaimRecord, ...]) -> tuple[ClaimRecord, ...]:
    anchors = [claim.anchor for claim in claims]
    if twice := next((anchor for anchor in anchors if anchors.count(anchor) > 1), None):
        raise ValueError(f"two of them have the anchor {twice!r}")
    return claims


_DISTINCT = AfterValidator(_distinct)


@dataclass(frozen=True)
class PaperRecord:
    """A work: what its first page says, what it cites and what it claims."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    title: Title
    abstract: Prose = ""
    year: Annotated[int, Field(ge=1000, le=2999)] | None = None
    kind: Kind = "other"
    source: Source = ""
    open_access: bool | None = None
    doi: Doi | None = None
    arxiv_id: Annotated[str, Field(pattern=r"^[a-z0-9./-]+$", max_length=40)] | None = None
    url: Address = ""
    code_url: Address = ""
    code_note: Short = ""
    data_url: Address = ""
    data_note: Short = ""
    authors: Annotated[tuple[AuthorRecord, ...], Field(max_length=5000)] = ()
    topics: Annotated[tuple[TopicName, ...], Field(max_length=100)] = ()
    references: Annotated[tuple[Key, ...], Field(max_length=5000)] = ()
    claims: Annotated[tuple[ClaimRecord, ...], Field(max_length=200), _DISTINCT] = ()


_ADAPTER = TypeAdapter(PaperRecord)


def checked(fields: dict[str, Any], where: str) -> PaperRecord:
    """Return the record of ``fields``; a refusal says where it was found and what is wrong."""
    try:
        return _ADAPTER.validate_python(fields)
    except ValidationError as refusal:
        first = refusal.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise InvalidError(f"{where}: {place[:80]}: {message[:200]}.") from None


def to_dict(record: PaperRecord) -> dict[str, Any]:
    """Return the record as plain data for JSON, without its empty fields."""
    data: dict[str, Any] = _without_empty(asdict(record))
    return data


def _without_empty(data: Any) -> Any:
    if isinstance(data, dict):
        kept = {key: _without_empty(value) for key, value in data.items()}
        return {key: value for key, value in kept.items() if value not in (None, "", [])}
    if isinstance(data, list | tuple):
        return [_without_empty(value) for value in data]
    return data


def keys(record: PaperRecord) -> list[str]:
    """Return everything by which ``record`` can be recognised, the strongest first."""
    first = record.authors[0].name if record.authors else ""
    marks = [
        ("doi", record.doi),
        ("arxiv", record.arxiv_id),
        ("title", str(TitleKey.of(record.title, record.year, first))),
    ]
    return [f"{scheme}:{mark}" for scheme, mark in marks if mark]


@dataclass(frozen=True)
class TitleKey:
    """A work by its title, with what tells works of one title apart: year and first author."""

    title: str
    year: int | None
    family: str

    @classmethod
    def of(cls, title: str, year: int | None, first_author: str) -> TitleKey:
        """Return the key of a work as somebody wrote it."""
        return cls(names.normalised(title)[:500], year, names.family_name(first_author)[:100])

    @classmethod
    def parse(cls, text: str) -> TitleKey:
        """Read back what ``str`` wrote."""
        rest, _, family = text.rpartition("|")
        title, _, year = rest.rpartition("|")
        return cls(title, int(year) if year.isdecimal() and len(year) == 4 else None, family)

    def __str__(self) -> str:
        return f"{self.title}|{self.year or ''}|{self.family}"

    def same_work(self, other: TitleKey) -> bool:
        """Whether both may be one work: a preprint and its article are a year apart at most.

        Titles alone do not do: "Deep learning" is an article of 2015 and a book of 2016.
        """
        years = self.year is None or other.year is None or abs(self.year - other.year) <= 1
        authors = not self.family or not other.family or self.family == other.family
        return self.title == other.title and years and authors
