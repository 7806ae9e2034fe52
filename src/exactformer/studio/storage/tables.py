"""All tables in one place: importing this module completes the metadata."""

from __future__ import annotations

from exactformer.studio.accounts import tables as _accounts  # noqa: F401
from exactformer.studio.library import tables as _library  # noqa: F401
from exactformer.studio.notices import tables as _notices  # noqa: F401
from exactformer.studio.opinions import tables as _opinions  # noqa: F401
from exactformer.studio.proposals import tables as _proposals  # noqa: F401
from exactformer.studio.storage import audit  # noqa: F401
from exactformer.studio.storage.base import Base

__all__ = ["Base"]
