"""Against forged requests: whatever changes something carries its session's second token.

Scripts and htmx send it as the header ``X-CSRF-Token``, plain forms as the field ``csrf_token``.
"""

from __future__ import annotations

import secrets

from starlette.requests import Request

from exactformer.studio.errors import ForbiddenError
from exactformer.studio.security.sessions import Browser

HEADER, FIELD = "X-CSRF-Token", "csrf_token"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


async def check(request: Request, browser: Browser | None) -> None:
    """Refuse a request that changes something without the token of its session."""
    if request.method in SAFE:
        return
    if browser is None:
        await _keep_texts(request)
        raise ForbiddenError(
            "Your session is over, and changes need one: reload the page and send it again."
        )
    sent = await _sent(request)
    if not secrets.compare_digest(sent.encode(), browser.csrf_token.encode()):
        await _keep_texts(request)
        raise ForbiddenError(
            f"the request does not carry its session's token ({FIELD} or {HEADER}): reload the "
            "page and send it again"
        )


async def _keep_texts(request: Request) -> None:
    """Keep what somebody wrote into a form that is refused, for the page that says so."""
    if not request.headers.get("Content-Type", "").lower().startswith(FORMS[0]):
        return
    request.state.written = [
        text
        for name, text in (await request.form()).items()
        if isinstance(text, str) and len(text.split()) > 1 and "password" not in name
    ]


async def _sent(request: Request) -> str:
    if header := request.headers.get(HEADER):
        return header
    if not request.headers.get("Content-Type", "").lower().startswith(FORMS):
        return ""
    field = (await request.form()).get(FIELD, "")
    return field if isinstance(field, str) else ""
