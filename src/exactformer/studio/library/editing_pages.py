"""The form in which curators change what a paper's page says.

Authors are lines, ``Name | institution; institution | ORCID``; topics are divided by commas.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from pydantic import Field
from starlette.responses import Response

from exactformer.studio.errors import StudioError
from exactformer.studio.library import editing, naming, papers
from exactformer.studio.library.describing import record
from exactformer.studio.library.records import AuthorRecord, PaperRecord
from exactformer.studio.library.tables import PAPER_KINDS
from exactformer.studio.web.request import CurrentActor, ReadSession, redirect, render
from exactformer.studio.web.request import writing as in_transaction
from exactformer.studio.web.types import Clean, FormBody

router = APIRouter(tags=["papers"], include_in_schema=False)

Text = Annotated[Clean, Field(max_length=1000)]
OPEN_ACCESS = {"": None, "yes": True, "no": False}


class PaperForm(FormBody):
    """What the form sends: everything as text."""

    title: Text = ""
    abstract: Annotated[Clean, Field(max_length=25_000)] = ""
    year: Text = ""
    kind: Text = "other"
    source: Text = ""
    open_access: Text = ""
    doi: Text = ""
    arxiv_id: Text = ""
    openalex_id: Text = ""
    url: Text = ""
    code_url: Text = ""
    code_note: Text = ""
    data_url: Text = ""
    data_note: Text = ""
    authors: Annotated[Clean, Field(max_length=500_000)] = ""
    topics: Annotated[Clean, Field(max_length=20_000)] = ""
    version: Text = ""


@router.get("/papers/{slug}/edit")
def edit_form(request: Request, db: ReadSession, actor: CurrentActor, slug: str) -> Response:
    """Show the form."""
    actor.require("curator")
    paper = papers.get(db, slug)
    form = _filled(record(paper), editing.version_of(paper))
    return _shown(request, slug, paper.title, form)


@router.post("/papers/{slug}/edit")
def edit(
    request: Request, actor: CurrentActor, slug: str, form: Annotated[PaperForm, Form()]
) -> Response:
    """Change the paper, or say what cannot be accepted and keep what was typed."""
    try:
        with in_transaction(request) as db:
            editing.edit(db, actor, slug, _changes(form), form.version or None)
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


def _filled(paper: PaperRecord, version: str) -> PaperForm:
    answers = {value: key for key, value in OPEN_ACCESS.items()}
    return PaperForm(
        title=paper.title,
        abstract=paper.abstract,
        year=str(paper.year or ""),
        kind=paper.kind,
        source=paper.source,
        open_access=answers[paper.open_access],
        doi=paper.doi or "",
        arxiv_id=paper.arxiv_id or "",
        openalex_id=paper.openalex_id or "",
        url=paper.url,
        code_url=paper.code_url,
        code_note=paper.code_note,
        data_url=paper.data_url,
        data_note=paper.data_note,
        authors="\n".join(map(author_line, paper.authors)),
        topics=", ".join(paper.topics),
        version=version,
    )


def _changes(form: PaperForm) -> dict[str, Any]:
    fields: dict[str, Any] = form.model_dump(exclude={"csrf_token", "version"})
    year = form.year.strip()
    lines = (line for line in form.authors.splitlines() if line.strip())
    return fields | {
        "year": int(year)
        if year.isdecimal() and year.isascii() and len(year) < 6
        else year or None,
        "open_access": OPEN_ACCESS.get(form.open_access),
        "authors": [author_of(line) for line in lines],
        "topics": [topic.strip() for topic in form.topics.split(",") if topic.strip()],
    }


def author_line(author: AuthorRecord) -> str:
    """Write an author as a line of the form.

    >>> author_line(AuthorRecord("Ding-Xuan Zhou", None, ("City University of Hong Kong",)))
    'Ding-Xuan Zhou | City University of Hong Kong'
    """
    parts = [author.name, "; ".join(author.institutions), author.orcid or ""]
    return " | ".join(parts).rstrip("| ")


def author_of(line: str) -> dict[str, Any]:
    """Read a line of the form.

    >>> author_of("Guang Cheng | UCLA; Purdue | 0000-0001-2345-678X")["institutions"]
    ['UCLA', 'Purdue']
    """
    name, houses, orcid = ([part.strip() for part in line.split("|")] + ["", ""])[:3]
    return {
        "name": name,
        "institutions": [house.strip() for house in houses.split(";") if house.strip()],
        "orcid": (naming.orcid(orcid) or orcid) or None,
    }
