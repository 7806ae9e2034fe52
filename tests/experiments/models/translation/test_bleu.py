import sys

import pytest

from exactformer.errors import InputError
from exactformer.experiments.models.translation.bleu import bleu

LINES = ["Ein Hund läuft über die Wiese.", "Zwei Männer sitzen auf einer Bank."]


def test_the_reference_itself_has_a_hundred_and_other_words_nothing():
    assert bleu(LINES, LINES) == pytest.approx(100)
    assert bleu(["x y z w v", "q r s t u"], LINES) < 5
    assert 5 < bleu([LINES[0], "Zwei Frauen sitzen auf einer Bank."], LINES) < 100


def test_case_counts():
    assert bleu([line.lower() for line in LINES], LINES) < 90


def test_without_sacrebleu_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    with pytest.raises(InputError, match=r"exactformer\[reproduce\]"):
        bleu(LINES, LINES)
