"""Claims for people: all of them with filters, one with its evidence and discussion, and runs."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import PlainTextResponse, Response

from exactformer.studio.evidence import claims, demonstrations, evidence, runs, sources
from exactformer.studio.evidence.claim_api import runs_of, start_run
from exactformer.studio.evidence.claims import MEANINGS, TONES, Wanted
from exactformer.studio.library import citations, papers
from exactformer.studio.library.records import CLAIM_KINDS
from exactformer.studio.opinions import threads as discussions
from exactformer.studio.opinions.quick_pages import Slug
from exactformer.studio.opinions.review_pages import PageNumber
from exactformer.studio.web.request import (
    Clean,
    CurrentActor,
    ReadSession,
    is_htmx,
    redirect,
    render,
    settings_of,
)

router = APIRouter(include_in_schema=False)

EACH = 50
Anchor = Annotated[Clean, Path(max_length=60)]
Name = Annotated[Clean, Path(max_length=60)]
Filter = Annotated[Clean, Query(max_length=120)]


@router.get("/claims")
def listing(
    request: Request,
    db: ReadSession,
    q: Annotated[Clean, Query(max_length=300)] = "",
    status: Filter = "",
    kind: Filter = "",
    paper: Filter = "",
    page: PageNumber = 1,
) -> Response:
    """Show the claims of all papers, or those that fit; filters that are unknown are left out."""
    results = settings_of(request).results
    wanted = Wanted(
        q,
        status if status in TONES else "",
        kind if kind in CLAIM_KINDS else "",
        paper,
        EACH,
        (page - 1) * EACH,
    )
    terms = {"q": q, "status": status, "kind": kind, "paper": paper}
    return render(
        request,
        "claims/_list.html" if is_htmx(request) else "claims/list.html",
        wanted=wanted,
        found=claims.find(db, wanted, results),
        tally=claims.tallies(db, results, Wanted(q, kind=wanted.kind, paper=paper)),
        papers=claims.papers_with_claims(db),
        kinds=CLAIM_KINDS,
        meanings=MEANINGS,
        tones=TONES,
        page=page,
        each=EACH,
        address=f"/claims?{urlencode({k: v for k, v in terms.items() if v})}&".replace("?&", "?"),
    )


@router.get("/papers/{slug}/claims/{anchor}")
def claim_page(
    request: Request,
    db: ReadSession,
    actor: CurrentActor,
    slug: Slug,
    anchor: Anchor,
    page: PageNumber = 1,
) -> Response:
    """Show a claim: what it says, what came of it, what readers say, how to try and to cite it."""
    paper = papers.get(db, slug)
    claim = claims.get(paper, anchor)
    view = claims.view(claim, settings_of(request).results)
    name = claim.experiment or ""
    return render(
        request,
        "claims/page.html",
        paper=paper,
        view=view,
        others=paper.claims,
        live=demonstrations.of_paper(db, paper).get(anchor),
        meanings=MEANINGS,
        may_run=view.evidence is not None and name in runs.RUNNABLE,
        run=runs_of(request).of(name),
        compared=runs.compared,
        statements_of=runs.statements,
        citation=citations.line(paper, claim),
        bibtex=citations.entry(paper),
        discussion=discussions.discussion(db, actor, paper, claim=anchor, page=page),
    )


@router.get("/source/{path:path}")
def source(path: Annotated[Clean, Path(max_length=200)]) -> Response:
    """Answer with a test or text that a claim names as what checks it."""
    text = sources.file(path).read_text(encoding="utf-8")
    return PlainTextResponse(text, headers={"Cache-Control": "public, max-age=600"})


@router.get("/experiments/{name}/run")
def run_page(request: Request, db: ReadSession, name: Name) -> Response:
    """Show how far a run is, or what it found; alone, or as a part of a page."""
    found = evidence.of(settings_of(request).results, name)
    return render(
        request,
        "claims/_run.html" if is_htmx(request) else "claims/run.html",
        evidence=found,
        may_run=name in runs.RUNNABLE,
        run=runs_of(request).of(name),
        compared=runs.compared,
        statements_of=runs.statements,
        shown_by=claims.with_experiment(db, name),
    )


@router.post("/experiments/{name}/runs")
def begin(request: Request, db: ReadSession, actor: CurrentActor, name: Name) -> Response:
    """Run an experiment at smoke scale, or join the run that is under way."""
    start_run(request, actor, name)
    return run_page(request, db, name) if is_htmx(request) else _to_the_run(request, name)


def _to_the_run(request: Request, name: str) -> Response:
    return redirect(request, f"/experiments/{name}/run")
