"""Pictures of papers and claims, for sites that show a preview of an address."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from exactformer.studio.evidence import cards, claims
from exactformer.studio.evidence.cards import Card
from exactformer.studio.library import papers
from exactformer.studio.security.rates import limit
from exactformer.studio.web.request import ReadSession, settings_of
from exactformer.studio.web.types import Clean, Slug

router = APIRouter(include_in_schema=False)

Anchor = Annotated[Clean, Path(max_length=60)]


@router.get("/papers/{slug}/card.png")
def paper_card(request: Request, db: ReadSession, slug: Slug) -> Response:
    """Answer with a picture of a paper's verdicts."""
    paper = papers.get(db, slug)
    tally = claims.tally(claims.views(paper, settings_of(request).results))
    return _picture(request, cards.of_paper(paper, tally))


@router.get("/papers/{slug}/claims/{anchor}/card.png")
def claim_card(request: Request, db: ReadSession, slug: Slug, anchor: Anchor) -> Response:
    """Answer with a picture of a claim's verdict."""
    paper = papers.get(db, slug)
    view = claims.view(claims.get(paper, anchor), settings_of(request).results)
    return _picture(request, cards.of_claim(paper, view, claims.MEANINGS[view.status]))


def _picture(request: Request, card: Card) -> Response:
    limit(request, "cards", settings_of(request).preview_rate)
    headers = {"Cache-Control": "public, max-age=600"}
    return Response(cards.draw(card), media_type="image/png", headers=headers)
