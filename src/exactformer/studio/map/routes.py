"""The research map: its page, slices, and nodes by name."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session
from starlette.responses import Response

from exactformer.studio import web
from exactformer.studio.evidence import claims
from exactformer.studio.map.nodes import search
from exactformer.studio.map.relations import KINDS, Key
from exactformer.studio.map.slices import start
from exactformer.studio.map.views import LIMIT, State, look


def split(text: str) -> tuple[str, ...]:
    """Read a list with commas, each thing once."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def keys(text: str) -> tuple[Key, ...]:
    """Read nodes with commas."""
    return tuple(Key.parse(part) for part in split(text))


router = APIRouter()

LIMITS = (20, 40, 80, 160)


class Asked(BaseModel):
    """What an address asks for, before it is known whether it names a node; ``q`` finds others."""

    node: Annotated[web.Clean, Field(max_length=40)] = ""
    depth: Annotated[int, Field(ge=1, le=2)] = 1
    kinds: Annotated[list[web.Clean], Field(max_length=len(KINDS))] = []
    limit: Annotated[int, Field(ge=1, le=200)] = LIMIT
    expanded: Annotated[web.Clean, Field(max_length=900)] = ""
    q: Annotated[web.Clean, Field(max_length=200)] = ""

    def state(self, db: Session) -> State | None:
        """Return the state; where no node is named, that in which everybody begins."""
        centre = Key.parse(self.node) if self.node else start(db)
        if centre is None:
            return None
        return State(
            centre,
            self.depth,
            split(",".join(self.kinds)) or KINDS,
            self.limit,
            keys(self.expanded),
        )


Question = Annotated[Asked, Query()]


@router.get("/map")
def explorer(read: web.Read, asked: Question) -> Response:
    """Show the explorer."""
    return read.render(
        "map/page.html",
        **_shown(read, asked),
        q=asked.q,
        found=search(read.db, asked.q) if asked.q.strip() else (),
        kinds=KINDS,
        limits=sorted({*LIMITS, asked.limit}),
    )


@router.get("/map/slice")
def part(read: web.Read, asked: Question) -> Response:
    """Return what the explorer shows, for its script to put in place."""
    return read.render("map/_view.html", **_shown(read, asked))


def _shown(read: web.Reader, asked: Asked) -> dict[str, Any]:
    """Return a state, what it shows, and status and tone of the claims among that."""
    state = asked.state(read.db)
    view = look(read.db, state) if state else None
    nodes = view.slice.nodes if view else ()
    ids = [node.key.id for node in nodes if node.key.kind == "claim"]
    results = web.settings_of(read.request).results
    verdicts = claims.verdicts(read.db, results, ids) if ids else {}
    return {"state": state, "view": view, "verdicts": verdicts}


@router.get("/map/found")
def found_nodes(request: Request, db: web.ReadSession, asked: Question) -> Response:
    """Return nodes by name, with links that lead from where the reader is."""
    state = asked.state(db)
    found = search(db, asked.q) if asked.q.strip() else ()
    return web.render(request, "map/_found.html", state=state, q=asked.q, found=found)
