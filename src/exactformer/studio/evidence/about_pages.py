"""What this site is, and help with its words."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from exactformer import __version__
from exactformer.experiments.engine.provenance import git_state
from exactformer.studio.evidence.claims import MEANINGS, TONES
from exactformer.studio.web.request import render

router = APIRouter(include_in_schema=False)

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


@router.get("/about")
def about(request: Request) -> HTMLResponse:
    """Say what this is, who judges, and where the source is."""
    return render(request, "about/about.html", version=__version__, commit=_commit())


@router.get("/help")
def help(request: Request) -> HTMLResponse:
    """Explain verdicts, words and keys."""
    return render(request, "about/help.html", meanings=MEANINGS, tones=TONES, words=WORDS)


@cache
def _commit() -> str | None:
    return git_state(Path(__file__).parent)[0]
