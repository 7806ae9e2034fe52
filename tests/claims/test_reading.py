"""A file of the ledger that is wrong is refused with the claim, the field and what is allowed."""

import pytest

from exactformer.claims.reading import read
from exactformer.errors import FileFormatError

CLAIM = """
[[claim]]
id = "lemma-1"
work = "w"
kind = "lemma"
place = "Lemma 1"
title = "Lemma 1"
says = "So."
"""


def test_a_claim_reads_back():
    (claim,) = read(CLAIM + 'tests = ["tests/a.py::test_b"]\n', "made.toml")
    assert claim.tests == ("tests/a.py::test_b",)
    assert claim.basis == ("tested",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[claim]", "not TOML"),
        ("[[other]]\na = 1\n", "other"),
        (CLAIM, "give evidence, or the reason"),
        (CLAIM + 'tests = ["tests/a.py::test_b"]\nnot_tried = "why"\n', "not both"),
        (CLAIM + "colour = 1\n", "no field 'colour'"),
        (CLAIM.replace('"lemma"\n', '"poem"\n'), "kind is 'poem'"),
        (CLAIM.replace("lemma-1", "Lemma 1", 1), "an id is"),
        (CLAIM + 'tests = ["tests/a.py"]\n', "is not tests/"),
        (CLAIM.replace('title = "Lemma 1"\n', "") + 'lemmas = ["L1"]\n', "title"),
        (2 * (CLAIM + 'lemmas = ["L1"]\n'), "several claims called lemma-1"),
        (CLAIM + '[[claim.values]]\nresult = "e"\nrow = "r"\npublished = "much"\n', "no number"),
        (CLAIM + '[[claim.errata]]\ntitle = "e"\ntext = "t"\n', "needs the test"),
        (CLAIM + '[[claim.conditions]]\nresult = "e"\nstatement = "s"\nthreshold = "x"\n', "'x'"),
    ],
)
def test_what_is_wrong_is_named(text, words):
    with pytest.raises(FileFormatError, match=r"made\.toml") as caught:
        read(text, "made.toml")
    assert words in str(caught.value)
