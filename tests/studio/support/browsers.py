"""Pages in a real browser, with an ear for what they complain about.

A page that logs an error, breaks its own content security policy, throws, opens a dialog or asks
another host for anything fails the test, unless the test says that it expects it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.studio.support.people import Person
from tests.waiting import PATIENCE, wait_until

DESK = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
SHIFTS = """window.shifted = 0;
new PerformanceObserver((list) => {
  for (const shift of list.getEntries()) if (!shift.hadRecentInput) window.shifted += shift.value;
}).observe({type: "layout-shift", buffered: true});"""
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def browser_program() -> str | None:
    """Debian's Chromium; without windows if it can be had, as that takes a third of the time."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    return next((path for path in map(shutil.which, names) if path), None)


@dataclass
class Visit:
    """Browser windows of one test."""

    browser: Any
    url: str
    complaints: list[str] = field(default_factory=list)
    contexts: list[Any] = field(default_factory=list)

    def page(
        self,
        person: Person | None = None,
        *,
        scheme: str = "light",
        size: dict[str, int] | None = None,
        **options: Any,
    ) -> Any:
        """A window of its own for a person (a visitor if nobody is named)."""
        context = self.browser.new_context(
            base_url=self.url,
            viewport=size or DESK,
            color_scheme=scheme,
            reduced_motion="reduce",
            accept_downloads=True,
            **options,
        )
        context.set_default_timeout(1000 * PATIENCE)
        self.contexts.append(context)
        if person is not None:
            context.add_cookies(
                [
                    {"name": name, "value": value, "url": self.url}
                    for name, value in person.cookies.items()
                ]
            )
        page = context.new_page()
        page.add_init_script(SHIFTS)
        self._listen(page)
        return page

    def _listen(self, page: Any) -> None:
        host = urlsplit(self.url).netloc

        def console(message: Any) -> None:
            if message.type in ("error", "warning"):
                self.complaints.append(f"{page.url}: {message.text} ({message.location['url']})")

        def request(request: Any) -> None:
            parts = urlsplit(request.url)
            if parts.scheme not in ("data", "blob", "about") and parts.netloc != host:
                self.complaints.append(f"{page.url} asks for {request.url}")

        def dialog(dialog: Any) -> None:
            self.complaints.append(f"{page.url} opened a dialog: {dialog.message}")
            dialog.dismiss()

        page.on("console", console)
        page.on("request", request)
        page.on("dialog", dialog)
        page.on("pageerror", lambda error: self.complaints.append(f"{page.url} threw {error}"))

    @contextmanager
    def losing(self, page: Any, addresses: str) -> Iterator[None]:
        """Lose what a page sends to some addresses, and what it says of that; the rest arrives.

        A browser without any connection would also miss the fonts it happens to be fetching.
        """
        page.route(addresses, lambda route: route.abort("internetdisconnected"))
        yield
        page.unroute(addresses)
        self.expect("ERR_INTERNET_DISCONNECTED")
        self.strike("htmx:sendError", "htmx:afterRequest")

    def expect(self, *fragments: str) -> None:
        """Wait for a complaint with one of these words, and strike all such: the test provoked them."""
        window = self.contexts[-1].pages[-1]
        wait_until(
            lambda: (
                window.title() is not None
                and any(part in text for part in fragments for text in self.complaints)
            )
        )
        self.strike(*fragments)

    def strike(self, *fragments: str) -> None:
        """Strike what has been complained about in these words."""
        self.complaints = [
            text for text in self.complaints if not any(part in text for part in fragments)
        ]

    def close(self) -> None:
        """Close the windows; nothing may be left to complain about."""
        for context in self.contexts:
            context.close()
        assert not self.complaints, "\n".join(self.complaints)


def held_back(page: Any, addresses: Any) -> list[Any]:
    """Questions to some addresses, kept from the server until they are continued."""
    held: list[Any] = []
    page.route(addresses, lambda route: held.append(route))
    return held


def wait_for_held(page: Any, held: list[Any], number: int = 1) -> None:
    """Wait until so many questions are held back."""
    wait_until(lambda: page.title() and len(held) >= number)


def until(page: Any, expression: str) -> None:
    """Wait until an expression is true; Playwright's own way needs what the policy forbids."""
    wait_until(lambda: page.evaluate(expression))


def tab_to(page: Any, expression: str, value: str) -> None:
    """Press Tab until an expression about the focused element has a value."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate(expression) == value:
            return
    raise AssertionError(f"60 times Tab never made {expression} {value!r}")


def until_it_looks_different(part: Any, picture: bytes) -> None:
    """Wait until a part of a page no longer looks as in the picture."""
    wait_until(lambda: part.screenshot() != picture)


def scrolls_sideways(page: Any) -> bool:
    """Whether the document is wider than its window."""
    return bool(
        page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    )


def layout_shift(page: Any) -> float:
    """How far things moved on their own since the page was opened, by the measure of browsers."""
    return float(page.evaluate("window.shifted"))


def accessibility(page: Any) -> list[str]:
    """What axe-core finds wrong by the A and AA criteria of WCAG 2.2, in words."""
    from axe_playwright_python.sync_playwright import Axe

    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    found = page.evaluate("tags => axe.run({runOnly: tags, resultTypes: ['violations']})", TAGS)
    return [
        f"{violation['id']} ({violation['help']}): "
        + "; ".join(
            f"{' '.join(map(str, node['target']))} {node['html'][:160]}"
            for node in violation["nodes"][:5]
        )
        for violation in found["violations"]
    ]
