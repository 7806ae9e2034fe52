"""The first page: what this is, something to try, and the works everything here stands on."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Request
from sqlalchemy import func, select
from starlette.responses import HTMLResponse

from exactformer.studio.evidence import claims
from exactformer.studio.library import seeds
from exactformer.studio.library.tables import Citation, Claim, Paper, Person
from exactformer.studio.web.request import ReadSession, render, settings_of

router = APIRouter(include_in_schema=False)

EXAMPLES = ("x^3 - x", "x y z", "(x + y)^4")


@dataclass(frozen=True)
class Featured:
    """A work with how its claims have fared: status, tone and number of each."""

    paper: Paper
    tally: list[tuple[str, str, int]]

    @property
    def authors(self) -> str:
        """Who wrote it, in a few words."""
        names = [authorship.person.name for authorship in self.paper.authorships]
        return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and others"


@router.get("/")
def home(request: Request, db: ReadSession) -> HTMLResponse:
    """Say what this is, and invite."""
    results = settings_of(request).results
    featured = [
        Featured(paper, claims.tally(claims.views(paper, results))) for paper in seeds.featured(db)
    ]
    kinds = {"paper": Paper.id, "person": Person.id, "claim": Claim.id, "link": Citation.citing_id}
    library = {kind: db.scalar(select(func.count(key))) or 0 for kind, key in kinds.items()}
    return render(request, "home.html", examples=EXAMPLES, featured=featured, library=library)
