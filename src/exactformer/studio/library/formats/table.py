"""CSV for spreadsheets. A cell that begins like a formula is given an apostrophe in front.

Spreadsheets would run ``=…``, ``+…``, ``-…`` and ``@…`` (also behind a tab or a line's end); the
apostrophe tells them that it is text. So a title that begins so reads back with one.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from exactformer.studio.library.records import PaperRecord

COLUMNS = tuple(
    "slug title authors institutions year kind source open_access doi arxiv_id url "
    "code_url data_url topics references claims abstract".split()
)


def written(papers: Iterable[tuple[str, PaperRecord]]) -> Iterator[str]:
    """Write papers as CSV, a heading first; lists within a cell are divided by semicolons."""
    yield _line(COLUMNS)
    for slug, record in papers:
        houses = {house: None for author in record.authors for house in author.institutions}
        cells = {
            "slug": slug,
            "authors": "; ".join(author.name for author in record.authors),
            "institutions": "; ".join(houses),
            "open_access": "" if record.open_access is None else str(record.open_access).lower(),
            "topics": "; ".join(record.topics),
            "references": str(len(record.references)),
            "claims": str(len(record.claims)),
        }
        yield _line([cells.get(name, _text(getattr(record, name, ""))) for name in COLUMNS])


def harmless(cell: str) -> str:
    """Return a cell that no spreadsheet takes for a formula.

    >>> harmless("=1+1"), harmless("Attention")
    ("'=1+1", 'Attention')
    """
    return f"'{cell}" if cell.lstrip()[:1] in tuple("=+-@") else cell


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _line(cells: Iterable[str]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow([harmless(cell) if cell else "" for cell in cells])
    return line.getvalue()
