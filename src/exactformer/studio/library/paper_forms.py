"""The form of a paper's record: everything is text.

Authors are lines, ``Name | institution; institution | ORCID``; topics are divided by commas.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from exactformer.studio.library import names
from exactformer.studio.library.records import AuthorRecord
from exactformer.studio.web.types import Clean, FormBody

Text = Annotated[Clean, Field(max_length=1000)]
_NO_FIELDS = {"csrf_token", "version"}
OPEN_ACCESS = {"": None, "yes": True, "no": False}


class PaperForm(FormBody):
    """What the form sends: everything as text."""

    title: Text = ""
    abstract: Annotated[Clean, Field(max_length=25_000)] = ""
    year: Text = ""
    kind: Text = "other"
    source: Text = ""
    open_access: Text = ""
    doi: Text = ""
    arxiv_id: Text = ""
    openalex_id: Text = ""
    url: Text = ""
    code_url: Text = ""
    code_note: Text = ""
    data_url: Text = ""
    data_note: Text = ""
    authors: Annotated[Clean, Field(max_length=500_000)] = ""
    topics: Annotated[Clean, Field(max_length=20_000)] = ""
    version: Text = ""


def form_of(fields: dict[str, Any], version: str = "") -> PaperForm:
    """Return the form filled with the fields of a record."""
    answers = {value: key for key, value in OPEN_ACCESS.items()}
    authors = (author_line(AuthorRecord(**author)) for author in fields.get("authors", ()))
    texts = {name: str(fields.get(name) or "") for name in PaperForm.model_fields}
    texts |= {
        "kind": fields.get("kind", "other"),
        "open_access": answers[fields.get("open_access")],
        "authors": "\n".join(authors),
        "topics": ", ".join(fields.get("topics", ())),
        "version": version,
    }
    return PaperForm(**texts)


def fields_of(form: PaperForm) -> dict[str, Any]:
    """Return the fields of a record that the form says."""
    fields: dict[str, Any] = form.model_dump(include=set(PaperForm.model_fields) - _NO_FIELDS)
    year = form.year.strip()
    lines = (line for line in form.authors.splitlines() if line.strip())
    return fields | {
        "year": int(year)
        if year.isdecimal() and year.isascii() and len(year) < 6
        else year or None,
        "open_access": OPEN_ACCESS.get(form.open_access),
        "authors": [author_of(line) for line in lines],
        "topics": [topic.strip() for topic in form.topics.split(",") if topic.strip()],
    }


def author_line(author: AuthorRecord) -> str:
    """Write an author as a line of the form.

    >>> author_line(AuthorRecord("Ding-Xuan Zhou", None, ("City University of Hong Kong",)))
    'Ding-Xuan Zhou | City University of Hong Kong'
    """
    parts = [author.name, "; ".join(author.institutions), author.orcid or ""]
    return " | ".join(parts).rstrip("| ")


def author_of(line: str) -> dict[str, Any]:
    """Read a line of the form.

    >>> author_of("Guang Cheng | UCLA; Purdue | 0000-0001-2345-678X")["institutions"]
    ['UCLA', 'Purdue']
    """
    name, houses, orcid = ([part.strip() for part in line.split("|")] + ["", ""])[:3]
    return {
        "name": name,
        "institutions": [house.strip() for house in houses.split(";") if house.strip()],
        "orcid": (names.orcid(orcid) or orcid) or None,
    }
