"""Differences between texts: they lead from the one to the other, and are small."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exactformer.studio.opinions.differences import MOST_PAIRS, Stretch, differences

texts = st.text(alphabet="ab \n.", max_size=40)


@given(before=texts, after=texts)
def test_the_stretches_hold_both_texts(before, after):
    found = differences(before, after)
    assert "".join(piece.text for piece in found if piece.kind != "new") == before
    assert "".join(piece.text for piece in found if piece.kind != "gone") == after


@given(text=texts)
def test_equal_texts_do_not_differ(text):
    assert all(piece.kind == "same" for piece in differences(text, text))


def test_changes_far_apart_are_found_in_a_long_text():
    lines = [f"line {number} says something\n" for number in range(150)]
    after = list(lines)
    after[3], after[140] = "line 3 says nothing\n", "line 140 shouts something\n"
    changed = [
        piece for piece in differences("".join(lines), "".join(after)) if piece.kind != "same"
    ]
    assert changed == [
        Stretch("gone", "something\n"),
        Stretch("new", "nothing\n"),
        Stretch("gone", "says "),
        Stretch("new", "shouts "),
    ]


def test_texts_with_nothing_in_common_are_replaced_as_a_whole():
    before = " ".join(f"a{number}" for number in range(MOST_PAIRS // 100))
    after = before.replace("a", "b")
    assert [piece.kind for piece in differences(before, after)] == ["gone", "new"]
