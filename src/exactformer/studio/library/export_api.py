"""Papers as files: a page, a collection, or everything, in JSON, BibTeX or CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from sqlalchemy.orm import Session
from starlette.responses import Response, StreamingResponse

from exactformer.studio.library import exporting, papers
from exactformer.studio.library.exporting import FORMATS, Format
from exactformer.studio.library.paper_api import Slug
from exactformer.studio.storage.tables import Paper
from exactformer.studio.web.request import ReadSession, database_of

router = APIRouter(prefix="/api/v1", tags=["exports"])

Wanted = Annotated[Format, Query(description="In CSV a cell that begins like a formula gets a '.")]
FILES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A file.",
        "content": {form.media_type.partition(";")[0]: {} for form in FORMATS.values()},
    }
}


@router.get("/export", response_class=Response, responses=FILES)
def everything(request: Request, format: Wanted = "json") -> StreamingResponse:
    """The whole library, as it is read; import takes the JSON back without loss."""
    database = database_of(request)

    def pieces() -> Iterator[str]:
        with database.session() as db:
            yield from exporting.stream(db, format)

    form = FORMATS[format]
    return StreamingResponse(
        pieces(), media_type=form.media_type, headers=_named("library", form.suffix)
    )


@router.get("/papers/{slug}/export", response_class=Response, responses=FILES)
def one(db: ReadSession, slug: Slug, format: Wanted = "json") -> Response:
    """One paper."""
    return as_file(db, [papers.get(db, slug)], format, slug)


def as_file(db: Session, papers: Sequence[Paper], format: Format, name: str) -> Response:
    """Some papers, as a file with a name."""
    text, media_type = exporting.export(db, papers, format)
    return Response(text, media_type=media_type, headers=_named(name, FORMATS[format].suffix))


def _named(name: str, suffix: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}.{suffix}"'}
