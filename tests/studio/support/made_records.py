"""Records that hypothesis makes: any text that can be stored, identifiers of every form."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from exactformer.studio.library.records import PaperRecord, checked

LETTERS = st.characters(exclude_categories=("Cs", "Cc"))
LINES = st.text(LETTERS, max_size=60)
NAMES = st.text(LETTERS, min_size=1, max_size=30).filter(lambda text: bool(text.strip()))
ADDRESSES = st.sampled_from(["", "https://example.org/a?b=1&c={d}", "http://x.org/%7Ey_z"])
ARXIV = st.sampled_from(["2202.12166", "1912.10077", "math/0309136", "2101.00001"])
KEYS = st.one_of(
    st.builds("doi:10.1000/{}".format, st.integers(1, 99)),
    st.builds("arxiv:{}".format, ARXIV),
)
AUTHORS = st.fixed_dictionaries(
    {"name": NAMES},
    optional={
        "orcid": st.just("0000-0002-1825-009X"),
        "institutions": st.lists(NAMES, max_size=2),
    },
)
CLAIMS = st.fixed_dictionaries(
    {
        "anchor": st.from_regex(r"\A[a-z][a-z0-9-]{0,20}\Z"),
        "kind": st.sampled_from(["theorem", "table", "figure", "text"]),
        "title": NAMES,
    },
    optional={"statement": LINES, "ledger": st.just("fang-2022/table-1")},
)
FIELDS = st.fixed_dictionaries(
    {"title": NAMES},
    optional={
        "abstract": st.text(LETTERS | st.just("\n"), max_size=200),
        "year": st.integers(1000, 2999),
        "kind": st.sampled_from(["article", "preprint", "talk", "book", "thesis", "other"]),
        "source": LINES,
        "open_access": st.booleans(),
        "doi": st.builds("10.1000/x{}".format, st.integers(1, 10**6)),
        "arxiv_id": ARXIV,
        "url": ADDRESSES,
        "code_url": ADDRESSES,
        "code_note": LINES,
        "data_url": ADDRESSES,
        "data_note": LINES,
        "authors": st.lists(AUTHORS, max_size=3),
        "topics": st.lists(NAMES, max_size=3),
        "references": st.lists(KEYS, max_size=3),
        "claims": st.lists(CLAIMS, max_size=2, unique_by=lambda claim: claim["anchor"]),
    },
)


def _record(fields: dict[str, Any]) -> PaperRecord:
    return checked(fields, "made")


def records() -> st.SearchStrategy[PaperRecord]:
    """Any record."""
    return FIELDS.map(_record)
