"""The research map for people: a full-screen explorer, and the parts its script asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from exactformer.studio import map as research_map
from exactformer.studio.map import KINDS, Key, State
from exactformer.studio.map.api import keys, split
from exactformer.studio.map.views import LIMIT
from exactformer.studio.web.request import Clean, ReadSession, render

router = APIRouter(tags=["map"], include_in_schema=False)

LIMITS = (20, 40, 80, 160)


@dataclass(frozen=True)
class Asked:
    """What an address asks for, before it is known whether it names a node."""

    node: str
    depth: int
    kinds: str
    limit: int
    expanded: str
    to: str

    def state(self, db: Session) -> State | None:
        """Return the state; where no node is named, that in which everybody begins."""
        centre = Key.parse(self.node) if self.node else research_map.start(db)
        if centre is None:
            return None
        return State(
            centre,
            self.depth,
            split(self.kinds) or KINDS,
            self.limit,
            keys(self.expanded),
            Key.parse(self.to) if self.to else None,
        )


def _asked(
    node: Annotated[Clean, Query(max_length=40)] = "",
    depth: Annotated[int, Query(ge=1, le=2)] = 1,
    kinds: Annotated[list[Clean] | None, Query(max_length=len(KINDS))] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = LIMIT,
    expanded: Annotated[Clean, Query(max_length=900)] = "",
    to: Annotated[Clean, Query(max_length=40)] = "",
) -> Asked:
    return Asked(node, depth, ",".join(kinds or KINDS), limit, expanded, to)


Question = Annotated[Asked, Depends(_asked)]
Words = Annotated[Clean, Query(max_length=200)]


@router.get("/map")
def explorer(request: Request, db: ReadSession, asked: Question, q: Words = "") -> Response:
    """Show the explorer."""
    state = asked.state(db)
    view = research_map.look(db, state) if state else None
    found = research_map.search(db, q) if q.strip() else ()
    return render(
        request,
        "map/page.html",
        state=state,
        view=view,
        q=q,
        found=found,
        kinds=KINDS,
        limits=sorted({*LIMITS, asked.limit}),
    )


@router.get("/map/slice")
def part(request: Request, db: ReadSession, asked: Question) -> Response:
    """Return what the explorer shows, for its script to put in place."""
    state = asked.state(db)
    view = research_map.look(db, state) if state else None
    return render(request, "map/_view.html", state=state, view=view)


@router.get("/map/found")
def found_nodes(request: Request, db: ReadSession, asked: Question, q: Words = "") -> Response:
    """Return nodes by name, with links that lead from where the reader is."""
    state = asked.state(db)
    found = research_map.search(db, q) if q.strip() else ()
    return render(request, "map/_found.html", state=state, q=q, found=found)
