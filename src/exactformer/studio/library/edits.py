"""Changing what a paper's page says: checked like a proposal, written with who, what and when.

In the form everything is text. Authors are lines, ``Name | institution; institution | ORCID``; topics
are divided by commas.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from sqlalchemy.orm import Session

from exactformer.studio.errors import ConflictError
from exactformer.studio.library import catalogue, names, papers
from exactformer.studio.library.catalogue import record
from exactformer.studio.library.matches import resolve
from exactformer.studio.library.records import AuthorRecord, PaperRecord, checked, to_dict
from exactformer.studio.library.tables import Paper
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage import audit
from exactformer.studio.web.types import Clean, FormBody

EDITABLE = ("title", "kind", *catalogue.PLAIN_FIELDS, "authors", "topics")
_IDENTIFIERS = {
    "doi": names.doi,
    "arxiv_id": names.arxiv_id,
}
_SHOWN = 300
Text = Annotated[Clean, Field(max_length=1000)]
_NO_FIELDS = {"csrf_token", "version"}
OPEN_ACCESS = {"": None, "yes": True, "no": False}


def edit(
    db: Session, actor: Actor, slug: str, changes: dict[str, Any], version: str | None = None
) -> Paper:
    """Change fields of a paper; ``changes`` are as in a record, and only of ``EDITABLE``.

    ``version`` is what the editor saw (:func:`version_of`): if the paper has changed since, the
    change is refused rather than laid over somebody else's.
    """
    actor.require("curator")
    paper = papers.get(db, slug)
    if version is not None and version != version_of(paper):
        raise ConflictError("the paper has been changed meanwhile; look at it again, then repeat")
    before = record(paper)
    after = checked({**to_dict(before), **with_identifiers(changes)}, "the change")
    changed = [name for name in EDITABLE if getattr(before, name) != getattr(after, name)]
    _refuse_taken(db, paper, after, changed)
    catalogue.overwrite(db, paper, after, changed)
    if changed:
        old, new = to_dict(before), to_dict(after)
        detail = {name: [_shown(old.get(name)), _shown(new.get(name))] for name in changed}
        audit.record(db, actor, "paper.edit", "paper", paper.id, detail)
    return paper


def version_of(paper: Paper) -> str:
    """Return a word that is another one after every change of the paper."""
    return paper.updated_at.isoformat()


def with_identifiers(changes: dict[str, Any]) -> dict[str, Any]:
    """Undress identifiers: people paste addresses. What is none is left for the check to refuse."""
    tidy = {key: value for key, value in changes.items() if value is not None}
    for name, read in _IDENTIFIERS.items():
        if isinstance(given := tidy.get(name), str):
            tidy[name] = (read(given) or given) if given.strip() else None
    return {**{key: None for key in changes if key not in tidy}, **tidy}


def _refuse_taken(db: Session, paper: Paper, after: PaperRecord, changed: list[str]) -> None:
    for name in set(changed) & set(_IDENTIFIERS):
        key = f"{name.removesuffix('_id')}:{getattr(after, name)}"
        if resolve(db, [key]).get(key, paper.id) != paper.id:
            raise ConflictError(f"another paper of the library has {key}; is it the same work?")


def _shown(value: Any) -> Any:
    return value[:_SHOWN] if isinstance(value, str) else value


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
