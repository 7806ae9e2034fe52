"""What the API takes and answers about papers and people."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated

from pydantic import Field, JsonValue

from exactformer.studio.library import edits
from exactformer.studio.library.catalogue import record
from exactformer.studio.library.papers import Counts
from exactformer.studio.library.records import (
    Address,
    AuthorRecord,
    Kind,
    Prose,
    Short,
    Source,
    Title,
    TopicName,
)
from exactformer.studio.library.tables import Paper
from exactformer.studio.storage.slices import Slice
from exactformer.studio.web.types import Body, Clean, HandleOf, Listing, Out, listing


class PaperChange(Body):
    """Fields to change, each as in a record; what is left out stays.

    ``version`` is what reading the paper gave.
    """

    title: Title | None = None
    abstract: Prose | None = None
    year: Annotated[int, Field(ge=1000, le=2999)] | None = None
    kind: Kind | None = None
    source: Source | None = None
    open_access: bool | None = None
    doi: Annotated[Clean, Field(max_length=250)] | None = None
    arxiv_id: Annotated[Clean, Field(max_length=100)] | None = None
    url: Address | None = None
    code_url: Address | None = None
    code_note: Short | None = None
    data_url: Address | None = None
    data_note: Short | None = None
    authors: Annotated[list[AuthorRecord], Field(max_length=5000)] | None = None
    topics: Annotated[list[TopicName], Field(max_length=100)] | None = None
    version: Annotated[Clean, Field(max_length=60)] | None = None


class PaperOut(Out):
    """A paper with all its page says about it; ``version`` goes with a change."""

    slug: str
    title: str
    abstract: str
    year: int | None
    kind: str
    source: str
    open_access: bool | None
    doi: str | None
    arxiv_id: str | None
    url: str
    code_url: str
    code_note: str
    data_url: str
    data_note: str
    authors: list[AuthorRecord]
    topics: list[str]
    counts: Counts
    created_at: datetime
    updated_at: datetime
    version: str


class CitedOut(Out):
    """A paper in a list of references."""

    slug: str
    title: str
    year: int | None
    authors: list[str]


class BriefOut(CitedOut):
    """A paper in a list."""

    kind: str
    source: str
    topics: list[str]
    counts: Counts


class FoundOut(BriefOut):
    """A paper that was found, with the words that were looked for marked."""

    title_html: str
    excerpt_html: str


class HistoryOut(Out):
    """A change of a paper's page; ``detail`` depends on the action."""

    at: datetime
    by: Annotated[HandleOf, Field(validation_alias="actor")]
    action: str
    detail: dict[str, JsonValue]


class NamedOut(Out):
    """Somebody or something with a page of its own."""

    id: int
    name: str


class PersonOut(NamedOut):
    """An author."""

    orcid: str | None
    institutions: list[NamedOut]


class InstitutionOut(NamedOut):
    """An institution and its people."""

    people: list[NamedOut]


class TopicOut(Out):
    """A topic, and how many papers are about it."""

    slug: str
    name: str
    papers: int


def brief(paper: Paper, counts: Counts) -> BriefOut:
    """A paper as it stands in a list."""
    return BriefOut(
        **_in_references(paper).model_dump(),
        kind=paper.kind,
        source=paper.source,
        topics=[topic.slug for topic in paper.topics],
        counts=counts,
    )


def whole(paper: Paper, counts: Counts) -> PaperOut:
    """A paper with all it has."""
    fields = asdict(record(paper))
    fields.pop("references")
    fields.pop("claims")
    return PaperOut(
        slug=paper.slug,
        **fields,
        counts=counts,
        created_at=paper.created_at,
        updated_at=paper.updated_at,
        version=edits.version_of(paper),
    )


def _in_references(paper: Paper) -> CitedOut:
    authors = [place.person.name for place in paper.authorships]
    return CitedOut(slug=paper.slug, title=paper.title, year=paper.year, authors=authors)


def cited(found: Slice[Paper]) -> Listing[CitedOut]:
    """Papers of a list of references."""
    return listing(map(_in_references, found.items), found.total)
