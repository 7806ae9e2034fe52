"""The hard maximum, biased queries and the identity, which no theorem of the package uses together."""

import re
from dataclasses import replace
from fractions import Fraction

from exactformer.algebra import Target
from exactformer.coq.check import compiled
from exactformer.coq.law import IMPORTS, PROOF, definitions, statement
from exactformer.core.domain import Ball
from exactformer.core.layers import (
    IDENTITY,
    RELU,
    Attention,
    BiasedHead,
    Block,
    Embedding,
    FeedForward,
    Readout,
    Rule,
    Selection,
)
from exactformer.core.matrix import Matrix, column
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.run.exact import run_exact
from tests.coq.laws import module

FEATURE, FIRST, SECOND, COPY = range(4)


def by_hand(bias: int, activation=IDENTITY, rule=Rule.HARD_MAX) -> Blueprint:
    """Two tokens x and 2x copy their feature, and triple the copy: 3x + 6x."""
    positions = Matrix.of(2, 4, {(0, FIRST): 10, (1, SECOND): 10})
    head = BiasedHead(
        query=positions,
        key=Matrix.of(2, 4, {(0, FIRST): 1, (1, SECOND): 1}),
        value=Matrix.of(4, 4, {(COPY, FEATURE): 1}),
        bias=column([bias, 5]),
    )
    triple = FeedForward(
        Matrix.of(1, 4, {(0, COPY): 1}),
        column([0]),
        Matrix.of(4, 1, {(COPY, 0): 2}),
        column([0] * 4),
        activation,
    )
    return Blueprint(
        variables=("x",),
        dimensions=("feature", "first", "second", "copy"),
        embedding=Embedding(
            Matrix.of(2, 1, {(0, 0): 1, (1, 0): 2}),
            FEATURE,
            Matrix.of(2, 4, {(0, FIRST): 1, (1, SECOND): 1}),
        ),
        blocks=(Block(Attention((head,), Selection(rule)), triple),),
        readouts=(Readout(Matrix.of(2, 4, {(0, COPY): 1, (1, COPY): 1}), Fraction(0)),),
        domain=Ball(Fraction(3)),
        degree=1,
        construction="by hand",
    )


def text(blueprint, target, proof):
    parts = [definitions(blueprint), "Open Scope R_scope."]
    return "\n".join([*parts, statement(blueprint, Target.coerce(target)), proof])


def test_the_model_by_hand_is_nine_times_x():
    assert run_exact(by_hand(bias=5), [Fraction(2, 3)]) == 6


def test_hard_maximum_biased_queries_and_identity_are_proved_and_each_of_them_matters(coq):
    """One file, as loading the real numbers takes longer than these proofs."""
    wrong = {
        "target": (by_hand(bias=5), "8 x"),
        "bias": (by_hand(bias=20), "9 x"),
        "activation": (by_hand(bias=5, activation=RELU), "9 x"),
        "rule": (by_hand(bias=5, rule=Rule.ONE_HOT_MAX), "9 x"),
        "blocks": (replace(by_hand(bias=5), blocks=()), "9 x"),
    }
    told = "Proof. intros. diagnose region. Abort."
    modules = [module("right", text(by_hand(bias=5), "9 x", PROOF))]
    modules += [module(f"wrong_{name}", text(*case, told)) for name, case in wrong.items()]
    answer = compiled(coq, "\n".join([IMPORTS, *modules]))
    assert answer.returncode == 0, answer.stderr
    verdicts = re.findall(r"verdict: \(?(\w+)", answer.stdout)
    assert dict(zip(wrong, verdicts, strict=True)) == {
        "target": "Differs",
        "bias": "NotSelected",
        "activation": "SignChanges",
        "rule": "Differs",
        "blocks": "Differs",
    }
