"""Papers as files: a page, a collection, or everything, in JSON, BibTeX or CSV."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from exactformer.studio.library import exporting, papers
from exactformer.studio.library.exporting import FORMATS
from exactformer.studio.library.exporting.download import FILES, Wanted, as_file, named
from exactformer.studio.web.request import ReadSession, database_of
from exactformer.studio.web.types import Slug

router = APIRouter(prefix="/api/v1", tags=["exports"])


@router.get("/export", response_class=Response, responses=FILES)
def everything(request: Request, format: Wanted = "json") -> StreamingResponse:
    """The whole library, as it is read; import takes the JSON back without loss."""
    database = database_of(request)

    def pieces() -> Iterator[str]:
        with database.session() as db:
            yield from exporting.stream(db, format)

    form = FORMATS[format]
    return StreamingResponse(
        pieces(), media_type=form.media_type, headers=named("library", form.suffix)
    )


@router.get("/papers/{slug}/export", response_class=Response, responses=FILES)
def one(db: ReadSession, slug: Slug, format: Wanted = "json") -> Response:
    """One paper."""
    return as_file(db, [papers.get(db, slug)], format, slug)
