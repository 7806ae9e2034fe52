"""Each format is told by what it holds, and gives the record a reader of it would expect."""

from __future__ import annotations

import json

import pytest

from exactformer.studio.errors import InvalidError
from exactformer.studio.library import formats

BIBTEX = r"""
@string{neurips = "Advances in {Neural} Information"}
@inproceedings{vaswani, title = {Attention Is {All} You Need}, year = 2017, month = dec,
  author = {Vaswani, Ashish and Kaiser, {\L}ukasz and {\c{S}}ahin, G{\"o}zde G{\"u}l and others},
  booktitle = neurips, keywords = {attention; translation}, url = {https://a.org/x\_y}}
@article{bahdanau, title = "Neural machine translation in $O(n)$", author = "van der Berg, Jan Jr",
  journal = {arXiv preprint arXiv:1409.0473v7}, year = {2014}}
"""
CLAIM = {"anchor": "a", "kind": "table", "title": "A"}
TWICE = {
    "format": "exactformer library 1",
    "papers": [{"title": "x", "claims": [CLAIM, CLAIM]}],
}


def test_bibtex_is_read_with_its_accents_and_abbreviations() -> None:
    vaswani, bahdanau = formats.read(BIBTEX)
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
    (record,) = formats.read("@book{a, title={x}, abstract={50% of C# and 60\\% a_b}}")
    assert record.abstract == "50% of C# and 60% a_b"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "neither BibTeX nor JSON"),
        ("hello", "neither BibTeX nor JSON"),
        ("[]", "not an export of a library"),
        ('{"a": 1}', "not an export of a library"),
        ('{"format": "exactformer library 1", "papers": []}', "no record"),
        ('{"format": "exactformer library 1", "papers": [3]}', "must be a list of objects"),
        (
            '{"format": "exactformer library 1", "papers": [{"title": ""}]}',
            "Paper 1: title: is empty",
        ),
        ('{"format": "other", "papers": []}', "we read 'exactformer library 1'"),
        ('{"format": "exactformer library 1", "papers": [{"title": "x", "y": 1}]}', "Paper 1: y"),
        (json.dumps(TWICE), "Paper 1: claims: two of them have the anchor 'a'"),
        ("[1, 2", "Line 1, column 6"),
        ("<html/>", "neither BibTeX nor JSON"),
        ("@article{a, title={x}", "Line 1"),
        ("@book{b, title={x}}\n@article{a,\n title={open\n", "the entry begins in line 2"),
        ("@article{a,\n title=x}", "Line 2"),
        ("@article{a, author={x}}", "Entry 'a': title: is empty"),
        ("@comment{a}", "no record"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_place(text: str, says: str) -> None:
    with pytest.raises(InvalidError, match=says.replace("[", r"\[")):
        formats.read(text)
