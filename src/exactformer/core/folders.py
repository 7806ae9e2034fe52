"""The folder for what can be computed again."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path


def cache_folder(name: str) -> Path:
    """Return a folder in ``$EXACTFORMER_CACHE``, or else in the user's cache folder."""
    given = os.environ.get("EXACTFORMER_CACHE")
    root = Path(given) if given else user_cache_path("exactformer", appauthor=False)
    return root / name
