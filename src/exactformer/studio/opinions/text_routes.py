"""Routes that all kinds of texts have: history, deletion, reports, and the same for programs.

Annotations are values here, since each kind of text brings its own models.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic

from fastapi import APIRouter, Path, Request
from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse, JSONResponse, Response

from exactformer.studio.errors import NotFoundError
from exactformer.studio.opinions import moderation
from exactformer.studio.opinions.differences import differences
from exactformer.studio.opinions.models import FlagOut, TextOut, VersionOut
from exactformer.studio.opinions.texts import ChangedMeanwhileError, Row, State, TextKind
from exactformer.studio.security.actor import Actor
from exactformer.studio.web.request import (
    WRITING,
    CurrentActor,
    ReadSession,
    Write,
    Writer,
    database_of,
    redirect,
    render,
    writing,
)
from exactformer.studio.web.types import (
    LARGEST,
    Body,
    Clean,
    FormBody,
    Listing,
    Out,
    Revision,
    Sent,
    listing,
    stated,
)

CHANGED = "Changed meanwhile; the answer gives the draft back."


class Reason(Body):
    """Why moderators should look."""

    reason: Annotated[Clean, stated(moderation.LIMIT, least=1)]


class ReasonForm(Reason, FormBody):
    """The same, from a form."""

    reason: Clean = ""


class ErrorOut(Out):
    """Why something was refused."""

    status: int
    message: str


class ConflictOut(Out):
    """A refused edit: nothing is lost, the text and the present revision are given back."""

    error: ErrorOut
    revision: int
    draft: dict[str, str | int]


CONFLICT: dict[int | str, dict[str, Any]] = {409: {"description": CHANGED, "model": ConflictOut}}


def conflict(error: ChangedMeanwhileError[Any]) -> JSONResponse:
    """Answer a refused edit."""
    refused = ConflictOut(
        error=ErrorOut(status=error.status, message=str(error)),
        revision=error.current.revision,
        draft=error.draft.values(),
    )
    return JSONResponse(refused.model_dump(), error.status)


@dataclass(frozen=True)
class TextRoutes(Generic[Row, State]):
    """What the routes of a kind of text need beside the kind itself.

    ``out`` and ``version`` describe it to programs, ``edited`` is what they send for a new version;
    ``describe`` makes an ``out``, ``labels`` name the parts in a history, and ``removed`` answers
    after deletion, given the slug of the paper.
    """

    kind: TextKind[Row, State]
    edited: type[Body]
    out: type[TextOut]
    version: type[VersionOut]
    describe: Callable[[Session, Actor, Row], TextOut]
    labels: Mapping[str, str]
    removed: Callable[[Request, Actor, Row, str], Response]

    def stored(self, write: Writer, id: int) -> TextOut:
        """Describe a text just written, when others may write again."""
        with database_of(write.request).session() as db:
            return self._shown(db, write.actor, id)

    def _shown(self, db: Session, actor: Actor, id: int) -> TextOut:
        row = self.kind.get(db, actor, id)
        return self.describe(db, actor, row)

    def _identifier(self) -> Any:
        """Return where an address has the number of a text."""
        return Path(ge=1, le=LARGEST, alias=f"{self.kind.name}_id")

    def pages(self) -> APIRouter:
        """Return the pages: history, delete, report."""
        kind, router = self.kind, APIRouter(include_in_schema=False)
        place = f"/{kind.name}s/{{{kind.name}_id}}"
        at: Any = self._identifier()

        @router.get(f"{place}/history")
        def history(
            request: Request,
            db: ReadSession,
            actor: CurrentActor,
            id: int = at,
            before: Revision = 0,
            after: Revision = 0,
        ) -> HTMLResponse:
            """What changed between two versions."""
            row = kind.get(db, actor, id)
            versions = {each.revision: each for each in kind.versions(db, actor, id)}
            before, after = choose(list(versions), before, after)
            old, new = kind.values(versions[before]), kind.values(versions[after])
            return render(
                request,
                "opinions/history.html",
                paper=row.paper,
                kind=kind.name,
                subject=row,
                versions=list(versions.values()),
                before=before,
                after=after,
                parts=[
                    (label, differences(str(old[part]), str(new[part])))
                    for part, label in self.labels.items()
                ],
            )

        @router.post(f"{place}/delete")
        def remove(request: Request, actor: CurrentActor, id: int = at) -> Response:
            """Delete one's text."""
            with writing(request) as db:
                row = kind.remove(db, actor, id)
                slug = row.paper.slug
            return self.removed(request, actor, row, slug)

        @router.get(f"{place}/flag")
        def flag_form(
            request: Request, db: ReadSession, actor: CurrentActor, id: int = at
        ) -> HTMLResponse:
            """Ask why a text is reported."""
            actor.require("reader")
            row = kind.get(db, actor, id)
            return render(
                request, "moderation/flag.html", kind=kind.name, subject=row, paper=row.paper
            )

        @router.post(f"{place}/flag", dependencies=WRITING)
        def flag(write: Write, form: Sent[ReasonForm], id: int = at) -> Response:
            """Report a text."""
            write(moderation.report, kind.name, id, form.reason)
            return redirect(write.request, f"/{kind.name}s/{id}?reported=true")

        return router

    def api(self, tag: str) -> APIRouter:
        """Return the routes for programs: read, edit, delete, versions, report."""
        kind, router = self.kind, APIRouter(prefix="/api/v1", tags=[tag])
        place = f"/{kind.name}s/{{{kind.name}_id}}"
        at: Any = self._identifier()
        edited, version = self.edited, self.version

        @router.get(place, response_model=self.out)
        def read(db: ReadSession, actor: CurrentActor, id: int = at) -> Any:
            """One text."""
            return self._shown(db, actor, id)

        @router.put(place, dependencies=WRITING, response_model=self.out, responses=CONFLICT)
        def edit(write: Write, draft: edited, id: int = at) -> Any:  # type: ignore[valid-type]
            """Change one's text, from the revision one has read."""
            try:
                write(kind.edit, id, draft, draft.revision)  # type: ignore[attr-defined]
            except ChangedMeanwhileError as error:
                return conflict(error)
            return self.stored(write, id)

        @router.delete(place, status_code=204)
        def remove(write: Write, id: int = at) -> None:
            """Delete one's text; the place of a comment stays, a review can be written anew."""
            write(kind.remove, id)

        @router.get(f"{place}/versions", response_model=Listing[version])  # type: ignore[valid-type]
        def versions(db: ReadSession, actor: CurrentActor, id: int = at) -> Any:
            """Every version a text had, the first first."""
            found = kind.versions(db, actor, id)
            return listing(map(version.model_validate, found), len(found))

        @router.post(f"{place}/flags", dependencies=WRITING, status_code=201)
        def report(write: Write, reason: Reason, id: int = at) -> FlagOut:
            """Ask moderators to look at a text."""
            flag = write(moderation.report, kind.name, id, reason.reason)
            return FlagOut.model_validate(flag)

        return router


def choose(revisions: Sequence[int], before: int, after: int) -> tuple[int, int]:
    """Return the versions asked for; for 0, the last and the one before it.

    >>> choose([1, 2, 3], 0, 0), choose([1], 0, 0), choose([1, 2, 3], 1, 0)
    ((2, 3), (1, 1), (1, 3))
    """
    after = after or revisions[-1]
    before = before or max(revisions[0], after - 1)
    for revision in (before, after):
        if revision not in revisions:
            raise NotFoundError(f"there is no version {revision}; the last is {revisions[-1]}")
    return before, after
