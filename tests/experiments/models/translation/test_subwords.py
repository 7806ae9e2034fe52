import numpy as np
import pytest

from exactformer.errors import InputError
from exactformer.experiments.models.translation.subwords import END, PAD, SMALLEST, Subwords

LINES = ["Zwei Männer sitzen.", "Two men are sitting.", "Two men, two dogs!", "Der Hund sitzt."]


@pytest.mark.parametrize(
    "line", [*LINES, "never seen: ½ 日本 🙂", "", "  two  spaces ", "[end] is text here"]
)
def test_every_text_comes_back_from_its_ids(line):
    subwords = Subwords(LINES, 300)
    assert subwords.decode(subwords.encode([line], 80)) == [line]


def test_a_row_is_the_line_its_end_and_padding():
    subwords = Subwords(LINES, 300)
    (row,) = subwords.encode(["Two men"], 12)
    (end,) = np.nonzero(row == END)[0]
    assert (row[end + 1 :] == PAD).all()
    assert not np.isin(row[:end], (END, PAD)).any()


def test_long_lines_are_cut_and_still_end():
    subwords = Subwords(LINES, 300)
    whole, cut = (subwords.encode(["Two men are sitting."], n)[0] for n in (40, 5))
    assert cut.tolist() == [*whole[:4], END]


def test_frequent_words_become_one_piece_and_learning_is_repeatable():
    first, again = (Subwords(["dog cat"] * 9 + LINES, 300) for _ in range(2))
    assert first.encode(["dog"], 3)[0, 1] == END
    assert first.encode(LINES, 30).tolist() == again.encode(LINES, 30).tolist()
    assert SMALLEST < first.size <= 300


def test_a_vocabulary_without_room_for_bytes_is_refused():
    with pytest.raises(InputError, match=f"alone are {SMALLEST}"):
        Subwords(LINES, 100)
