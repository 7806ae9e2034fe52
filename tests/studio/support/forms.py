"""Forms as a browser without scripts sends them: read off a page, filled in, and followed."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

TOKEN = "csrf_token"
Fields = dict[str, list[str]]


class Forms(HTMLParser):
    """The forms of a page: what each sends as it stands; files and buttons send nothing yet."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, Fields]] = []  # those that are posted
        self.asking: list[tuple[str, Fields]] = []  # those whose fields become part of an address
        self._fields: Fields | None = None
        self._open: list[str] | None = None  # what a text area or a list holds
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a form, or note a field."""
        had = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._fields = {}
            forms = self.found if had.get("method") == "post" else self.asking
            forms.append((had.get("action", ""), self._fields))
        elif tag == "option" and self._open is not None and ("selected" in had or not self._open):
            self._open[:] = [had["value"]]
        elif "name" in had and "disabled" not in had and self._fields is not None:
            values = self._fields.setdefault(had["name"], [])
            if tag in ("textarea", "select"):
                self._open = values
                values += [""] if tag == "textarea" else []
            elif tag == "input" and had.get("type") not in ("checkbox", "radio", "file"):
                values.append(had.get("value", ""))
            elif "checked" in had:
                values.append(had["value"])

    def handle_data(self, data: str) -> None:
        """Note what stands in a text area; a line end before it is not part of it."""
        if self._open is not None and self.lasttag == "textarea":
            self._open[0] += data if self._open[0] else data.removeprefix("\n")

    def handle_endtag(self, tag: str) -> None:
        """End a form or a field."""
        self._open = None if tag in ("textarea", "select") else self._open
        self._fields = None if tag == "form" else self._fields


def form_of(page: Any, action: str, *names: str) -> Fields:
    """The form of a page that leads to ``action`` and has these fields."""
    forms = [fields for to, fields in Forms(page.text).found if to == action]
    fitting = [fields for fields in forms if fields.keys() >= set(names)]
    assert fitting, f"{page.url}: no form sends {sorted(names)} to {action}, but {forms}"
    return fitting[0]


def send(person: Any, page: Any, action: str = "", files: Any = None, **values: Any) -> Any:
    """Fill in the form of a page (an address or an answer) that leads to ``action``; the answer.

    As from a browser: the token is a field, and nothing is sent that the form has no field for.
    """
    answer = page if hasattr(page, "text") else person.client.get(page)
    action = action or str(page)
    data = form_of(answer, action, *values, *(files or {})) | values
    return person.client.post(action, data=data, files=files, headers={"X-CSRF-Token": ""})


def follow(person: Any, answer: Any) -> Any:
    """Go on to where a form leads that has done its work."""
    assert answer.status_code == 303, f"{answer.status_code}: {problem(answer)}"
    landed = person.client.get(answer.headers["location"])
    assert landed.status_code == 200, landed.text
    return landed


def problem(page: Any) -> str:
    """What a page says is wrong."""
    words = re.findall(r'class="(?:lede|field__error|notice notice--bad)[^>]*>([^<]+)', page.text)
    return unescape(" ".join(words))
