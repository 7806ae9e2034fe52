"""Full-text search for programs, with the words found marked."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from exactformer.studio.library import papers, search
from exactformer.studio.library.paper_api import brief
from exactformer.studio.library.papers import Browse
from exactformer.studio.web.request import Clean, Paging, ReadSession, listing

router = APIRouter(prefix="/api/v1/search", tags=["papers"])


@router.get("")
def find(
    db: ReadSession, paging: Paging, q: Annotated[Clean, Query(max_length=300)]
) -> dict[str, Any]:
    """Papers with all these words, the best first; ``title_html`` and ``excerpt_html`` are safe.

    The last word may be unfinished; a blank behind it says that it is whole.
    """
    query = search.parse(q)
    found = papers.find(db, Browse(q=q, limit=paging.limit, offset=paging.offset))
    counts = papers.counts(db, [paper.id for paper in found.items])
    items = (
        brief(paper, counts[paper.id])
        | {
            "title_html": str(search.highlight(paper.title, query)),
            "excerpt_html": str(search.excerpt(paper.abstract, query)),
        }
        for paper in found.items
    )
    return listing(items, found.total)
