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
from exactformer.studio.api import accounts as accounts_api
from exactformer.studio.api import claims as claims_api
from exactformer.studio.api import collections as collections_api
from exactformer.studio.api import comments as comments_api
from exactformer.studio.api import exports as exports_api
from exactformer.studio.api import imports as imports_api
from exactformer.studio.api import map as map_api
from exactformer.studio.api import moderation as moderation_api
from exactformer.studio.api import opinions as opinions_api
from exactformer.studio.api import papers as papers_api
from exactformer.studio.api import playground as playground_api
from exactformer.studio.api import reviews as reviews_api
from exactformer.studio.api import search as search_api
from exactformer.studio.api import session as session_api
from exactformer.studio.caching import PageCache
from exactformer.studio.database import migrations
from exactformer.studio.database.engine import Database
from exactformer.studio.database.watching import version_of
from exactformer.studio.pages import about as about_page
from exactformer.studio.pages import account as account_page
from exactformer.studio.pages import administration as administration_page
from exactformer.studio.pages import claims as claims_page
from exactformer.studio.pages import collections as collections_page
from exactformer.studio.pages import comments as comments_page
from exactformer.studio.pages import editing as editing_page
from exactformer.studio.pages import entrance as entrance_page
from exactformer.studio.pages import errors
from exactformer.studio.pages import home as home_page
from exactformer.studio.pages import imports as imports_page
from exactformer.studio.pages import map as map_page
from exactformer.studio.pages import moderation as moderation_page
from exactformer.studio.pages import opinions as opinions_page
from exactformer.studio.pages import papers as papers_page
from exactformer.studio.pages import playground as playground_page
from exactformer.studio.pages import reference as reference_page
from exactformer.studio.pages import reviews as reviews_page
from exactformer.studio.playground.workers import Limits, Pool
from exactformer.studio.rendering import STATIC
from exactformer.studio.security import sessions
from exactformer.studio.security.bodies import BodyLimit
from exactformer.studio.security.headers import StrictHeaders
from exactformer.studio.security.heads import Heads
from exactformer.studio.security.rates import Rates
from exactformer.studio.services import accounts, seeding
from exactformer.studio.services.runs import Runs
from exactformer.studio.settings import Settings
from exactformer.studio.web import guard

# Pages and API, in the order in which paths are tried.
ROUTERS = [
    home_page.router,
    about_page.router,
    entrance_page.router,
    account_page.router,
    administration_page.router,
    reference_page.router,
    map_page.router,
    papers_page.router,
    claims_page.router,
    editing_page.router,
    imports_page.router,
    playground_page.router,
    collections_page.router,
    comments_page.router,
    moderation_page.router,
    opinions_page.router,
    reviews_page.router,
    session_api.router,
    accounts_api.router,
    map_api.router,
    exports_api.router,
    papers_api.router,
    claims_api.router,
    search_api.router,
    imports_api.router,
    playground_api.router,
    collections_api.router,
    comments_api.router,
    moderation_api.router,
    opinions_api.router,
    reviews_api.router,
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
    errors.install(app)
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
