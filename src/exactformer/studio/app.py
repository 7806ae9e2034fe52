"""The studio as one application: database, guards, pages and API put together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import ceil

from fastapi import Depends, FastAPI
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from exactformer import __version__
from exactformer.studio.accounts import (
    account_pages,
    administration_pages,
    login_pages,
    session_api,
)
from exactformer.studio.accounts import api as accounts_api
from exactformer.studio.accounts import service as accounts
from exactformer.studio.evidence import about_pages, claim_api, claim_pages
from exactformer.studio.evidence.runs import Runs
from exactformer.studio.library import (
    editing_pages,
    export_api,
    home_pages,
    import_api,
    import_pages,
    paper_api,
    paper_pages,
    search_api,
    seeding,
)
from exactformer.studio.map import api as map_api
from exactformer.studio.map import pages as map_page
from exactformer.studio.opinions import (
    collection_api,
    collection_pages,
    comment_api,
    comment_pages,
    moderation_api,
    moderation_pages,
    quick_api,
    quick_pages,
    review_api,
    review_pages,
)
from exactformer.studio.playground import api as playground_api
from exactformer.studio.playground import pages as playground_page
from exactformer.studio.playground.workers import Limits, Pool
from exactformer.studio.security import sessions
from exactformer.studio.security.bodies import BodyLimit
from exactformer.studio.security.headers import StrictHeaders
from exactformer.studio.security.heads import Heads
from exactformer.studio.security.rates import Rates
from exactformer.studio.settings import Settings
from exactformer.studio.storage import migrations
from exactformer.studio.storage.engine import Database
from exactformer.studio.storage.watching import version_of
from exactformer.studio.web import error_pages, reference_pages
from exactformer.studio.web.page_cache import PageCache
from exactformer.studio.web.rendering import STATIC
from exactformer.studio.web.request import guard

# Pages and API, in the order in which paths are tried.
ROUTERS = [
    home_pages.router,
    about_pages.router,
    login_pages.router,
    account_pages.router,
    administration_pages.router,
    reference_pages.router,
    map_page.router,
    paper_pages.router,
    claim_pages.router,
    editing_pages.router,
    import_pages.router,
    playground_page.router,
    collection_pages.router,
    comment_pages.router,
    moderation_pages.router,
    quick_pages.router,
    review_pages.router,
    session_api.router,
    accounts_api.router,
    map_api.router,
    export_api.router,
    paper_api.router,
    claim_api.router,
    search_api.router,
    import_api.router,
    playground_api.router,
    collection_api.router,
    comment_api.router,
    moderation_api.router,
    quick_api.router,
    review_api.router,
]

LOOPBACK = ["localhost", "127.0.0.1", "[::1]"]


def create_app(settings: Settings) -> FastAPI:
    """Open the database, bring it up to date, and put the application together."""
    database = Database(settings.database)
    migrations.upgrade(database)
    with database.writing() as db:
        seeding.seed(db)
        if settings.single_user:
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
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.state.settings = settings
    app.state.database = database
    app.state.rates = Rates()
    app.state.playground = Pool(Limits.of(settings))
    app.state.runs = Runs(Limits(1, ceil(settings.run_seconds), settings.run_bytes))
    error_pages.install(app)
    for router in ROUTERS:
        app.include_router(router)
    app.mount("/static", Shipped(directory=STATIC), name="static")
    return app


def _layers(settings: Settings, database: Database) -> list[Middleware]:
    """What surrounds every request, from the outside in."""
    uploads = dict.fromkeys(("/imports", "/api/v1/imports"), settings.upload_bytes)
    layers: list[Middleware] = [Middleware(StrictHeaders, secure=settings.secure_cookies)]
    if settings.single_user:
        # Another site that makes its name point to this machine is not answered.
        layers.append(Middleware(TrustedHostMiddleware, allowed_hosts=LOOPBACK))
    else:
        cache = Middleware(
            PageCache,
            commits=lambda: database.commits,
            cookie=sessions.cookie_name(settings),
            version=version_of(database),
        )
        layers.insert(0, cache)
    inner = Middleware(BodyLimit, limit=settings.body_bytes, uploads=uploads)
    return [Middleware(Heads), *layers, inner]


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
