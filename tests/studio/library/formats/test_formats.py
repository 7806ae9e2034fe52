"""Each format is told by what it holds, and gives the record a reader of it would expect."""

from __future__ import annotations

import json

import pytest

from exactformer.studio.errors import InvalidError, StudioError
from exactformer.studio.library import formats
from exactformer.studio.library.records import AuthorRecord

BIBTEX = r"""
@string{neurips = "Advances in {Neural} Information"}
@inproceedings{vaswani, title = {Attention Is {All} You Need}, year = 2017, month = dec,
  author = {Vaswani, Ashish and Kaiser, {\L}ukasz and {\c{S}}ahin, G{\"o}zde G{\"u}l and others},
  booktitle = neurips, keywords = {attention; translation}, url = {https://a.org/x\_y}}
@article{bahdanau, title = "Neural machine translation in $O(n)$", author = "van der Berg, Jan Jr",
  journal = {arXiv preprint arXiv:1409.0473v7}, year = {2014}}
"""
CSL = [
    {
        "type": "paper-conference",
        "title": "On <i>attention</i>",
        "author": [{"family": "Zhou", "given": "Ding-Xuan"}, {"literal": "The Group"}],
        "issued": {"date-parts": [["2020", 5]]},
        "DOI": "https://doi.org/10.1000/ABC",
        "container-title": ["Analysis"],
        "URL": "javascript:alert(1)",
    }
]
ATOM = """<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom"><title>query</title>
<entry><id>http://arxiv.org/abs/2202.12166v2</id><published>2022-02-24T15:00:00Z</published>
<title>Attention Enables
  Zero Approximation Error</title><summary> Deep learning
 models. </summary>
<author><name>Zhiying Fang</name>
<affiliation xmlns="http://arxiv.org/schemas/atom">CUHK</affiliation></author>
<doi xmlns="http://arxiv.org/schemas/atom">10.1000/XYZ</doi>
<category term="cs.LG"/><category term="stat.ML"/></entry></feed>"""
OPENALEX = {
    "id": "https://openalex.org/W123",
    "doi": "https://doi.org/10.48550/arXiv.2202.12166",
    "title": "Attention Enables Zero Approximation Error",
    "type": "preprint",
    "publication_year": 2022,
    "authorships": [
        {
            "author": {
                "display_name": "Guang Cheng",
                "orcid": "https://orcid.org/0000-0002-1825-0097",
            },
            "institutions": [{"display_name": "University of California, Los Angeles"}],
        }
    ],
    "abstract_inverted_index": {"learning": [1, 3], "Deep": [0], "is": [2]},
    "open_access": {"is_oa": True},
    "primary_location": {
        "landing_page_url": "https://arxiv.org/abs/2202.12166",
        "source": {"display_name": "arXiv"},
    },
    "topics": [{"display_name": "Transformers"}],
    "referenced_works": ["https://openalex.org/W7", "nonsense", "https://openalex.org/W8"],
}

CLAIM = {"anchor": "a", "kind": "table", "title": "A"}
TWICE = {
    "format": "exactformer library 1",
    "papers": [{"title": "x", "claims": [CLAIM, CLAIM]}],
}


def test_bibtex_is_read_with_its_accents_and_abbreviations() -> None:
    format, (vaswani, bahdanau) = formats.read(BIBTEX.encode())
    assert format == "bibtex"
    assert (vaswani.title, vaswani.year) == ("Attention Is All You Need", 2017)
    assert [author.name for author in vaswani.authors] == [
        "Ashish Vaswani",
        "Łukasz Kaiser",
        "Gözde Gül Şahin",
    ]
    assert (vaswani.kind, vaswani.source) == ("article", "Advances in Neural Information")
    assert (vaswani.topics, vaswani.url) == (("attention", "translation"), "https://a.org/x_y")
    assert (bahdanau.kind, bahdanau.arxiv_id) == ("preprint", "1409.0473")
    assert bahdanau.title == "Neural machine translation in $O(n)$"


def test_a_percent_sign_begins_no_comment() -> None:
    _, (record,) = formats.read(b"@book{a, title={x}, abstract={50% of C# and 60\\% a_b}}")
    assert record.abstract == "50% of C# and 60% a_b"


def test_csl_json_is_read_without_markup_or_unsafe_addresses() -> None:
    format, (record,) = formats.read(json.dumps(CSL).encode())
    assert format == "csl"
    assert (record.title, record.year, record.doi) == ("On attention", 2020, "10.1000/abc")
    assert [author.name for author in record.authors] == ["Ding-Xuan Zhou", "The Group"]
    assert (record.source, record.url, record.kind) == ("Analysis", "", "article")


