"""How fast one may write: reviews, comments and reports, and previews of them.

Rendering a hostile text takes a good part of a second, and a flood of comments buries a discussion.
"""

from __future__ import annotations

from fastapi import Depends, Request

from exactformer.studio.security.rates import limit
from exactformer.studio.web.request import settings_of


def _writing(request: Request) -> None:
    limit(request, "writing", settings_of(request).writing_rate)


def _preview(request: Request) -> None:
    limit(request, "preview", settings_of(request).preview_rate)


WRITING = [Depends(_writing)]
"""Dependencies of a route that stores a text."""

PREVIEW = [Depends(_preview)]
"""Dependencies of a route that renders a text and stores nothing."""
