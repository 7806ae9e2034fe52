"""Reviews: read, write, edit with history, delete, report; each page beside its JSON route."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field
from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse, Response

from exactformer.studio.errors import StudioError
from exactformer.studio.library import papers
from exactformer.studio.library.tables import Paper
from exactformer.studio.opinions import panel, reviews
from exactformer.studio.opinions.models import ReviewOut, ReviewVersionOut
from exactformer.studio.opinions.reviews import LIMITS, REVIEWS, ReviewDraft
from exactformer.studio.opinions.tables import Review
from exactformer.studio.opinions.text_routes import CONFLICT, TextRoutes, conflict
from exactformer.studio.opinions.texts import ChangedMeanwhileError
from exactformer.studio.opinions.views import CONFIDENCE_LABELS, PART_LABELS, show_reviews
from exactformer.studio.security.actor import Actor
from exactformer.studio.web.request import (
    WRITING,
    CurrentActor,
    ReadSession,
    Write,
    database_of,
    is_htmx,
    redirect,
    render,
    writing,
)
from exactformer.studio.web.types import (
    LARGEST,
    Clean,
    FormBody,
    Identifier,
    Listing,
    PageNumber,
    Paging,
    Sent,
    Slug,
    listing,
)

pages = APIRouter(include_in_schema=False)
api = APIRouter(prefix="/api/v1", tags=["reviews"])

HINTS = {
    "summary": "What the paper does, in your own words.",
    "strengths": "What is convincing, new, or well done.",
    "concerns": "What may not hold, or was left out.",
    "questions": "What you would ask the authors about their method.",
    "conflict": "Anything that ties you to the authors or the outcome; “none” is an answer.",
}


class ReviewForm(ReviewDraft, FormBody):
    """A review and the revision from which the edit started, or 0."""

    summary: Clean = ""
    revision: Annotated[int, Field(ge=0, le=LARGEST)] = 0


class NewReview(ReviewDraft):
    """A review from a program, which states how sure it is."""

    confidence: Annotated[int, Field(ge=1, le=5)]


class EditedReview(NewReview):
    """A review, and the revision from which the edit started."""

    revision: Identifier


@pages.get("/papers/{slug}/reviews")
def read_all(
    request: Request, db: ReadSession, actor: CurrentActor, slug: Slug, page: PageNumber = 1
) -> HTMLResponse:
    """All reviews of a paper, page by page."""
    paper = papers.get(db, slug)
    return render(
        request,
        "opinions/reviews.html",
        paper=paper,
        reviews=panel.review_page(db, actor, paper, page),
        count=panel.count_reviews(db, paper),
        my_review=reviews.mine(db, actor, paper),
    )


@api.get("/papers/{slug}/reviews")
def list_reviews(
    db: ReadSession, actor: CurrentActor, slug: Slug, paging: Paging
) -> Listing[ReviewOut]:
    """Reviews of a paper: one's own first, then the newest."""
    paper = papers.get(db, slug)
    found = reviews.listing(db, actor, paper, paging.limit, paging.offset)
    views = show_reviews(db, actor, paper, found.items)
    return listing((ReviewOut.of(view, slug) for view in views), found.total)


@pages.get("/papers/{slug}/review")
def form(request: Request, db: ReadSession, actor: CurrentActor, slug: Slug) -> HTMLResponse:
    """The form for one's own review."""
    actor.require("reader")
    paper = papers.get(db, slug)
    return _form_page(request, paper, reviews.mine(db, actor, paper))


@pages.post("/papers/{slug}/review", dependencies=WRITING)
def write(request: Request, actor: CurrentActor, slug: Slug, form: Sent[ReviewForm]) -> Response:
    """Write one's review, or a new version of it."""
    try:
        with writing(request) as db:
            paper = papers.get(db, slug)
            own = reviews.mine(db, actor, paper)
            if own is None or own.state == "deleted" or form.revision == 0:
                reviews.write(db, actor, paper, form)
            else:
                reviews.edit(db, actor, own.id, form, form.revision)
    except StudioError as refusal:
        return _give_back(request, actor, slug, form, refusal)
    return redirect(request, f"/papers/{slug}#reviews")


@api.post(
    "/papers/{slug}/reviews",
    dependencies=WRITING,
    status_code=201,
    response_model=ReviewOut,
    responses=CONFLICT,
)
def create(write: Write, slug: Slug, review: NewReview) -> Any:
    """Write one's review of a paper; a second one is refused."""
    try:
        with writing(write.request) as db:
            written = reviews.write(db, write.actor, papers.get(db, slug), review)
    except ChangedMeanwhileError as error:
        return conflict(error)
    return _shared.stored(write, written.id)


@api.put("/papers/{slug}/reviews/mine", dependencies=WRITING, response_model=ReviewOut)
def put(write: Write, slug: Slug, review: NewReview) -> Any:
    """Make this one's review of a paper, whatever it was before; the history keeps that."""
    with writing(write.request) as db:
        written = reviews.put(db, write.actor, papers.get(db, slug), review)
    return _shared.stored(write, written.id)


@pages.get("/reviews/{review_id}")
def read(
    request: Request,
    db: ReadSession,
    actor: CurrentActor,
    review_id: Identifier,
    reported: bool = False,
) -> HTMLResponse:
    """One review; after reporting it, with thanks."""
    review = reviews.get(db, actor, review_id)
    (view,) = show_reviews(db, actor, review.paper, [review])
    return render(
        request, "opinions/review.html", paper=review.paper, review=view, reported=reported
    )


def _form_page(
    request: Request,
    paper: Paper,
    own: Review | None,
    draft: ReviewDraft | None = None,
    refusal: StudioError | None = None,
) -> HTMLResponse:
    partial = is_htmx(request)
    conflict = isinstance(refusal, ChangedMeanwhileError) and own is not None
    response = render(
        request,
        "opinions/_review_form.html" if partial else "opinions/review_form.html",
        status=refusal.status if refusal else 200,
        paper=paper,
        own=own,
        draft=draft or (reviews.draft_of(own) if own else ReviewDraft.model_construct(summary="")),
        standing=reviews.draft_of(own) if conflict and own else None,
        problem=str(refusal) if refusal else "",
        labels=PART_LABELS,
        hints=HINTS,
        limits=LIMITS,
        confidences=CONFIDENCE_LABELS,
    )
    if partial:
        response.headers.update({"HX-Retarget": "#review-form", "HX-Reswap": "outerHTML"})
    return response


def _give_back(
    request: Request, actor: Actor, slug: str, draft: ReviewDraft, refusal: StudioError
) -> HTMLResponse:
    """Show the form again with the text, what was wrong, and what stands there now."""
    actor.require("reader")
    with database_of(request).session() as db:
        paper = papers.get(db, slug)
        return _form_page(request, paper, reviews.mine(db, actor, paper), draft, refusal)


def _described(db: Session, actor: Actor, review: Review) -> ReviewOut:
    (view,) = show_reviews(db, actor, review.paper, [review])
    return ReviewOut.of(view, review.paper.slug)


def _removed(request: Request, actor: Actor, review: Review, slug: str) -> Response:
    return redirect(request, f"/papers/{slug}#reviews")


LABELS = PART_LABELS | {"confidence": "Confidence, of 5"}
_shared = TextRoutes(
    REVIEWS, EditedReview, ReviewOut, ReviewVersionOut, _described, LABELS, _removed
)


routers = (pages, _shared.pages(), api, _shared.api("reviews"))
