"""What `exactformer serve` was asked for: where data lives, who may come, and every limit."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from platformdirs import user_data_path

PACKAGE = Path(__file__).parent


@dataclass(frozen=True)
class Rate:
    """At most ``count`` requests within ``seconds``."""

    count: int
    seconds: float

    def __str__(self) -> str:
        span, word = (
            (self.seconds / 60, "minute") if self.seconds >= 120 else (self.seconds, "second")
        )
        return f"{self.count} in {span:g} {word if span == 1 else word + 's'}"


def data_folder() -> Path:
    """Return the folder in which this system keeps the data of a user's programs."""
    return user_data_path("exactformer", appauthor=False)


def default_database() -> str:
    """The address of the database that is used when none is named."""
    return f"sqlite:///{data_folder() / 'studio.db'}"


def stored_results() -> Path | None:
    """The stored runs: shipped with the package, or lying in the checkout it runs from."""
    shipped, checkout = PACKAGE.parent / "results", PACKAGE.parents[2] / "results"
    return next((folder for folder in (shipped, checkout) if folder.is_dir()), None)


@dataclass(frozen=True)
class Settings:
    """Everything a studio needs to know; the defaults are a desk of one's own."""

    database: str = field(default_factory=default_database)
    host: str = "127.0.0.1"
    port: int = 8000
    single_user: bool = False
    results: Path | None = field(default_factory=stored_results)
    secure_cookies: bool = False
    behind_proxy: bool = False
    workers: int = 1
    playground_workers: int = 2

    body_bytes: int = 1 << 20
    session_seconds: float = 14 * 24 * 3600
    visit_seconds: float = 12 * 3600
    visit_rate: Rate = Rate(120, 60)
    login_rate: Rate = Rate(10, 300)
    login_handle_rate: Rate = Rate(100, 300)
    login_address_rate: Rate = Rate(40, 300)
    register_rate: Rate = Rate(20, 3600)
    compile_seconds: float = 20.0
    compile_rate: Rate = Rate(30, 60)
    compile_bytes: int = 1 << 30
    compile_waiting: int = 8
    compile_waiting_each: int = 2
    run_seconds: float = 120.0
    run_bytes: int = 4 << 30
    run_rate: Rate = Rate(10, 600)
    explore_rate: Rate = Rate(1200, 60)
    writing_rate: Rate = Rate(60, 60)
    preview_rate: Rate = Rate(120, 60)
