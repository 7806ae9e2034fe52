"""Claims, the evidence for them, and runs of experiments; each page beside its JSON route."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import FileResponse, PlainTextResponse, Response

from exactformer.studio import web
from exactformer.studio.evidence import claims, demonstrations, evidence, runs, sources
from exactformer.studio.evidence.claims import MEANINGS, TONES, Wanted
from exactformer.studio.evidence.models import (
    ClaimEvidenceOut,
    ClaimOut,
    EvidenceOut,
    RunLineOut,
    RunOut,
    RunStatementOut,
    claim_evidence,
    shown_evidence,
)
from exactformer.studio.evidence.runs import Run, Runs, compared, statements
from exactformer.studio.library import exports, papers
from exactformer.studio.library.records import CLAIM_KINDS
from exactformer.studio.opinions import threads as discussions
from exactformer.studio.security.actor import Actor
from exactformer.studio.security.rates import limit

api = APIRouter(prefix="/api/v1", tags=["claims"])
papers_api = APIRouter(prefix="/api/v1", tags=["papers"])
pages = APIRouter(include_in_schema=False)

EACH = 50
Anchor = Annotated[web.Clean, Path(max_length=60)]
Name = Annotated[web.Clean, Path(min_length=1, max_length=60)]
Status = Annotated[web.Clean, web.one_of(TONES), Query(max_length=120)]
Kind = Annotated[web.Clean, web.one_of(CLAIM_KINDS), Query(max_length=120)]
OfPaper = Annotated[web.Clean, Query(max_length=120)]


@pages.get("/claims")
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


@api.get("/claims")
def find(
    read: web.Read,
    paging: web.Paging,
    q: web.Words = "",
    status: Status = "",
    kind: Kind = "",
    paper: OfPaper = "",
) -> web.Listing[ClaimOut]:
    """Claims of all papers, or those with these words, this status or kind, or of one paper."""
    wanted = Wanted(q, status, kind, paper, *paging)
    found = claims.find(read.db, wanted, web.settings_of(read.request).results)
    items = [
        ClaimOut(
            paper=of.slug,
            anchor=view.claim.anchor,
            kind=view.claim.kind,
            title=view.claim.title,
            statement=view.claim.statement,
            status=view.status,
            beyond_paper=view.is_ours,
            experiment=view.claim.experiment,
            page=demonstrations.address(of.slug, view.claim.anchor),
        )
        for view, of in found.items
    ]
    return web.listing(items, found.total)


@pages.get("/papers/{slug}/claims/{anchor}")
def claim_page(
    read: web.Read, slug: web.Slug, anchor: Anchor, page: web.PageNumber = 1
) -> Response:
    """Show a claim: what it says, what came of it, what readers say, how to try and to cite it."""
    paper = papers.get(read.db, slug)
    claim = claims.get(paper, anchor)
    view = claims.view(claim, web.settings_of(read.request).results)
    name = claim.experiment or ""
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


@papers_api.get("/papers/{slug}/claims")
def read_claims(read: web.Read, slug: web.Slug) -> web.Listing[ClaimEvidenceOut]:
    """What a paper claims, and what came of each claim."""
    views = claims.views(papers.get(read.db, slug), web.settings_of(read.request).results)
    return web.listing(map(claim_evidence, views), len(views))


@papers_api.get("/experiments/{name}")
def read_evidence(request: Request, name: Name) -> EvidenceOut:
    """What the stored run of an experiment shows."""
    return shown_evidence(evidence.of(web.settings_of(request).results, name))


@pages.get("/figures/{experiment}.{kind}")
def figure(request: Request, experiment: str, kind: str) -> Response:
    """Answer with the figure of a stored run."""
    path = evidence.figure(web.settings_of(request).results, experiment, kind)
    return FileResponse(
        path,
        media_type=evidence.FIGURE_TYPES[kind],
        headers={"Cache-Control": "public, max-age=600"},
    )


@pages.get("/source/{path:path}")
def source(path: Annotated[web.Clean, Path(max_length=200)]) -> Response:
    """Answer with a test or text that a claim names as what checks it."""
    text = sources.file(path).read_text(encoding="utf-8")
    return PlainTextResponse(text, headers={"Cache-Control": "public, max-age=600"})


@pages.get("/experiments/{name}/run")
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


@api.get("/experiments/{name}/run")
def read_run(request: Request, name: Name) -> RunOut:
    """How far the latest run of an experiment is, and what it found."""
    evidence.of(web.settings_of(request).results, name)
    return _described(request, name, runs_of(request).of(name))


@pages.post("/experiments/{name}/runs")
def page_begin(read: web.Read, name: Name) -> Response:
    """Run an experiment at smoke scale, or join the run that is under way."""
    start_run(read.request, read.actor, name)
    if web.is_htmx(read.request):
        return run_page(read, name)
    return web.redirect(read.request, f"/experiments/{name}/run")


@api.post("/experiments/{name}/runs", status_code=202)
def begin(request: Request, actor: web.CurrentActor, name: Name) -> RunOut:
    """Run an experiment at smoke scale, or join the run that is under way."""
    return _described(request, name, start_run(request, actor, name))


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


def _described(request: Request, name: str, run: Run | None) -> RunOut:
    if run is None:
        return RunOut(
            experiment=name, state="none", done=0, total=0, problem="", rows=[], statements=[]
        )
    stored, shown = evidence.of(web.settings_of(request).results, name).shown, run.shown
    return RunOut(
        experiment=name,
        state=run.state,
        done=run.done,
        total=run.total,
        problem=run.problem,
        rows=[
            RunLineOut(label=line.label, published=line.reference, ours=line.ours, now=line.now)
            for line in (compared(stored, shown) if shown else [])
        ],
        statements=[
            RunStatementOut(text=item.text, holds=item.holds)
            for item in (statements(shown) if shown else [])
        ],
    )


routers = (api, papers_api, pages)
