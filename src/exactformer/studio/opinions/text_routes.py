"""Routes that all kinds of texts have: history, deletion, marks, reports; also for programs.

Annotations are values here, since each kind of text brings its own models.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic

from fastapi import APIRouter, Path, Request
from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse, JSONResponse, Response

from exactformer.studio import web
from exactformer.studio.errors import NotFoundError
from exactformer.studio.library.tables import Paper
from exactformer.studio.opinions import moderation
from exactformer.studio.opinions.differences import differences
from exactformer.studio.opinions.models import FlagOut, TextOut, VersionOut
from exactformer.studio.opinions.quick import Useful
from exactformer.studio.opinions.texts import ChangedMeanwhileError, Row, State, TextKind
from exactformer.studio.opinions.views import Standing
from exactformer.studio.security.actor import Actor

CHANGED = "Changed meanwhile; the answer gives the draft back."


class Reason(web.Body):
    """Why moderators should look."""

    reason: Annotated[web.Clean, web.stated(moderation.LIMIT, least=1)]


class ErrorOut(web.Out):
    """Why something was refused."""

    status: int
    message: str


class ConflictOut(web.Out):
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
    ``show`` prepares texts for a reader, ``labels`` name the parts in a history, and ``removed``
    answers after deletion, given the slug of the paper.
    """

    kind: TextKind[Row, State]
    edited: type[web.Body]
    out: type[TextOut]
    version: type[VersionOut]
    show: Callable[[Session, Actor, Paper, Sequence[Row]], Sequence[Standing]]
    labels: Mapping[str, str]
    removed: Callable[[Request, Actor, Row, str], Response]

    def stored(self, write: web.Writer, id: int) -> TextOut:
        """Describe a text just written, when others may write again."""
        with web.database_of(write.request).session() as db:
            return self.out.model_validate(self._shown(db, write.actor, id))

    def _shown(self, db: Session, actor: Actor, id: int) -> Standing:
        row = self.kind.get(db, actor, id)
        (view,) = self.show(db, actor, row.paper, [row])
        return view

    def _identifier(self) -> Any:
        """Return where an address has the number of a text."""
        return Path(ge=1, le=web.LARGEST, alias=f"{self.kind.name}_id")

    def pages(self) -> APIRouter:
        """Return the pages: history, delete, mark, report."""
        kind, router = self.kind, APIRouter(include_in_schema=False)
        place = f"/{kind.name}s/{{{kind.name}_id}}"
        at: Any = self._identifier()

        @router.get(f"{place}/history")
        def history(
            read: web.Read, id: int = at, before: web.Revision = 0, after: web.Revision = 0
        ) -> HTMLResponse:
            """What changed between two versions."""
            row = read(kind.get, id)
            versions = {each.revision: each for each in read(kind.versions, id)}
            before, after = choose(list(versions), before, after)
            old, new = kind.values(versions[before]), kind.values(versions[after])
            return read.render(
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
        def remove(request: Request, actor: web.CurrentActor, id: int = at) -> Response:
            """Delete one's text."""
            with web.writing(request) as db:
                row = kind.remove(db, actor, id)
                slug = row.paper.slug
            return self.removed(request, actor, row, slug)

        @router.post(f"{place}/useful", dependencies=web.WRITING)
        def mark(write: web.Write, on: web.Switch, id: int = at) -> Response:
            """Say that a text is useful, or take that back."""
            request = write.request
            write(kind.mark, id, on)
            if not web.is_htmx(request):
                return web.redirect(request, f"/{kind.name}s/{id}#{kind.name}-{id}")
            with web.database_of(request).session() as db:
                text = self._shown(db, write.actor, id)
            return web.render(request, "opinions/_useful.html", kind=kind.name, text=text)

        @router.get(f"{place}/flag")
        def flag_form(read: web.Read, id: int = at) -> HTMLResponse:
            """Ask why a text is reported."""
            read.actor.require("reader")
            row = read(kind.get, id)
            return read.render("moderation/flag.html", kind=kind.name, subject=row, paper=row.paper)

        @router.post(f"{place}/flag", dependencies=web.WRITING)
        def flag(write: web.Write, reason: web.Line = "", id: int = at) -> Response:
            """Report a text."""
            write(moderation.report, kind.name, id, reason)
            return web.redirect(write.request, f"/{kind.name}s/{id}?reported=true")

        return router

    def api(self, tag: str) -> APIRouter:
        """Return the routes for programs: read, edit, delete, versions, marks, report."""
        kind, router = self.kind, APIRouter(prefix="/api/v1", tags=[tag])
        place = f"/{kind.name}s/{{{kind.name}_id}}"
        at: Any = self._identifier()
        edited, version = self.edited, self.version

        @router.get(place, response_model=self.out, name="read")
        def read_one(read: web.Read, id: int = at) -> Any:
            """One text."""
            return self.out.model_validate(read(self._shown, id))

        @router.put(place, dependencies=web.WRITING, response_model=self.out, responses=CONFLICT)
        def edit(write: web.Write, draft: edited, id: int = at) -> Any:  # type: ignore[valid-type]
            """Change one's text, from the revision one has read."""
            try:
                write(kind.edit, id, draft, draft.revision)  # type: ignore[attr-defined]
            except ChangedMeanwhileError as error:
                return conflict(error)
            return self.stored(write, id)

        @router.delete(place, status_code=204)
        def remove(write: web.Write, id: int = at) -> None:
            """Delete one's text; the place of a comment stays, a review can be written anew."""
            write(kind.remove, id)

        @router.get(f"{place}/versions", response_model=web.Listing[version])  # type: ignore[valid-type]
        def versions(read: web.Read, id: int = at) -> Any:
            """Every version a text had, the first first."""
            found = read(kind.versions, id)
            return web.listing(map(version.model_validate, found), len(found))

        @router.get(f"{place}/useful")
        def useful(read: web.Read, id: int = at) -> Useful:
            """How many readers find a text useful."""
            return read(kind.useful, id)

        @router.put(f"{place}/useful", dependencies=web.WRITING)
        def mark(write: web.Write, id: int = at) -> Useful:
            """Say that another's text is useful; the same again changes nothing."""
            return write(kind.mark, id, True)

        @router.delete(f"{place}/useful", dependencies=web.WRITING)
        def unmark(write: web.Write, id: int = at) -> Useful:
            """Take that back."""
            return write(kind.mark, id, False)

        @router.post(f"{place}/flags", dependencies=web.WRITING, status_code=201)
        def report(write: web.Write, reason: Reason, id: int = at) -> FlagOut:
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
