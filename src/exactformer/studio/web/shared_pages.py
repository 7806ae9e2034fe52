"""Pages that readers share: rendered once for each change and role, with holes for what is personal.

A shared page is rendered for a stand-in, who has a role and nothing of her own. Her handle, her token
against forgery, whether a ``switch(...)`` is on, and the parts that a template asks for by
``personal(...)`` are holes in it. To answer a reader is to render these parts for her and to put the
pieces together.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from exactformer.studio.security.actor import Actor
from exactformer.studio.web.rendering import (
    CSRF_TOKEN,
    HANDLE,
    HOLE,
    IS_SHARED,
    SWITCH,
    fill,
    switched,
)

MOST_BYTES = 64 * 2**20
MOST_PARTS = 200
NOTHING: Mapping[str, Any] = MappingProxyType({})
Personal = Callable[[Any], dict[str, Any]]
_HOLES = re.compile(f"{HOLE}([^{HOLE}]*){HOLE}")


@dataclass(frozen=True)
class SharedPage:
    """A page in pieces with named holes between them. ``kept`` helps to fill the holes.

    ``parts`` are personal parts by their template and the state of the reader that they show: many
    readers are in the same state, such as not to have voted.
    """

    pieces: tuple[bytes, ...]
    names: tuple[str, ...]
    kept: Any = None
    parts: dict[Hashable, SharedPage] = field(default_factory=dict)

    @classmethod
    def render(cls, template: str, context: dict[str, Any], kept: Any = None) -> SharedPage:
        """Render a template once for many."""
        holes = {"csrf_token": f"{HOLE}{CSRF_TOKEN}{HOLE}", IS_SHARED: True}
        text = _HOLES.split(fill(template, context | holes))
        return cls(tuple(piece.encode() for piece in text[::2]), tuple(text[1::2]), kept)

    def fill(
        self, context: dict[str, Any], states: Mapping[str, tuple[Hashable, Personal]] = NOTHING
    ) -> bytes:
        """Return the page of one reader, whose personal parts are rendered with ``context``.

        For a part that only depends on the reader's state, ``states`` has that state, and what makes
        of ``kept`` the rest of the part's context. ``on`` in the context names switches that are on.
        """
        values = {CSRF_TOKEN: context["csrf_token"], HANDLE: context["actor"].handle}

        def part(name: str) -> bytes:
            if name in values:
                return str(values[name]).encode()
            if name.startswith(SWITCH):
                return switched(name.removeprefix(SWITCH) in context["on"]).encode()
            if name not in states:
                return fill(name, context).encode()
            state, personal = states[name]
            if (name, state) not in self.parts:
                if len(self.parts) >= MOST_PARTS:
                    self.parts.clear()
                made = SharedPage.render(name, context | personal(self.kept))
                self.parts[name, state] = made
            return self.parts[name, state].fill(context)

        filled = {name: part(name) for name in set(self.names)}
        whole = [self.pieces[0]]
        for name, piece in zip(self.names, self.pieces[1:], strict=True):
            whole += (filled[name], piece)
        return b"".join(whole)


def stand_in(actor: Actor) -> Actor:
    """Return somebody who may do what ``actor`` may, and is nobody in particular."""
    return replace(actor, id=0, handle=f"{HOLE}{HANDLE}{HOLE}", name="") if actor.id else actor


class SharedPages:
    """Shared pages by key, each at one version; bounded in bytes, the longest unused go first."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._pages: OrderedDict[Hashable, tuple[Hashable, SharedPage, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self._making: dict[Hashable, threading.Lock] = {}

    def get(self, key: Hashable, version: Hashable, make: Callable[[], SharedPage]) -> SharedPage:
        """Return the page of ``key`` at ``version``; of many who need a new one, one makes it."""
        if (page := self.kept(key, version)) is not None:
            return page
        with self._lock:
            making = self._making.setdefault((key, version), threading.Lock())
        with making:
            if (page := self.kept(key, version)) is not None:
                return page
            try:
                page = make()
            finally:
                with self._lock:
                    self._making.pop((key, version), None)
            self._keep(key, version, page)
            return page

    def kept(self, key: Hashable, version: Hashable) -> SharedPage | None:
        """Return the page of ``key`` if it is there at ``version``."""
        with self._lock:
            known = self._pages.get(key)
            if known is None or known[0] != version:
                return None
            self._pages.move_to_end(key)
            return known[1]

    def _keep(self, key: Hashable, version: Hashable, page: SharedPage) -> None:
        size = sum(map(len, page.pieces))
        with self._lock:
            self._bytes += size - self._pages.pop(key, (None, None, 0))[2]
            self._pages[key] = version, page, size
            while self._bytes > self._most_bytes and len(self._pages) > 1:
                self._bytes -= self._pages.popitem(last=False)[1][2]
