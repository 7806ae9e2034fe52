"""Reviews: read, write, edit with history, delete, report."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import HTMLResponse, Response

from exactformer.studio import web
from exactformer.studio.errors import StudioError
from exactformer.studio.library import papers
from exactformer.studio.library.tables import Paper
from exactformer.studio.opinions import panel, reviews
from exactformer.studio.opinions.reviews import LIMITS, REVIEWS, ReviewDraft
from exactformer.studio.opinions.tables import Review
from exactformer.studio.opinions.text_routes import TextRoutes
from exactformer.studio.opinions.texts import ChangedMeanwhileError
from exactformer.studio.opinions.views import CONFIDENCE_LABELS, PART_LABELS, show_reviews
from exactformer.studio.security.actor import Actor

pages = APIRouter()

HINTS = {
    "summary": "What the paper does, in your own words.",
    "strengths": "What is convincing, new, or well done.",
    "concerns": "What may not hold, or was left out.",
    "questions": "What you would ask the authors about their method.",
    "conflict": "Anything that ties you to the authors or the outcome; “none” is an answer.",
}


class ReviewForm(ReviewDraft, web.FormBody):
    """A review and the revision from which the edit started, or 0."""

    summary: web.Clean = ""
    revision: Annotated[int, Field(ge=0, le=web.LARGEST)] = 0


@pages.get("/papers/{slug}/reviews")
def read_all(
    read: web.Read, slug: web.Slug, page: web.PageNumber = 1, sort: reviews.Sort = "newest"
) -> HTMLResponse:
    """All reviews of a paper, page by page."""
    paper = papers.get(read.db, slug)
    return read.render(
        "opinions/reviews.html",
        paper=paper,
        reviews=read(panel.review_page, paper, page, sort),
        sort=sort,
        count=panel.count_reviews(read.db, paper),
        my_review=read(reviews.mine, paper),
    )


@pages.get("/papers/{slug}/review")
def form(read: web.Read, slug: web.Slug) -> HTMLResponse:
    """The form for one's own review."""
    read.actor.require("reader")
    paper = papers.get(read.db, slug)
    return _form_page(read.request, paper, read(reviews.mine, paper))


@pages.post("/papers/{slug}/review", dependencies=web.WRITING)
def write(
    request: Request, actor: web.CurrentActor, slug: web.Slug, form: web.Sent[ReviewForm]
) -> Response:
    """Write one's review, or a new version of it."""
    try:
        with web.writing(request) as db:
            paper = papers.get(db, slug)
            own = reviews.mine(db, actor, paper)
            if own is None or own.state == "deleted" or form.revision == 0:
                reviews.write(db, actor, paper, form)
            else:
                reviews.edit(db, actor, own.id, form, form.revision)
    except StudioError as refusal:
        return _give_back(request, actor, slug, form, refusal)
    return web.redirect(request, f"/papers/{slug}#reviews")


@pages.get("/reviews/{review_id}")
def read_one(read: web.Read, review_id: web.Identifier, reported: bool = False) -> HTMLResponse:
    """One review; after reporting it, with thanks."""
    review = read(reviews.get, review_id)
    (view,) = read(show_reviews, review.paper, [review])
    return read.render("opinions/review.html", paper=review.paper, review=view, reported=reported)


def _form_page(
    request: Request,
    paper: Paper,
    own: Review | None,
    draft: ReviewDraft | None = None,
    refusal: StudioError | None = None,
) -> HTMLResponse:
    partial = web.is_htmx(request)
    conflict = isinstance(refusal, ChangedMeanwhileError) and own is not None
    response = web.render_form(
        request,
        "opinions/_review_form.html" if partial else "opinions/review_form.html",
        refusal,
        paper=paper,
        own=own,
        draft=draft or (reviews.draft_of(own) if own else ReviewDraft.model_construct(summary="")),
        standing=reviews.draft_of(own) if conflict and own else None,
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
    with web.database_of(request).session() as db:
        paper = papers.get(db, slug)
        return _form_page(request, paper, reviews.mine(db, actor, paper), draft, refusal)


def _removed(request: Request, actor: Actor, review: Review, slug: str) -> Response:
    return web.redirect(request, f"/papers/{slug}#reviews")


LABELS = PART_LABELS | {"confidence": "Confidence, of 5"}
_shared = TextRoutes(REVIEWS, show_reviews, LABELS, _removed)


routers = (pages, _shared.pages())
