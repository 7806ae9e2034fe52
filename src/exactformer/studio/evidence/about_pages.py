"""What this site is: its first page, about and help, and the API for people."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request
from sqlalchemy import func, select
from starlette.responses import HTMLResponse

from exactformer import __version__
from exactformer.claims import MEANINGS
from exactformer.experiments.engine.provenance import git_state
from exactformer.studio import web
from exactformer.studio.evidence import claims
from exactformer.studio.evidence.claims import TONES
from exactformer.studio.library import seeds
from exactformer.studio.library.tables import Citation, Claim, Paper, Person

router = APIRouter()

EXAMPLES = ("x^3 - x", "x y z", "(x + y)^4")
WORDS = {
    "Token": "What a transformer works on, side by side. Here each looks at x in its own direction.",
    "ξ": "The direction of a token; ξ·x is what the token sees of x.",
    "Block": "An attention layer and a feed-forward layer. A block multiplies what the tokens hold.",
    "Score": "How well a token fits another one. Attention goes to the largest score.",
    "One-hot maximum": "Attention that selects the one token with the largest score, and no other.",
    "Residual stream": "What a token holds; every block adds to it.",
    "Readout ⟨β, Z⟩ + b": "The sum of what the tokens hold, weighted, plus a constant.",
    "Certificate": "What is proven about a model from its weights alone, rounding included.",
    "Contextual mapping": "Codes that tell a token in one context from the same token in another.",
    "Coupling ρ(u, v)": "How much token u attends to token v. Its rank is the head size it needs.",
    "Smoke scale": "An experiment with few seeds, samples and steps: seconds, not hours.",
}


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
def home(request: Request, db: web.ReadSession) -> HTMLResponse:
    """Say what this is, and invite."""
    results = web.settings_of(request).results
    featured = [
        Featured(paper, claims.tally(claims.views(paper, results))) for paper in seeds.featured(db)
    ]
    kinds = {"paper": Paper.id, "person": Person.id, "claim": Claim.id, "link": Citation.citing_id}
    library = {kind: db.scalar(select(func.count(key))) or 0 for kind, key in kinds.items()}
    return web.render(request, "home.html", examples=EXAMPLES, featured=featured, library=library)


@router.get("/about")
def about(request: Request) -> HTMLResponse:
    """Say what this is, who judges, and where the source is."""
    return web.render(request, "about/about.html", version=__version__, commit=_commit())


@router.get("/help")
def help(request: Request) -> HTMLResponse:
    """Explain verdicts, words and keys."""
    return web.render(request, "about/help.html", meanings=MEANINGS, tones=TONES, words=WORDS)


@cache
def _commit() -> str | None:
    return git_state(Path(__file__).parent)[0]
