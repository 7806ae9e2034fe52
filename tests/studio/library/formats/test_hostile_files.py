"""Files made to do harm are refused, quickly, and with a sentence."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exactformer.studio.errors import InvalidError, StudioError, TooLargeError
from exactformer.studio.library import formats
from exactformer.studio.library.formats.texts import MOST_BYTES, MOST_RECORDS

MACROS = '@string{a0 = "ha ha ha ha"}\n' + "\n".join(
    f"@string{{a{n} = {' # '.join([f'a{n - 1}'] * 10)}}}" for n in range(1, 12)
)


def test_abbreviations_that_multiply_are_stopped() -> None:
    with pytest.raises(TooLargeError, match="Abbreviations"):
        formats.read(f"{MACROS}\n@article{{x, title = a11}}".encode())


def own(*papers: dict[str, object]) -> str:
    """An export with these papers."""
    return json.dumps({"format": "exactformer library 1", "papers": papers})


@pytest.mark.parametrize(
    "text",
    [
        '@article{k, title=""' + '#""' * 50_000 + "}",
        "@article{k" + ", a={}" * 300_000 + "}",
        "@comment{" * 60_000,
    ],
    ids=["pieces", "fields", "commands"],
)
def test_what_would_take_long_to_read_is_refused_at_once(text: str) -> None:
    with pytest.raises(TooLargeError, match="the limit is"):
        formats.read(text.encode())


@pytest.mark.parametrize("depth", [45, 900, 100_000])
def test_deep_json_is_refused(depth: int) -> None:
    with pytest.raises(InvalidError, match="deeper than 40"):
        formats.read(b"[" * depth + b"]" * depth)


def test_deep_braces_are_refused() -> None:
    with pytest.raises(InvalidError, match="nested braces"):
        formats.read(b"@article{a, title=" + b"{" * 5000 + b"}" * 5000 + b"}")


@pytest.mark.parametrize(
    "text",
    [own({"title": "x" * 10_000_000}), "@book{a, title={" + "x" * 10_000_000 + "}}"],
    ids=["own", "bibtex"],
)
def test_a_title_of_ten_megabytes_is_refused_with_its_limit(text: str) -> None:
    with pytest.raises(StudioError, match="10,000,000 characters; the limit is"):
        formats.read(text.encode())


def test_a_file_over_the_limit_is_not_even_decoded() -> None:
    with pytest.raises(TooLargeError, match="16,777,216"):
        formats.read(b"@" * (MOST_BYTES + 1))


@pytest.mark.parametrize(
    "text",
    [
        own(*[{"title": "x"}] * (MOST_RECORDS + 1)),
        "".join(f"@book{{a{n}, title={{x}}}}\n" for n in range(MOST_RECORDS + 1)),
    ],
    ids=["own", "bibtex"],
)
def test_more_records_than_an_import_may_hold_are_refused(text: str) -> None:
    with pytest.raises(TooLargeError, match="the limit is 5,000"):
        formats.read(text.encode())


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"format":\n "a\0b"}', "Line 2: the file holds NUL"),
        (own({"title": "a\0b"}).encode(), r"U\+0000"),
        (own({"title": "a\ud800b"}).encode(), "Paper 1: title"),
        ("@book{a,\n title={é}}".encode("latin-1"), "Line 2: byte 0xE9 is not UTF-8"),
        (b"\xff\xfe@", "UTF-16"),
        (b'{"year": NaN}', "NaN"),
        (b'{"year": 1e999}', "1e999"),
        (b'{"year": ' + b"9" * 5000 + b"}", "not JSON we can read"),
    ],
)
def test_what_is_no_text_is_refused_with_the_place(data: bytes, says: str) -> None:
    with pytest.raises(InvalidError, match=says):
        formats.read(data)


@pytest.mark.parametrize("field", [r"$\$\$\ ", r"a \ b", "\\\\", r"\'", r"{\"}", r"\char"])
def test_stray_backslashes_are_read(field: str) -> None:
    text = f"@book{{a, title={{x}}, abstract={{{field}}}}}"
    assert formats.read(text.encode())[1][0].title == "x"


def test_wide_text_and_its_mark_are_read() -> None:
    text = "@book{a, title={Über}}"
    for data in (text.encode("utf-16"), text.encode("utf-8-sig")):
        assert formats.read(data)[1][0].title == "Über"


def test_addresses_that_would_run_code_are_dropped_or_refused() -> None:
    _, (record,) = formats.read(b"@book{a, title={x}, url={javascript:alert(1)}}")
    assert record.url == ""
    with pytest.raises(InvalidError, match="code_url"):
        formats.read(own({"title": "x", "code_url": "data:,x"}).encode())


@given(st.one_of(st.binary(max_size=300), st.text(max_size=300).map(str.encode)))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        _, records = formats.read(data)
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
        _, records = formats.read(own({"title": "x"} | paper).encode())
        assert all(record.title for record in records)


@pytest.mark.parametrize(
    "text", ["$$x$$ " * 150, "|a" * 99 + "\n" + "|-" * 99 + "\n" + "|\n" * 200]
)
@pytest.mark.parametrize("part", ["statement", "checked_by"])
def test_claims_that_no_page_would_show_are_refused(part: str, text: str) -> None:
    claim = {"anchor": "a", "kind": "theorem", "title": "A", part: text}
    with pytest.raises(InvalidError, match=part):
        formats.read(own({"title": "A", "claims": [claim]}).encode())
