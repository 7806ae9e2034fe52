"""What no page of the studio may contain, checked on its HTML."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from importlib.resources import files

VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class Rules(HTMLParser):
    """Collects what is wrong: inline scripts and styles, foreign sources, doubled ids."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.ids: set[str] = set()
        self.classes: set[str] = set()
        self.sheets: set[str] = set()
        self.headings: list[int] = []
        self._script_without_source = False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Look at an element."""
        values = {name: value or "" for name, value in attributes}
        shown = f"<{tag} {values}>"
        if tag == "style":
            self.wrong.append(f"inline style element: {shown}")
        self._script_without_source = tag == "script" and "src" not in values
        for name, value in values.items():
            if name == "style" or name.startswith(("on", "hx-on")):
                self.wrong.append(f"inline {name}: {shown}")
            if value.strip().lower().startswith(("javascript:", "vbscript:", "data:text")):
                self.wrong.append(f"address that runs: {shown}")
        source = values.get(LOADS.get(tag, ""), "")
        if "://" in source or source.startswith("//"):
            self.wrong.append(f"comes from elsewhere: {shown}")
        if values.get("id") in self.ids:
            self.wrong.append(f"id is not unique: {shown}")
        self.classes.update(values.get("class", "").split())
        if values.get("rel") == "stylesheet":
            self.sheets.add(source.split("/")[-1].split("?")[0])
        self.ids.add(values.get("id") or f"nameless {len(self.ids)}")
        if values.get("target") == "_blank" and "noopener" not in values.get("rel", ""):
            self.wrong.append(f"opens a window without noopener: {shown}")
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            self.headings.append(int(tag[1]))

    def handle_data(self, data: str) -> None:
        """Look at a text."""
        if self._script_without_source and data.strip():
            self.wrong.append(f"inline script: {data.strip()[:80]}")


@cache
def styled() -> dict[str, set[str]]:
    """The classes that each stylesheet of the studio speaks of."""
    sheets = files("exactformer.studio") / "static"
    return {
        sheet.name: set(re.findall(r"\.([a-z][\w-]*)(?=[^{}]*\{)", sheet.read_text()))
        for sheet in sheets.iterdir()
        if sheet.name.endswith(".css")
    }


def violations(html: str) -> list[str]:
    """What is wrong with a page."""
    rules = Rules()
    rules.feed(html)
    wrong = list(rules.wrong)
    loaded, others = set[str](), set[str]()
    for name, classes in styled().items():
        (loaded if name in rules.sheets else others).update(classes)
    wrong += [
        f"the page does not load the style of its class {name}"
        for name in sorted(rules.classes & others - loaded)
    ]
    if rules.headings.count(1) != 1:
        wrong.append(f"headings of the first level: {rules.headings.count(1)}")
    for above, below in zip(rules.headings, rules.headings[1:], strict=False):
        if below > above + 1:
            wrong.append(f"a heading of level {below} follows one of level {above}")
    return wrong
