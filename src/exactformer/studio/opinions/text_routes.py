"""Routes that all kinds of texts have: history, deletion, marks, reports."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from fastapi import APIRouter, Path, Request
from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse, Response

from exactformer.studio import web
from exactformer.studio.errors import NotFoundError
from exactformer.studio.library.tables import Paper
from exactformer.studio.opinions import moderation
from exactformer.studio.opinions.differences import differences
from exactformer.studio.opinions.texts import Row, State, TextKind
from exactformer.studio.opinions.views import Standing
from exactformer.studio.security.actor import Actor


@dataclass(frozen=True)
class TextRoutes(Generic[Row, State]):
    """What the routes of a kind of text need beside the kind itself.

    ``show`` prepares texts for a reader, ``labels`` name the parts in a history, and ``removed``
    answers after deletion, given the slug of the paper.
    """

    kind: TextKind[Row, State]
    show: Callable[[Session, Actor, Paper, Sequence[Row]], Sequence[Standing]]
    labels: Mapping[str, str]
    removed: Callable[[Request, Actor, Row, str], Response]

    def _shown(self, db: Session, actor: Actor, id: int) -> Standing:
        row = self.kind.get(db, actor, id)
        (view,) = self.show(db, actor, row.paper, [row])
        return view

    def _identifier(self) -> Any:
        """Return where an address has the number of a text."""
        return Path(ge=1, le=web.LARGEST, alias=f"{self.kind.name}_id")

    def pages(self) -> APIRouter:
        """Return the pages: history, delete, mark, report."""
        kind, router = self.kind, APIRouter()
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
