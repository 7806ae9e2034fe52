"""Papers as files to download, each with a name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Query
from sqlalchemy.orm import Session
from starlette.responses import Response

from exactformer.studio.library.exporting.formats import FORMATS, Format, export
from exactformer.studio.library.tables import Paper

Wanted = Annotated[Format, Query(description="In CSV a cell that begins like a formula gets a '.")]
FILES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A file.",
        "content": {
            form.media_type.partition(";")[0]: {"schema": {"type": "string", "format": "binary"}}
            for form in FORMATS.values()
        },
    }
}


def as_file(db: Session, papers: Sequence[Paper], format: Format, name: str) -> Response:
    """Some papers, as a file with a name."""
    text, media_type = export(db, papers, format)
    return Response(text, media_type=media_type, headers=named(name, FORMATS[format].suffix))


def named(name: str, suffix: str) -> dict[str, str]:
    """Return the header that names a file."""
    return {"Content-Disposition": f'attachment; filename="{name}.{suffix}"'}
