"""Files made to do harm are refused, quickly, and with a sentence."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exactformer.studio.errors import InvalidError, StudioError, TooLargeError
from exactformer.studio.library import formats


def own(*papers: dict[str, object]) -> str:
    """An export with these papers."""
    return json.dumps({"format": "exactformer library 1", "papers": papers})


MACROS = '@string{a0 = "ha ha ha ha"}\n' + "\n".join(
    f"@string{{a{n} = {' # '.join([f'a{n - 1}'] * 10)}}}" for n in range(1, 12)
)


def test_abbreviations_that_multiply_are_stopped() -> None:
    with pytest.raises(TooLargeError, match="Abbreviations"):
        formats.read(f"{MACROS}\n@article{{x, title = a11}}")


@pytest.mark.parametrize("depth", [45, 900, 100_000])
def test_deep_json_is_refused(depth: int) -> None:
    with pytest.raises(InvalidError, match=r"too deeply|not an export"):
        formats.read("[" * depth + "]" * depth)
    with pytest.raises(InvalidError, match=r"too deeply|topics"):
        formats.read(own({"title": "x", "topics": "?"}).replace('"?"', "[" * depth + "]" * depth))


def test_deep_braces_are_refused() -> None:
    with pytest.raises(InvalidError, match="nested braces"):
        formats.read("@article{a, title=" + "{" * 5000 + "}" * 5000 + "}")


@pytest.mark.parametrize(
    "text",
    [own({"title": "x" * 10_000_000}), "@book{a, title={" + "x" * 10_000_000 + "}}"],
    ids=["own", "bibtex"],
)
def test_a_title_of_ten_megabytes_is_refused_with_its_limit(text: str) -> None:
    with pytest.raises(StudioError, match="10,000,000 characters; the limit is"):
        formats.read(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (own({"title": "a\0b"}), r"U\+0000"),
        (own({"title": "a\ud800b"}), "Paper 1: title"),
        (own({"title": "x", "year": float("nan")}), "Paper 1: year"),
        (own({"title": "x", "year": 0}).replace("0}", "1e999}"), "Paper 1: year"),
        ('{"year": ' + "9" * 5000 + "}", "cannot be read"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_the_place(text: str, says: str) -> None:
    with pytest.raises(InvalidError, match=says):
        formats.read(text)


@pytest.mark.parametrize("field", [r"$\$\$\ ", r"a \ b", "\\\\", r"\'", r"{\"}", r"\char"])
def test_stray_backslashes_are_read(field: str) -> None:
    text = f"@book{{a, title={{x}}, abstract={{{field}}}}}"
    assert formats.read(text)[0].title == "x"


def test_addresses_that_would_run_code_are_dropped_or_refused() -> None:
    (record,) = formats.read("@book{a, title={x}, url={javascript:alert(1)}}")
    assert record.url == ""
    with pytest.raises(InvalidError, match="code_url"):
        formats.read(own({"title": "x", "code_url": "data:,x"}))


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        records = formats.read(text)
    except StudioError:
        return
    assert records


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
papers = st.dictionaries(
    st.sampled_from(
        "title abstract year kind source doi arxiv_id url authors topics references claims".split()
    ),
    json_values,
)


@given(papers)
def test_any_json_with_the_right_names_is_read_or_refused(paper: dict[str, object]) -> None:
    with contextlib.suppress(StudioError):
        records = formats.read(own({"title": "x"} | paper))
        assert all(record.title for record in records)


@pytest.mark.parametrize(
    "text", ["$$x$$ " * 150, "|a" * 99 + "\n" + "|-" * 99 + "\n" + "|\n" * 200]
)
def test_claims_that_no_page_would_show_are_refused(text: str) -> None:
    claim = {"anchor": "a", "kind": "theorem", "title": "A", "statement": text}
    with pytest.raises(InvalidError, match="statement"):
        formats.read(own({"title": "A", "claims": [claim]}))
