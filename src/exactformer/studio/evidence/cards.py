"""Pictures that stand for a paper or a claim where somebody shares its address: title and verdicts.

A picture is made of what its page shows to everybody, on request, and kept while it stays the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from textwrap import shorten, wrap
from threading import Lock
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from exactformer.studio import web
from exactformer.studio.evidence import claims
from exactformer.studio.evidence.claims import ClaimView, Tally
from exactformer.studio.library import papers
from exactformer.studio.library.tables import Paper
from exactformer.studio.security.rates import limit
from exactformer.studio.web.markup import plain

router = APIRouter(include_in_schema=False)

WIDTH, HEIGHT = 1200, 630
_INK, _FAINT, _PAPER = "#1b1d29", "#4a4e63", "#fcfcfd"
_TONES = {
    "good": "#1b6e3c",
    "accent": "#4051b5",
    "warn": "#815100",
    "bad": "#b3261e",
    "plain": "#666b82",
}
_LEFT, _LINE = 70, 60
Anchor = Annotated[web.Clean, Path(max_length=60)]
_drawing = Lock()  # matplotlib's fonts are shared by all threads


@dataclass(frozen=True)
class Card:
    """What a picture shows, from top to bottom."""

    above: str
    title: str
    below: str
    tally: tuple[tuple[str, str, int], ...]


@router.get("/papers/{slug}/card.png")
def paper_card(request: Request, db: web.ReadSession, slug: web.Slug) -> Response:
    """Answer with a picture of a paper's verdicts."""
    paper = papers.get(db, slug)
    tally = claims.tally(claims.views(paper, web.settings_of(request).results))
    return _picture(request, of_paper(paper, tally))


@router.get("/papers/{slug}/claims/{anchor}/card.png")
def claim_card(request: Request, db: web.ReadSession, slug: web.Slug, anchor: Anchor) -> Response:
    """Answer with a picture of a claim's verdict."""
    paper = papers.get(db, slug)
    view = claims.view(claims.get(paper, anchor), web.settings_of(request).results)
    return _picture(request, of_claim(paper, view, claims.MEANINGS[view.status]))


def _picture(request: Request, card: Card) -> Response:
    limit(request, "cards", web.settings_of(request).preview_rate)
    headers = {"Cache-Control": "public, max-age=600"}
    return Response(draw(card), media_type="image/png", headers=headers)


def of_paper(paper: Paper, tally: Tally) -> Card:
    """Return the card of a paper: who wrote it and when, and how its claims fared."""
    names = [place.person.name for place in paper.authorships[:4]]
    more = len(paper.authorships) - len(names)
    below = ", ".join(names) + (f" and {more} more" if more else "")
    return Card(str(paper.year or ""), plain(paper.title), below, tuple(tally))


def of_claim(paper: Paper, view: ClaimView, meaning: str) -> Card:
    """Return the card of a claim: its paper, its verdict and what that means."""
    verdict = ((view.status, view.tone, 1),)
    return Card(plain(paper.title), plain(view.claim.title), meaning, verdict)


@lru_cache(maxsize=200)
def draw(card: Card) -> bytes:
    """Return the picture as PNG."""
    with _drawing:
        return _png(card)


def _png(card: Card) -> bytes:
    from matplotlib import font_manager
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100, facecolor=_PAPER)
    known = font_manager.get_font(font_manager.findfont("DejaVu Sans")).get_charmap()

    def write(x: float, y: float, text: str, size: float, colour: str, weight: str) -> None:
        shown = "".join(letter if ord(letter) in known else "□" for letter in text)
        figure.text(
            x / WIDTH, 1 - y / HEIGHT, shown, size=size, color=colour, weight=weight,
            family="DejaVu Sans", va="baseline", parse_math=False,
        )  # fmt: skip

    def block(x: float, width: float, colour: str) -> None:
        place = (x / WIDTH, 1 - 470 / HEIGHT), width / WIDTH, 34 / HEIGHT
        figure.add_artist(Rectangle(*place, facecolor=colour, edgecolor="none"))

    lines = wrap(card.title, 36, max_lines=3, placeholder=" …")
    write(_LEFT, 90, shorten(card.above, 84, placeholder=" …"), 17, _FAINT, "normal")
    for number, line in enumerate(lines):
        write(_LEFT, 165 + _LINE * number, line, 30, _INK, "bold")
    write(_LEFT, 400, shorten(card.below, 100, placeholder=" …"), 16, _FAINT, "normal")
    total, x = sum(count for _, _, count in card.tally), float(_LEFT)
    for _, tone, count in card.tally:
        width = (WIDTH - 2 * _LEFT) * count / total
        block(x, width - 3, _TONES[tone])
        x += width
    is_one = total == 1
    told = [name if is_one else f"{count} {name}" for name, _, count in card.tally]
    for number, line in enumerate(wrap(" · ".join(told), 84, max_lines=2, placeholder=" …")):
        write(_LEFT, 510 + 30 * number, line, 18, _INK, "bold" if is_one else "normal")
    write(_LEFT, 595, "exactformer studio", 15, _TONES["accent"], "bold")
    picture = BytesIO()
    figure.savefig(picture, format="png", facecolor=_PAPER, metadata={"Software": None})
    return picture.getvalue()
