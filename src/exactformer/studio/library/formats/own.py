"""This library's own JSON: nothing is lost on the way out and in again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from exactformer.studio.errors import InvalidError
from exactformer.studio.library.records import PaperRecord, checked, to_dict

FORMAT = "exactformer library 1"


def parsed(text: str) -> Any:
    """Return the data of a JSON text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidError(
            f"Line {error.lineno}, column {error.colno}: this is not JSON: {error.msg}."
        ) from None
    except RecursionError:
        raise InvalidError("The JSON is nested too deeply for a bibliography.") from None
    except ValueError as error:  # a number of thousands of digits
        raise InvalidError(f"This JSON cannot be read: {str(error)[:200]}.") from None


def read(data: Any) -> list[PaperRecord]:
    """Return the records of an exported library."""
    if not isinstance(data, dict) or "format" not in data or "papers" not in data:
        raise InvalidError(f"This JSON is not an export of a library; we read {FORMAT!r}.")
    if data["format"] != FORMAT:
        raise InvalidError(f"The format is {str(data['format'])[:60]!r}; we read {FORMAT!r}.")
    papers = data["papers"]
    if not isinstance(papers, list) or not all(isinstance(paper, dict) for paper in papers):
        raise InvalidError("papers: this must be a list of objects.")
    return [checked(paper, f"Paper {number}") for number, paper in enumerate(papers, 1)]


def written(papers: Iterable[tuple[str, PaperRecord]]) -> Iterator[str]:
    """Write papers as JSON, one per line."""
    yield f'{{"format": {json.dumps(FORMAT)}, "papers": ['
    between = "\n"
    for _, record in papers:
        yield between + json.dumps(to_dict(record), ensure_ascii=False)
        between = ",\n"
    yield "\n]}\n"
