"""The first page."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from exactformer.studio.web import render

router = APIRouter(include_in_schema=False)


@router.get("/")
def home(request: Request) -> HTMLResponse:
    """Say what this is, and invite."""
    return render(request, "home.html")
