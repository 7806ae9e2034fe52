"""The library's own JSON: what :mod:`importing.own` reads back without loss."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from exactformer.studio.library.importing.own import FORMAT
from exactformer.studio.library.records import PaperRecord, to_dict


def written(papers: Iterable[tuple[str, PaperRecord]]) -> Iterator[str]:
    """Write papers as JSON, one a line."""
    yield f'{{"format": {json.dumps(FORMAT)}, "papers": ['
    between = "\n"
    for _, record in papers:
        yield between + json.dumps(to_dict(record), ensure_ascii=False)
        between = ",\n"
    yield "\n]}\n"
