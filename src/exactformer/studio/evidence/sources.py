"""Sources that the ledger names as evidence: tests, where this is a checkout.

Files are looked up among the names in the ledger, never put together from an address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from markupsafe import Markup

from exactformer.claims import every
from exactformer.studio.errors import NotFoundError
from exactformer.studio.settings import PACKAGE

PAGE_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\.md[^)]*\)")
"""A link to a page of the documentation."""


def links(tests: Iterable[str]) -> Markup:
    """Return tests by name, linked to their files as far as these are here."""
    return Markup(", ").join(map(_link, tests))


def _link(test: str) -> Markup:
    path, _, name = test.partition("::")
    words = Markup("<code>{}</code>").format(name)
    return Markup('<a href="/source/{}">{}</a>').format(path, words) if path in files() else words


def file(path: str) -> Path:
    """Return a file that the ledger names."""
    found = files().get(path)
    if found is None:
        raise NotFoundError("There is no such source here.")
    return found


@cache
def files() -> dict[str, Path]:
    """Return every named file that is here, by its path in the repository."""
    tests = [test for claim in every() for test in claim.tests]
    tests += [test for claim in every() for one in claim.errata for test in one.tests]
    root = PACKAGE.parents[2]
    named = sorted({test.partition("::")[0] for test in tests})
    return {path: root / path for path in named if (root / path).is_file()}
