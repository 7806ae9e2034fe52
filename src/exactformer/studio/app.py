"""The studio as one application: database, guards, pages and API put together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from math import ceil

from fastapi import Depends, FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from exactformer import __version__
from exactformer.studio.accounts import account_routes, login_routes
from exactformer.studio.accounts import service as accounts
from exactformer.studio.database import open_database
from exactformer.studio.evidence import about_pages, claim_routes
from exactformer.studio.evidence.evidence import changed_at
from exactformer.studio.evidence.runs import RUNNABLE, Runs
from exactformer.studio.library import paper_routes, people_routes
from exactformer.studio.map import routes as map_routes
from exactformer.studio.notices import routes as notice_routes
from exactformer.studio.opinions import (
    collection_routes,
    comment_routes,
    moderation_routes,
    quick_routes,
    reader_pages,
    review_routes,
)
from exactformer.studio.playground import routes as playground_routes
from exactformer.studio.playground.workers import Limits, Pool
from exactformer.studio.proposals import routes as proposal_routes
from exactformer.studio.security import sessions
from exactformer.studio.security.middleware import BodyLimit, Heads, StrictHeaders
from exactformer.studio.security.rates import Rates
from exactformer.studio.settings import Settings
from exactformer.studio.storage.engine import Database
from exactformer.studio.web import error_pages
from exactformer.studio.web.freshness import Freshness
from exactformer.studio.web.rendering import STATIC
from exactformer.studio.web.request import guard

# In the order in which paths are tried: what is asked for most stands first.
ROUTERS = [
    paper_routes.router,
    people_routes.router,
    about_pages.router,
    login_routes.router,
    account_routes.router,
    map_routes.router,
    claim_routes.router,
    *playground_routes.routers,
    collection_routes.router,
    *comment_routes.routers,
    *review_routes.routers,
    moderation_routes.router,
    quick_routes.router,
    reader_pages.router,
    notice_routes.router,
    proposal_routes.router,
]

LOOPBACK = ["localhost", "127.0.0.1", "[::1]"]


def create_app(settings: Settings) -> FastAPI:
    """Open the database, bring it up to date, and put the application together."""
    database = open_database(settings.database)
    if settings.single_user:
        with database.writing() as db:
            accounts.set_up_desk(db)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        app.state.runs.close()
        app.state.playground.close()
        database.close()

    app = FastAPI(
        title="exactformer studio",
        version=__version__,
        lifespan=lifespan,
        dependencies=[Depends(guard)],
        middleware=_layers(settings, database),
        openapi_url=None,
    )
    app.state.settings = settings
    app.state.database = database
    app.state.rates = Rates()
    app.state.playground = Pool(Limits.of(settings))
    limits = Limits(1, ceil(settings.run_seconds), settings.run_bytes)
    # Several processes do not know of one another's runs.
    app.state.runs = Runs(limits, runnable=RUNNABLE if settings.workers == 1 else ())
    error_pages.install(app)
    for router in ROUTERS:
        app.include_router(router)
    app.mount("/static", Shipped(directory=STATIC), name="static")
    return app


def _layers(settings: Settings, database: Database) -> list[Middleware]:
    """What surrounds every request, from the outside in."""
    layers: list[Middleware] = [
        Middleware(StrictHeaders, secure=settings.secure_cookies, embeds=not settings.single_user)
    ]
    if settings.single_user:
        # Another site that makes its name point to this machine is not answered.
        layers.append(Middleware(TrustedHostMiddleware, allowed_hosts=LOOPBACK))
    else:
        newest, cookie = newest_change(settings, database), sessions.cookie_name(settings)
        layers.append(Middleware(Freshness, newest=newest, cookie=cookie))
    inner = Middleware(BodyLimit, limit=settings.body_bytes)
    return [Middleware(Heads), *layers, inner]


def newest_change(settings: Settings, database: Database) -> Callable[[], Awaitable[object]]:
    """Return what gives the newest change of all that pages show: the database and the stored runs."""

    async def newest() -> object:
        read = database.newest
        change = read() if database.is_sqlite else await run_in_threadpool(read)
        return change, changed_at(settings.results)

    return newest


class Shipped(StaticFiles):
    """Files of the package: those asked for by version are kept by browsers, the others checked."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Answer with a file."""
        response = await super().get_response(path, scope)
        kept = b"v=" in scope.get("query_string", b"")
        response.headers["Cache-Control"] = (
            "public, max-age=31536000, immutable" if kept else "no-cache"
        )
        return response
