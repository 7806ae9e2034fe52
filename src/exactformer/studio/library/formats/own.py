"""This library's own JSON: nothing is lost on the way out and in again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from exactformer.studio.errors import InvalidError
from exactformer.studio.library.formats.texts import Problems, check_number, collected
from exactformer.studio.library.records import PaperRecord, checked, to_dict

FORMAT = "exactformer library 1"


def read(data: Any, problems: Problems = None) -> list[PaperRecord]:
    """Return the records of an exported library."""
    if not isinstance(data, dict) or "format" not in data or "papers" not in data:
        raise InvalidError(f"This JSON is not an export of a library; we read {FORMAT!r}.")
    if data["format"] != FORMAT:
        raise InvalidError(f"The format is {str(data['format'])[:60]!r}; we read {FORMAT!r}.")
    papers = data["papers"]
    if not isinstance(papers, list) or not all(isinstance(paper, dict) for paper in papers):
        raise InvalidError("papers: this must be a list of objects.")
    check_number(len(papers))
    return collected(papers, _record, "Paper", problems)


def _record(paper: dict[str, Any], where: str) -> PaperRecord:
    return checked({str(name): value for name, value in paper.items()}, where)


def written(papers: Iterable[tuple[str, PaperRecord]]) -> Iterator[str]:
    """Write papers as JSON, one a line."""
    yield f'{{"format": {json.dumps(FORMAT)}, "papers": ['
    between = "\n"
    for _, record in papers:
        yield between + json.dumps(to_dict(record), ensure_ascii=False)
        between = ",\n"
    yield "\n]}\n"
