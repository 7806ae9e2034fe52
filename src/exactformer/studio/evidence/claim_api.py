"""Claims for programs: over all papers, and runs of their experiments at smoke scale."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel

from exactformer.studio.evidence import claims, demonstrations, evidence
from exactformer.studio.evidence.claims import Wanted
from exactformer.studio.evidence.runs import Run, Runs, compared, statements
from exactformer.studio.security.actor import Actor
from exactformer.studio.security.rates import limit
from exactformer.studio.web.request import Clean, CurrentActor, Paging, ReadSession, settings_of

router = APIRouter(prefix="/api/v1", tags=["claims"])

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


@router.get("/claims")
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


@router.get("/experiments/{name}/run")
def read_run(request: Request, name: Name) -> RunOut:
    """How far the latest run of an experiment is, and what it found."""
    evidence.of(settings_of(request).results, name)
    return _described(request, name, runs_of(request).of(name))


@router.post("/experiments/{name}/runs", status_code=202)
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
