"""Claims, the evidence for them, and runs of experiments."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import FileResponse, PlainTextResponse, Response

from exactformer.claims import MEANINGS
from exactformer.studio import web
from exactformer.studio.evidence import claims, demonstrations, evidence, runs, sources
from exactformer.studio.evidence.claims import TONES, Wanted
from exactformer.studio.evidence.runs import Run, Runs
from exactformer.studio.library import exports, papers
from exactformer.studio.library.records import CLAIM_KINDS
from exactformer.studio.opinions import threads as discussions
from exactformer.studio.security.actor import Actor
from exactformer.studio.security.rates import limit

router = APIRouter()

EACH = 50
Anchor = Annotated[web.Clean, Path(max_length=60)]
Name = Annotated[web.Clean, Path(min_length=1, max_length=60)]
Status = Annotated[web.Clean, web.one_of(TONES), Query(max_length=120)]
Kind = Annotated[web.Clean, web.one_of(CLAIM_KINDS), Query(max_length=120)]
OfPaper = Annotated[web.Clean, Query(max_length=120)]


@router.get("/claims")
def browse(
    read: web.Read,
    q: web.Words = "",
    status: Status = "",
    kind: Kind = "",
    paper: OfPaper = "",
    page: web.PageNumber = 1,
) -> Response:
    """Show the claims of all papers, or those that fit."""
    results, db = web.settings_of(read.request).results, read.db
    wanted = Wanted(q, status, kind, paper, EACH, (page - 1) * EACH)
    terms = {"q": q, "status": status, "kind": kind, "paper": paper}
    return read.render(
        "claims/_list.html" if web.is_htmx(read.request) else "claims/list.html",
        wanted=wanted,
        found=claims.find(db, wanted, results),
        tally=claims.tallies(db, results, Wanted(q, kind=kind, paper=paper)),
        papers=claims.papers_with_claims(db),
        kinds=CLAIM_KINDS,
        meanings=MEANINGS,
        tones=TONES,
        address=f"/claims?{urlencode({k: v for k, v in terms.items() if v})}&".replace("?&", "?"),
    )


@router.get("/papers/{slug}/claims/{anchor}")
def claim_page(
    read: web.Read, slug: web.Slug, anchor: Anchor, page: web.PageNumber = 1
) -> Response:
    """Show a claim: what it says, what came of it, what readers say, how to try and to cite it."""
    paper = papers.get(read.db, slug)
    claim = claims.get(paper, anchor)
    view = claims.view(claim, web.settings_of(read.request).results)
    name = view.evidence.shown.name if view.evidence else ""
    return read.render(
        "claims/page.html",
        paper=paper,
        view=view,
        others=paper.claims,
        live=demonstrations.of_paper(read.db, paper).get(anchor),
        meanings=MEANINGS,
        may_run=view.evidence is not None and name in runs_of(read.request).runnable,
        run=runs_of(read.request).of(name),
        compared=runs.compared,
        statements_of=runs.statements,
        citation=exports.reference(paper, claim),
        bibtex=exports.bibtex_entry(paper),
        discussion=read(discussions.discussion, paper, claim=anchor, page=page),
    )


@router.get("/figures/{experiment}.{kind}")
def figure(request: Request, experiment: str, kind: str) -> Response:
    """Answer with the figure of a stored run."""
    path = evidence.figure(web.settings_of(request).results, experiment, kind)
    return FileResponse(
        path,
        media_type=evidence.FIGURE_TYPES[kind],
        headers={"Cache-Control": "public, max-age=600"},
    )


@router.get("/source/{path:path}")
def source(path: Annotated[web.Clean, Path(max_length=200)]) -> Response:
    """Answer with a test that the ledger names as evidence."""
    text = sources.file(path).read_text(encoding="utf-8")
    return PlainTextResponse(text, headers={"Cache-Control": "public, max-age=600"})


@router.get("/experiments/{name}/run")
def run_page(read: web.Read, name: Name) -> Response:
    """Show how far a run is, or what it found; alone, or as a part of a page."""
    request = read.request
    found = evidence.of(web.settings_of(request).results, name)
    return read.render(
        "claims/_run.html" if web.is_htmx(request) else "claims/run.html",
        evidence=found,
        may_run=name in runs_of(request).runnable,
        run=runs_of(request).of(name),
        compared=runs.compared,
        statements_of=runs.statements,
        shown_by=claims.with_experiment(read.db, name),
    )


@router.post("/experiments/{name}/runs")
def page_begin(read: web.Read, name: Name) -> Response:
    """Run an experiment at smoke scale, or join the run that is under way."""
    start_run(read.request, read.actor, name)
    if web.is_htmx(read.request):
        return run_page(read, name)
    return web.redirect(read.request, f"/experiments/{name}/run")


def start_run(request: Request, actor: Actor, name: str) -> Run:
    """Begin a run within the asker's rate; joining one costs nothing."""
    actor.require("reader")
    evidence.of(web.settings_of(request).results, name)
    rate = web.settings_of(request).run_rate
    return runs_of(request).start(name, lambda: limit(request, "experiments", rate))


def runs_of(request: Request) -> Runs:
    """The runs of this server."""
    found: Runs = request.app.state.runs
    return found
