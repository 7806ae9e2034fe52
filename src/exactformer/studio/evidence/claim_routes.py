"""Claims and runs of experiments: pages, then the same for programs."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel
from starlette.responses import PlainTextResponse, Response

from exactformer.studio.evidence import claims, demonstrations, evidence, runs, sources
from exactformer.studio.evidence.claims import MEANINGS, TONES, Wanted
from exactformer.studio.evidence.runs import Run, Runs, compared, statements
from exactformer.studio.library import citations, papers
from exactformer.studio.library.records import CLAIM_KINDS
from exactformer.studio.opinions import threads as discussions
from exactformer.studio.security.actor import Actor
from exactformer.studio.security.rates import limit
from exactformer.studio.web.request import (
    CurrentActor,
    ReadSession,
    is_htmx,
    redirect,
    render,
    settings_of,
)
from exactformer.studio.web.types import Clean, PageNumber, Paging, Slug

api = APIRouter(prefix="/api/v1", tags=["claims"])

Name = Annotated[Clean, Path(min_length=1, max_length=60)]
Filter = Annotated[Clean, Query(max_length=120)]


class ClaimOut(BaseModel):
    """A claim of a paper, and what came of it."""

    paper: str
    anchor: str
    kind: str
    title: str
    statement: str
    status: str
    beyond_paper: bool
    experiment: str | None
    page: str


class ClaimsOut(BaseModel):
    """Some claims, and how many there are."""

    items: list[ClaimOut]
    total: int


class RunLineOut(BaseModel):
    """A quantity, in words as pages show it."""

    label: str
    published: str
    ours: str
    now: str


class RunStatementOut(BaseModel):
    """A statement of the claim, and whether it held."""

    text: str
    holds: bool


class RunOut(BaseModel):
    """A run of an experiment at smoke scale; ``none`` where none was begun since the server started."""

    experiment: str
    state: Literal["none", "waiting", "running", "finished", "failed"]
    done: int
    total: int
    problem: str
    rows: list[RunLineOut]
    statements: list[RunStatementOut]


@api.get("/claims")
def find(
    request: Request,
    db: ReadSession,
    paging: Paging,
    q: Annotated[Clean, Query(max_length=300)] = "",
    status: Filter = "",
    kind: Filter = "",
    paper: Filter = "",
) -> ClaimsOut:
    """Claims of all papers, or those with these words, this status or kind, or of one paper."""
    wanted = Wanted(q, status, kind, paper, paging.limit, paging.offset)
    found = claims.find(db, wanted, settings_of(request).results)
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
    return ClaimsOut(items=items, total=found.total)


@api.get("/experiments/{name}/run")
def read_run(request: Request, name: Name) -> RunOut:
    """How far the latest run of an experiment is, and what it found."""
    evidence.of(settings_of(request).results, name)
    return _described(request, name, runs_of(request).of(name))


@api.post("/experiments/{name}/runs", status_code=202)
def begin(request: Request, actor: CurrentActor, name: Name) -> RunOut:
    """Run an experiment at smoke scale, or join the run that is under way."""
    return _described(request, name, start_run(request, actor, name))


def runs_of(request: Request) -> Runs:
    """The runs of this server."""
    found: Runs = request.app.state.runs
    return found


def start_run(request: Request, actor: Actor, name: str) -> Run:
    """Begin a run within the asker's rate; joining one costs nothing."""
    actor.require("reader")
    evidence.of(settings_of(request).results, name)
    rate = settings_of(request).run_rate
    return runs_of(request).start(name, lambda: limit(request, "experiments", rate))


def _described(request: Request, name: str, run: Run | None) -> RunOut:
    if run is None:
        return RunOut(
            experiment=name, state="none", done=0, total=0, problem="", rows=[], statements=[]
        )
    stored, shown = evidence.of(settings_of(request).results, name).shown, run.shown
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


pages = APIRouter(include_in_schema=False)

EACH = 50
Anchor = Annotated[Clean, Path(max_length=60)]


@pages.get("/claims")
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


@pages.get("/papers/{slug}/claims/{anchor}")
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


@pages.get("/source/{path:path}")
def source(path: Annotated[Clean, Path(max_length=200)]) -> Response:
    """Answer with a test or text that a claim names as what checks it."""
    text = sources.file(path).read_text(encoding="utf-8")
    return PlainTextResponse(text, headers={"Cache-Control": "public, max-age=600"})


@pages.get("/experiments/{name}/run")
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


@pages.post("/experiments/{name}/runs")
def page_begin(request: Request, db: ReadSession, actor: CurrentActor, name: Name) -> Response:
    """Run an experiment at smoke scale, or join the run that is under way."""
    start_run(request, actor, name)
    return run_page(request, db, name) if is_htmx(request) else _to_the_run(request, name)


def _to_the_run(request: Request, name: str) -> Response:
    return redirect(request, f"/experiments/{name}/run")


routers = (api, pages)
