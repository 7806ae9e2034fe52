"""Nothing is held against a paper that it did not claim: what each experiment tests of its paper."""

import pytest

from exactformer.experiments import Scale, find, names

# Experiment -> words of the statements that its paper makes, and how many published values it has.
CLAIMED = {
    "universality": (["within 1e-12", "as their polynomials do"], 0),
    "fang-figure-2": (["by a factor of 100", "at most at the p"], 3),
    "fang-table-1": (["ahead of both networks", "NN_depth fits"], 10),
    "fang-figure-3": (["below where either network ends", "smallest generalisation gap"], 2),
    "yun-contextual": (["no two codes that must differ are equal"], 0),
    "yun-positions": (["are refused without positions", "with positions they are not"], 0),
    "yun-softmax": (["a tolerance asked for is met"], 0),
    "yun-sizes": (["layers a stage"], 0),
    "jiang-figure-1": (["m_h ≥ r", "theory's tail", "r = m_h = 2"], 2),
    "jiang-figure-2": (["below one half"], 0),
    "jiang-figure-3": (["larger training error", "spectra of the two largest"], 1),
    "jiang-table-1": (["moved patches", "moved tokens"], 2),
    "jiang-table-2": (["less than any causal model could", "at most 5e-5"], 8),
    "jiang-table-3": (["at most a factor of four", "at most 1e-3"], 4),
    "jiang-figure-4": (["largest weight", "mean squared error", "F̂∘f̂ is"], 0),
    "jiang-figure-5": (["largest weight", "mean squared error", "F̂∘f̂ is"], 0),
    "jiang-figure-6": (["largest weight", "in the wrong place", "F̂∘f̂ is"], 0),
    "jiang-equivariance": (["Ĥ(x∘p) = Ĥ(x)∘p", "with positions to half"], 0),
    "jiang-mixing": (["raises the rank", "costs a linear RNN nothing"], 5),
}
# Experiment -> words of statements and labels of quantities in which the paper's text is wrong.
CORRECTED = {
    "jiang-table-2": ({"a filter that looks back"}, {"RNN, reordered"}),
    "jiang-table-3": (
        {"an RNN computes the random kernel"},
        {"RNN from PyTorch's start, original", "RNN from PyTorch's start, reordered"},
    ),
    "jiang-mixing": ({"looks ahead"}, set()),
}
# Models that are not the paper's own; a smaller error of theirs is not "better".
BASELINES = ("NN_depth", "NN_width", "RNN", "lstm")


def published(name):
    return [
        q for q in find(name).quantities_at(Scale.PAPER) if q.published is not None and not q.ours
    ]


@pytest.mark.parametrize("name", names())
def test_only_what_a_paper_says_is_held_against_it(name):
    claimed, count = CLAIMED.get(name, ([], 0))
    stated = [part.text for part in find(name).stated if part.of_paper]
    assert len(stated) == len(claimed)
    assert all(words in text for words, text in zip(claimed, stated, strict=True))
    assert len(published(name)) == count


@pytest.mark.parametrize("name", names())
def test_corrections_are_those_of_the_errata(name):
    words, labels = CORRECTED.get(name, (set(), set()))
    corrections = [part.text for part in find(name).stated if part.errata]
    assert len(corrections) == len(words)
    assert all(any(word in text for text in corrections) for word in words)
    assert {one.label for one in published(name) if one.errata} == labels


@pytest.mark.parametrize("name", names())
def test_only_the_papers_own_method_can_be_better(name):
    for one in published(name):
        assert one.better is None or not one.label.startswith(BASELINES)
