"""Reviews: read, write, edit with history, delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from pydantic import Field
from starlette.responses import HTMLResponse, Response

from exactformer.studio.errors import StudioError
from exactformer.studio.library import papers
from exactformer.studio.opinions import panel, reviews
from exactformer.studio.opinions.differences import differences
from exactformer.studio.opinions.history import choose
from exactformer.studio.opinions.quick_pages import Slug
from exactformer.studio.opinions.reviews import LIMITS, ReviewDraft
from exactformer.studio.opinions.tables import REVIEW_PARTS
from exactformer.studio.opinions.views import CONFIDENCE_LABELS, PART_LABELS, show_reviews
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage.tables import Paper, Review
from exactformer.studio.web.rate_limits import WRITING
from exactformer.studio.web.request import (
    LARGEST,
    Clean,
    CurrentActor,
    FormBody,
    Identifier,
    ReadSession,
    database_of,
    is_htmx,
    redirect,
    render,
    writing,
)

router = APIRouter(include_in_schema=False)

PageNumber = Annotated[int, Query(ge=1, le=10_000)]
Revision = Annotated[int, Query(ge=0, le=LARGEST)]
HINTS = {
    "summary": "What the paper does, in your own words.",
    "strengths": "What is convincing, new, or well done.",
    "concerns": "What may not hold, or was left out.",
    "questions": "What you would ask the authors about their method.",
    "conflict": "Anything that ties you to the authors or the outcome; “none” is an answer.",
}


class ReviewForm(FormBody):
    """The template; lengths are judged by the service, which gives the text back."""

    summary: Clean = ""
    strengths: Clean = ""
    concerns: Clean = ""
    questions: Clean = ""
    conflict: Clean = ""
    confidence: Annotated[int, Field(ge=1, le=5)] = 3
    revision: Annotated[int, Field(ge=0, le=LARGEST)] = 0

    def draft(self) -> ReviewDraft:
        """What the service takes."""
        return ReviewDraft(**self.model_dump(exclude={"csrf_token", "revision"}))


@router.get("/papers/{slug}/reviews")
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


@router.get("/papers/{slug}/review")
def form(request: Request, db: ReadSession, actor: CurrentActor, slug: Slug) -> HTMLResponse:
    """The form for one's own review."""
    actor.require("reader")
    paper = papers.get(db, slug)
    return _form_page(request, paper, reviews.mine(db, actor, paper))


@router.post("/papers/{slug}/review", dependencies=WRITING)
def write(
    request: Request, actor: CurrentActor, slug: Slug, form: Annotated[ReviewForm, Form()]
) -> Response:
    """Write one's review, or a new version of it."""
    try:
        with writing(request) as db:
            paper = papers.get(db, slug)
            own = reviews.mine(db, actor, paper)
            if own is None or own.state == "deleted" or form.revision == 0:
                reviews.write(db, actor, paper, form.draft())
            else:
                reviews.edit(db, actor, own.id, form.draft(), form.revision)
    except StudioError as refusal:
        return _give_back(request, actor, slug, form.draft(), refusal)
    return redirect(request, f"/papers/{slug}#reviews")


@router.get("/reviews/{review_id}")
def read(
    request: Request,
    db: ReadSession,
    actor: CurrentActor,
    review_id: Identifier,
    reported: bool = False,
) -> HTMLResponse:
    """One review; after reporting it, with thanks."""
    review = reviews.get(db, actor, review_id)
    paper = db.get_one(Paper, review.paper_id)
    (view,) = show_reviews(db, actor, paper, [review])
    return render(request, "opinions/review.html", paper=paper, review=view, reported=reported)


@router.get("/reviews/{review_id}/history")
def history(
    request: Request,
    db: ReadSession,
    actor: CurrentActor,
    review_id: Identifier,
    before: Revision = 0,
    after: Revision = 0,
) -> HTMLResponse:
    """What changed between two versions of a review."""
    review = reviews.get(db, actor, review_id)
    versions = {each.revision: each for each in reviews.versions(db, actor, review_id)}
    before, after = choose(list(versions), before, after)
    old, new = reviews.draft_of(versions[before]), reviews.draft_of(versions[after])
    parts = [
        (PART_LABELS[part], differences(getattr(old, part), getattr(new, part)))
        for part in REVIEW_PARTS
    ]
    confidence = differences(f"{old.confidence} of 5", f"{new.confidence} of 5")
    return render(
        request,
        "opinions/history.html",
        paper=db.get_one(Paper, review.paper_id),
        kind="review",
        subject=review,
        versions=list(versions.values()),
        before=before,
        after=after,
        parts=[*parts, ("Confidence", confidence)],
    )


@router.post("/reviews/{review_id}/delete")
def remove(request: Request, actor: CurrentActor, review_id: Identifier) -> Response:
    """Delete one's review."""
    with writing(request) as db:
        paper = db.get_one(Paper, reviews.remove(db, actor, review_id).paper_id)
    return redirect(request, f"/papers/{paper.slug}#reviews")


def _form_page(
    request: Request,
    paper: Paper,
    own: Review | None,
    draft: ReviewDraft | None = None,
    refusal: StudioError | None = None,
) -> HTMLResponse:
    partial = is_htmx(request)
    conflict = isinstance(refusal, reviews.ReviewConflictError) and own is not None
    response = render(
        request,
        "opinions/_review_form.html" if partial else "opinions/review_form.html",
        status=refusal.status if refusal else 200,
        paper=paper,
        own=own,
        draft=draft or (reviews.draft_of(own) if own else ReviewDraft("")),
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
