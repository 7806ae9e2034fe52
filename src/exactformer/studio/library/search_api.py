"""Full-text search for programs, with the words found marked."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from exactformer.studio.library import papers, search
from exactformer.studio.library.paper_api import BriefOut, brief
from exactformer.studio.library.papers import Browse
from exactformer.studio.web.request import ReadSession
from exactformer.studio.web.types import Clean, Listing, Paging, listing

router = APIRouter(prefix="/api/v1/search", tags=["papers"])


class FoundOut(BriefOut):
    """A paper that was found, with the words that were looked for marked."""

    title_html: str
    excerpt_html: str


@router.get("")
def find(
    db: ReadSession, paging: Paging, q: Annotated[Clean, Query(max_length=300)]
) -> Listing[FoundOut]:
    """Papers with all these words, the best first; ``title_html`` and ``excerpt_html`` are safe.

    The last word may be unfinished; a blank behind it says that it is whole.
    """
    query = search.parse(q)
    found = papers.find(db, Browse(q=q, limit=paging.limit, offset=paging.offset))
    counts = papers.counts(db, [paper.id for paper in found.items])
    items = (
        FoundOut(
            **brief(paper, counts[paper.id]).model_dump(),
            title_html=str(search.highlight(paper.title, query)),
            excerpt_html=str(search.excerpt(paper.abstract, query)),
        )
        for paper in found.items
    )
    return listing(items, found.total)
