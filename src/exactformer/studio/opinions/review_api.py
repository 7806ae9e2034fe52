"""Reviews for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field
from sqlalchemy.orm import Session
from starlette.responses import JSONResponse, Response

from exactformer.studio.library import papers
from exactformer.studio.opinions import descriptions, moderation, reviews
from exactformer.studio.opinions.moderation_api import Reason
from exactformer.studio.opinions.quick_api import Slug
from exactformer.studio.opinions.reviews import LIMITS, ReviewDraft
from exactformer.studio.opinions.views import show_reviews
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage.tables import Paper, Review
from exactformer.studio.web.rate_limits import WRITING
from exactformer.studio.web.request import (
    Body,
    Clean,
    CurrentActor,
    Identifier,
    Paging,
    ReadSession,
    database_of,
    listing,
    writing,
)

router = APIRouter(prefix="/api/v1", tags=["reviews"])

Part = Annotated[Clean, Field(max_length=LIMITS["summary"])]
_EDIT_RESPONSES: dict[int | str, dict[str, Any]] = {
    409: {"description": "Changed meanwhile; the answer gives the draft back."}
}


class NewReview(Body):
    """A review by its template; all parts are markdown."""

    summary: Annotated[Part, Field(min_length=1)]
    strengths: Part = ""
    concerns: Part = ""
    questions: Part = ""
    conflict: Annotated[Clean, Field(max_length=LIMITS["conflict"])] = ""
    confidence: Annotated[int, Field(ge=1, le=5)]

    def draft(self) -> ReviewDraft:
        """What the service takes."""
        return ReviewDraft(**self.model_dump(exclude={"revision"}))


class EditedReview(NewReview):
    """A review, and the revision from which the edit started."""

    revision: Identifier


@router.get("/papers/{slug}/reviews")
def read_all(db: ReadSession, actor: CurrentActor, slug: Slug, paging: Paging) -> dict[str, Any]:
    """Reviews of a paper: one's own first, then the newest."""
    paper = papers.get(db, slug)
    found = reviews.listing(db, actor, paper, paging.limit, paging.offset)
    views = show_reviews(db, actor, paper, found.items)
    return listing(map(descriptions.review, views), found.total)


@router.post(
    "/papers/{slug}/reviews", dependencies=WRITING, status_code=201, responses=_EDIT_RESPONSES
)
def write(request: Request, actor: CurrentActor, slug: Slug, review: NewReview) -> Any:
    """Write one's review of a paper; a second one is refused."""
    try:
        with writing(request) as db:
            written = reviews.write(db, actor, papers.get(db, slug), review.draft())
    except reviews.ReviewConflictError as error:
        return descriptions.conflict(error)
    return _stored(request, actor, written.id)


@router.put("/papers/{slug}/reviews/mine", dependencies=WRITING)
def put(request: Request, actor: CurrentActor, slug: Slug, review: NewReview) -> dict[str, Any]:
    """Make this one's review of a paper, whatever it was before; the history keeps that."""
    with writing(request) as db:
        written = reviews.put(db, actor, papers.get(db, slug), review.draft())
    return _stored(request, actor, written.id)


@router.get("/reviews/{review_id}")
def read(db: ReadSession, actor: CurrentActor, review_id: Identifier) -> dict[str, Any]:
    """One review."""
    return _shown(db, actor, reviews.get(db, actor, review_id))


@router.put("/reviews/{review_id}", dependencies=WRITING, responses=_EDIT_RESPONSES)
def edit(request: Request, actor: CurrentActor, review_id: Identifier, review: EditedReview) -> Any:
    """Change one's review, from the revision one has read."""
    try:
        with writing(request) as db:
            reviews.edit(db, actor, review_id, review.draft(), review.revision)
    except reviews.ReviewConflictError as error:
        return descriptions.conflict(error)
    return _stored(request, actor, review_id)


@router.delete("/reviews/{review_id}", status_code=204)
def remove(request: Request, actor: CurrentActor, review_id: Identifier) -> Response:
    """Delete one's review; it can be written anew."""
    with writing(request) as db:
        reviews.remove(db, actor, review_id)
    return Response(status_code=204)


@router.get("/reviews/{review_id}/versions")
def versions(db: ReadSession, actor: CurrentActor, review_id: Identifier) -> dict[str, Any]:
    """Every version a review had, the first first."""
    found = reviews.versions(db, actor, review_id)
    items = [
        {"revision": version.revision, "written_at": version.written_at.isoformat()}
        | asdict(reviews.draft_of(version))
        for version in found
    ]
    return listing(items, len(items))


@router.post("/reviews/{review_id}/flags", dependencies=WRITING, status_code=201)
def report(
    request: Request, actor: CurrentActor, review_id: Identifier, reason: Reason
) -> JSONResponse:
    """Ask moderators to look at a review."""
    with writing(request) as db:
        flag = moderation.report(db, actor, "review", review_id, reason.reason)
    return JSONResponse(descriptions.flag(flag), 201)


def _stored(request: Request, actor: Actor, review_id: int) -> dict[str, Any]:
    """A review just written, rendered when others may write again."""
    with database_of(request).session() as db:
        return _shown(db, actor, reviews.get(db, actor, review_id))


def _shown(db: Session, actor: Actor, review: Review) -> dict[str, Any]:
    paper = db.get_one(Paper, review.paper_id)
    (view,) = show_reviews(db, actor, paper, [review])
    return descriptions.review(view) | {"paper": paper.slug}
