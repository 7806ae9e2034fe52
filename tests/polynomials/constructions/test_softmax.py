"""The softmax construction: who attends to whom, at what cost, in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, log2

import pytest

from exactformer.algebra import Polynomial
from exactformer.algebra.ridge import ridge_form
from exactformer.core.layers import Head, Rule
from exactformer.core.matrix import Matrix
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions.softmax import MASK, softmax
from exactformer.polynomials.constructions.tanh_extrapolation import Extrapolation
from tests.cases.polynomials import names

F2 = "x1^5 + 3 x2^4 + 2 x3^3 + 5 x3 x4 + 3 x5^2 + 2 x6 x7 x8 + 2 x9"


def tokens_at(blueprint: Blueprint, features: list[Fraction]) -> list[list[Fraction]]:
    constant = blueprint.embedding.constant
    rows = [[constant[i, j] for j in range(blueprint.width)] for i in range(blueprint.tokens)]
    for row, feature in zip(rows, features, strict=False):
        row[blueprint.embedding.dimension] += feature
    return rows


def applied(matrix: Matrix, token: list[Fraction]) -> list[Fraction]:
    result = [Fraction(0)] * matrix.rows
    for row, column, value in matrix:
        result[row] += value * token[column]
    return result


def logits(head: Head, tokens: list[list[Fraction]]) -> list[list[Fraction]]:
    queries = [applied(head.query, token) for token in tokens]
    keys = [applied(head.key, token) for token in tokens]
    return [[sum(a * b for a, b in zip(q, k, strict=True)) for k in keys] for q in queries]


@pytest.mark.parametrize("n", [1, 2, 3, 8, 11])
def test_the_mask_adds_an_exact_zero_where_it_counts_and_hides_everyone_else(n: int) -> None:
    variables = names(n)
    p = Polynomial.parse(" + ".join(f"{x}^2" for x in variables), variables)
    blueprint = softmax(ridge_form(p, "tailored"), Fraction(1), Extrapolation(2, Fraction(1)))
    t = [Fraction(k - 5, 7) for k in range(n)]
    for head, node in zip(
        blueprint.blocks[0].attention.heads, Extrapolation(2, Fraction(1)).nodes, strict=True
    ):
        table = logits(head, tokens_at(blueprint, t))
        null, sink = n, n + 1
        for i in range(n):
            assert table[i][i] == node * t[i] ** 2
            assert table[i][null] == 0
            assert table[i][sink] == -MASK
            others = [table[i][j] - node * t[i] * t[j] for j in range(n) if j != i]
            assert all(logit <= -MASK for logit in others)
        for i in (null, sink):
            assert table[i] == [*[Fraction(0)] * (n + 1), MASK]


@pytest.mark.parametrize("q", range(1, 17))
def test_depth_width_and_heads(q: int) -> None:
    p = Polynomial.parse(f"x^{q} + y^{q}")
    blueprint = softmax(ridge_form(p), Fraction(1), Extrapolation(3, Fraction(1)))
    n = blueprint.tokens - 2
    assert blueprint.depth == (ceil(log2(q)) if q > 1 else 0)
    assert blueprint.width == 2 * (n - 1).bit_length() + q + 3
    assert sum(len(block.attention.heads) for block in blueprint.blocks) == 3 * (q - 1)


def test_no_selection_rule_but_softmax_and_no_feed_forward_layer() -> None:
    blueprint = softmax(ridge_form(Polynomial.parse(F2, names(10))), Fraction(4))
    for block in blueprint.blocks:
        assert block.attention.selection.rule is Rule.SOFTMAX
        assert block.attention.selection.temperature == 1
        assert block.feed_forward.w1.rows == 0
        assert block.feed_forward.b2.nonzeros == 0