def test_an_arxiv_feed_is_read_with_versions_taken_off() -> None:
    format, (record,) = formats.read(ATOM.encode())
    assert format == "arxiv"
    assert record.title == "Attention Enables Zero Approximation Error"
    assert (record.abstract, record.year) == ("Deep learning models.", 2022)
    assert (record.arxiv_id, record.doi) == ("2202.12166", "10.1000/xyz")
    assert record.authors == (AuthorRecord("Zhiying Fang", None, ("CUHK",)),)
    assert (record.topics, record.open_access) == (("cs.LG", "stat.ML"), True)


@pytest.mark.parametrize("encoding", ["foo", "gbk", "utf-32", "utf-16", "latin-1", ""])
def test_the_encoding_a_feed_declares_does_not_matter(encoding: str) -> None:
    declared = ATOM.replace('encoding="UTF-8"', f'encoding="{encoding}"' if encoding else "")
    assert formats.read(declared.encode())[1][0].arxiv_id == "2202.12166"
    assert formats.read(declared.encode("utf-16"))[1][0].arxiv_id == "2202.12166"


@pytest.mark.parametrize("data", [OPENALEX, [OPENALEX], {"meta": {}, "results": [OPENALEX]}])
def test_openalex_is_read_one_by_one_as_a_list_or_as_results(data: object) -> None:
    format, (record,) = formats.read(json.dumps(data).encode())
    assert format == "openalex"
    assert record.abstract == "Deep learning is learning"
    assert (record.openalex_id, record.arxiv_id) == ("W123", "2202.12166")
    assert record.authors[0].orcid == "0000-0002-1825-0097"
    assert record.references == ("openalex:W7", "openalex:W8")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        ("hello", "none of the formats"),
        ("[]", "no record"),
        ('{"results": []}', "no record"),
        ('{"a": 1}', "none we read"),
        ('{"type": "book"}', "none we read"),
        ('[{"type": "book", "title": "x"}, 3]', "Item 2 is not an object"),
        ('[{"type": "book", "title": ""}]', "Item 1: title: is empty"),
        ('{"format": "other", "papers": []}', "we read 'exactformer library 1'"),
        ('{"format": "exactformer library 1", "papers": [{"title": "x", "y": 1}]}', "Paper 1: y"),
        (json.dumps(TWICE), "Paper 1: claims: two of them have the anchor 'a'"),
        ("[1, 2", "Line 1, column 6"),
        ("<feed>", "not XML"),
        ("<html/>", "not an Atom feed"),
        ("@article{a, title={x}", "Line 1"),
        ("@article{a,\n title=x}", "Line 2"),
        ("@article{a, author={x}}", "Entry 'a': title: is empty"),
        ("@comment{a}", "no record"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_place(text: str, says: str) -> None:
    with pytest.raises(InvalidError, match=says.replace("[", r"\[")):
        formats.read(text.encode())


GOOD = "@article{good%d, title={A good one %d}, year=2020}\n"


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("@article{bad, title={never closed\n", "the entry begins in line 2"),
        ("@article{bad, title={}}\n", "Entry 'bad'"),
        ("@article{bad, title = }\n", "Line 2: this is not BibTeX"),
    ],
)
def test_one_bad_entry_leaves_the_others(bad: str, words: str) -> None:
    text = (GOOD % (1, 1) + bad + GOOD % (2, 2)).encode()
    problems: list[str] = []
    _, records = formats.read(text, problems)
    assert [record.title for record in records] == ["A good one 1", "A good one 2"]
    assert len(problems) == 1
    assert words in problems[0]
    with pytest.raises(StudioError):
        formats.read(text)


def test_one_bad_item_of_json_leaves_the_others() -> None:
    items = [{"type": "book", "title": "First"}, 7, {"type": "book", "title": "Last"}]
    problems: list[str] = []
    _, records = formats.read(json.dumps(items).encode(), problems)
    assert [record.title for record in records] == ["First", "Last"]
    assert problems == ["Item 2 is not an object."]


def test_a_file_of_bad_entries_alone_is_refused_with_the_first_reason() -> None:
    with pytest.raises(StudioError, match=r"no record.*Line 1"):
        formats.read(b"@article{bad, title={never closed", [])
