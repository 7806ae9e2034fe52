"""What a reader has written, on a page of her own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Request
from sqlalchemy import select
from sqlalchemy.orm import InstrumentedAttribute, Session, joinedload
from starlette.responses import HTMLResponse

from exactformer.studio import web
from exactformer.studio.accounts.tables import User
from exactformer.studio.errors import NotFoundError
from exactformer.studio.library.tables import Paper
from exactformer.studio.opinions.tables import Comment, Review
from exactformer.studio.opinions.texts import Row

router = APIRouter()

LATEST = 50
"""Reviews and comments listed."""


@dataclass(frozen=True)
class Profile:
    """A reader with her latest visible reviews and comments, each beside its paper."""

    user: User
    reviews: tuple[tuple[Review, Paper], ...]
    comments: tuple[tuple[Comment, Paper], ...]


@router.get("/readers/{handle}")
def reader(
    request: Request, db: web.ReadSession, handle: Annotated[web.Clean, Path(max_length=40)]
) -> HTMLResponse:
    """Show what a reader has written."""
    return web.render(request, "opinions/reader.html", profile=profile(db, handle))


def profile(db: Session, handle: str) -> Profile:
    """Return what everybody may know of a reader."""
    user = db.scalar(select(User).where(User.handle == handle.lower()))
    if user is None:
        raise NotFoundError(f"there is no reader {handle!r}")
    return Profile(
        user,
        _latest(db, user, Review, Review.updated_at),
        _latest(db, user, Comment, Comment.created_at),
    )


def _latest(
    db: Session, user: User, model: type[Row], at: InstrumentedAttribute[datetime]
) -> tuple[tuple[Row, Paper], ...]:
    visible = select(model).where(model.author_id == user.id, model.state == "visible")
    newest = visible.order_by(at.desc(), model.id.desc()).limit(LATEST)
    return tuple((text, text.paper) for text in db.scalars(newest.options(joinedload(model.paper))))
