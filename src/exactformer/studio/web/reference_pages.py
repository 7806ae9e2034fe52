"""The API for people: every route with what it does, read from the schema programs read."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from exactformer.studio.web.request import render

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class Operation:
    """What a program can ask for."""

    method: str
    path: str
    words: str


@router.get("/api")
def api(request: Request) -> HTMLResponse:
    """List what programs can ask for."""
    groups: defaultdict[str, list[Operation]] = defaultdict(list)
    for path, methods in request.app.openapi()["paths"].items():
        for method, about in methods.items():
            words = about.get("description") or about.get("summary", "")
            group = (about.get("tags") or ["more"])[0]
            groups[group].append(Operation(method.upper(), path, words.partition("\n\n")[0]))
    return render(request, "reference.html", groups=sorted(groups.items()))
