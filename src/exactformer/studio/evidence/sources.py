"""Sources that the shipped works name as checks: tests and the errata, where this is a checkout.

Files are looked up among the names in those works, never put together from an address.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from markupsafe import Markup

from exactformer.studio.errors import NotFoundError
from exactformer.studio.library.seeds import NAMES, work
from exactformer.studio.settings import PACKAGE

ERRATA = "docs/theory/errata.md"
_FILE = re.compile(r"\btests/[\w/]+\.py\b")
_NAMED = re.compile(r"\btests/[\w/]+\.py\b|\berrata\b")


def linked(html: Markup) -> Markup:
    """Link the files that safe HTML names, as far as they are here."""

    def link(name: re.Match[str]) -> str:
        path = ERRATA if name[0] == "errata" else name[0]
        return f'<a href="/source/{path}">{name[0]}</a>' if path in files() else name[0]

    return Markup(_NAMED.sub(link, html))


def file(path: str) -> Path:
    """Return a file that a shipped work names."""
    found = files().get(path)
    if found is None:
        raise NotFoundError("There is no such source here.")
    return found


@cache
def files() -> dict[str, Path]:
    """Return every named file that is here, by its path in the repository."""
    texts = [claim.checked_by for name in NAMES for claim in work(name).claims]
    named = {ERRATA, *(path for text in texts for path in _FILE.findall(text))}
    root = PACKAGE.parents[2]
    return {path: root / path for path in sorted(named) if (root / path).is_file()}
