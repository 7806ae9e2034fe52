"""Appendix D.3: the closed form is the decomposition, and the statements can fail."""

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exactformer.experiments import Cell, Scale, Summary
from exactformer.experiments.jiang import mixing as jiang_mixing
from exactformer.theory import pod


def holds(words, *cells):
    (statement,) = [s for s in jiang_mixing.EXPERIMENT.statements if words in s.text]
    return statement.holds(Summary(Scale.SMOKE, (), tuple(Cell(p, m, 0.0, "") for p, m in cells)))


def test_the_papers_case_has_square_roots_for_singular_values():
    closed = [sqrt((7 + sqrt(33)) / 8), 0.5, sqrt((7 - sqrt(33)) / 8)]
    assert jiang_mixing.closed_form(1.0) == pytest.approx(closed, abs=1e-15)
    assert jiang_mixing.closed_form(1.0) == pytest.approx(jiang_mixing.PUBLISHED, rel=0.01)
    assert jiang_mixing.closed_form(0.0) == pytest.approx([1, 1, 0], abs=1e-15)
    assert jiang_mixing.closed_form(1.0, seen=True) == pytest.approx(
        [sqrt(3) / 2, 0.5, 0], abs=1e-15
    )


@given(st.floats(0.01, 3))
def test_the_closed_form_is_the_decomposition(a):
    found = pod(lambda u, v: jiang_mixing.rho(u, v + a * u))
    closed = np.array(jiang_mixing.closed_form(a))
    ours = np.pad(found.singular_values, (0, 3))[:3]
    assert np.abs(ours - closed).max() <= found.error + 1e-14
    assert (closed**2).sum() == pytest.approx((found.singular_values**2).sum(), abs=1e-12)


def test_a_wrong_closed_form_would_be_noticed(monkeypatch):
    parameters = {"part": jiang_mixing.COUPLING, "strengths": [0.0, 1.0]}
    right = jiang_mixing.run(parameters, "cpu")
    assert holds("closed form", (parameters, right))
    exact = jiang_mixing.closed_form
    monkeypatch.setattr(
        jiang_mixing, "closed_form", lambda a, seen=False: [1.001 * s for s in exact(a, seen)]
    )
    assert not holds("closed form", (parameters, jiang_mixing.run(parameters, "cpu")))


@pytest.mark.parametrize(
    ("causal", "words"), [(False, "looks ahead"), (True, "costs a linear RNN")]
)
def test_filters_are_told_apart(causal, words):
    parameters = {"part": jiang_mixing.FILTER, "causal": causal, "seed": 0}
    other = jiang_mixing.run({**parameters, "causal": not causal}, "cpu")
    assert holds(words, (parameters, jiang_mixing.run(parameters, "cpu")))
    assert not holds(words, (parameters, other))
