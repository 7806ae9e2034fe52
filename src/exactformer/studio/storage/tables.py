"""All tables in one place: importing this module completes the metadata.

Those of the features stand with them. Here are those that the processes of one studio share beside its
content: rates, and runs of experiments.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Float, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from exactformer.studio.accounts import tables as _accounts  # noqa: F401
from exactformer.studio.library import tables as _library  # noqa: F401
from exactformer.studio.notices import tables as _notices  # noqa: F401
from exactformer.studio.opinions import tables as _opinions  # noqa: F401
from exactformer.studio.proposals import tables as _proposals  # noqa: F401
from exactformer.studio.storage import audit  # noqa: F401
from exactformer.studio.storage.base import Base, now

__all__ = ["Base", "RateBucket", "StoredRun"]


class RateBucket(Base):
    """When a bucket of a rate will be full again, in seconds since 1970."""

    __tablename__ = "rates"

    name: Mapped[str] = mapped_column(String(40), primary_key=True)
    key: Mapped[str] = mapped_column(String(80), primary_key=True)
    full_at: Mapped[float] = mapped_column(Float(53))


class StoredRun(Base):
    """The latest run of an experiment on request; ``cells`` are those that have been computed."""

    __tablename__ = "runs"

    experiment: Mapped[str] = mapped_column(String(60), primary_key=True)
    state: Mapped[str] = mapped_column(String(10))
    total: Mapped[int]
    problem: Mapped[str] = mapped_column(Text, default="")
    cells: Mapped[list[dict[str, Any]]] = mapped_column(JSON, default=list)
    seconds: Mapped[float] = mapped_column(Float(53), default=0.0)
    begun_at: Mapped[datetime] = mapped_column(default=now)
    changed_at: Mapped[datetime] = mapped_column(default=now)
