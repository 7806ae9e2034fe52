"""The same thing, written twice, has one name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exactformer.studio.library import names
from exactformer.studio.library.records import TitleKey, checked, keys, to_dict
from tests.studio.support.made_records import records


@given(st.text(max_size=80))
def test_normalising_twice_is_normalising_once(text: str) -> None:
    once = names.normalised(text)
    assert names.normalised(once) == once


@given(st.text(max_size=200))
def test_slugs_fit_an_address(text: str) -> None:
    slug = names.slugified(text)
    assert len(slug) <= 100
    assert slug == "" or all(part.isascii() and part.isalnum() for part in slug.split("-"))


@pytest.mark.parametrize(
    "spellings",
    [
        [
            "Attention Is All You Need",
            "attention is all you need.",
            "Attention  is  All you “need”",
        ],
        ["Łukasz Kaiser", "lukasz kaiser", "ŁUKASZ KAISER"],
        [r"$\mathcal{O}(n)$ connections", "O(n) Connections", "o(n): connections"],
        ["Ｆｕｌｌｗｉｄｔｈ", "fullwidth"],
    ],
)
def test_spellings_of_one_title_agree(spellings: list[str]) -> None:
    assert len(set(map(names.normalised, spellings))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "2202.12166",
        "2202.12166v3",
        "arXiv:2202.12166",
        "arXiv preprint arXiv:2202.12166",
        "https://arxiv.org/abs/2202.12166v1",
        "http://arxiv.org/pdf/2202.12166v2.pdf",
    ],
)
def test_an_arxiv_id_is_known_in_every_dress(text: str) -> None:
    assert names.arxiv_id(text) == "2202.12166"


@pytest.mark.parametrize(
    "text", ["", "12345", "2202.121", "https://x.org/2202.12166/more", "vol/12"]
)
def test_what_is_no_arxiv_id_is_none(text: str) -> None:
    assert names.arxiv_id(text) is None


@pytest.mark.parametrize(
    "text", ["10.1000/ABC", "doi:10.1000/abc", "https://doi.org/10.1000/Abc", "DOI 10.1000/abc."]
)
def test_a_doi_is_known_in_every_dress(text: str) -> None:
    assert names.doi(text) == "10.1000/abc"


@pytest.mark.parametrize(
    "text",
    ["javascript:alert(1)", "data:text/html,x", "//x.org", "ftp://x", "https://a b", "x" * 9],
)
def test_only_addresses_of_the_web_are_followed(text: str) -> None:
    assert names.web_address(text) == ""


@given(records())
def test_records_are_the_same_after_json(record: object) -> None:
    from exactformer.studio.library.records import PaperRecord

    assert isinstance(record, PaperRecord)
    assert checked(to_dict(record), "again") == record
    for key in keys(record):
        if key.startswith("title:"):
            assert str(TitleKey.parse(key.removeprefix("title:"))) == key.removeprefix("title:")
