"""The form in which curators change what a paper's page says."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.responses import Response

from exactformer.studio.errors import StudioError
from exactformer.studio.library import edits, papers
from exactformer.studio.library.paper_forms import PaperForm, fields_of, form_of
from exactformer.studio.library.paper_records import record
from exactformer.studio.library.records import to_dict
from exactformer.studio.library.tables import PAPER_KINDS
from exactformer.studio.web.request import CurrentActor, ReadSession, redirect, render
from exactformer.studio.web.request import writing as in_transaction

router = APIRouter(tags=["papers"], include_in_schema=False)


@router.get("/papers/{slug}/edit")
def edit_form(request: Request, db: ReadSession, actor: CurrentActor, slug: str) -> Response:
    """Show the form."""
    actor.require("curator")
    paper = papers.get(db, slug)
    form = form_of(to_dict(record(paper)), edits.version_of(paper))
    return _shown(request, slug, paper.title, form)


@router.post("/papers/{slug}/edit")
def edit(
    request: Request, actor: CurrentActor, slug: str, form: Annotated[PaperForm, Form()]
) -> Response:
    """Change the paper, or say what cannot be accepted and keep what was typed."""
    try:
        with in_transaction(request) as db:
            edits.edit(db, actor, slug, fields_of(form), form.version or None)
    except StudioError as refusal:
        if refusal.status not in (409, 422):
            raise
        return _shown(request, slug, form.title, form, str(refusal), refusal.status)
    return redirect(request, f"/papers/{slug}")


def _shown(
    request: Request, slug: str, title: str, form: PaperForm, error: str = "", status: int = 200
) -> Response:
    return render(
        request,
        "papers/edit.html",
        status=status,
        slug=slug,
        title=title,
        form=form,
        error=error,
        kinds=PAPER_KINDS,
    )
