"""Horner's scheme in several variables: its terms, its roundings, its bound."""

from __future__ import annotations

from fractions import Fraction
from math import inf

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.algebra import Target
from exactformer.core.domain import Ball, Box
from exactformer.core.formats import FORMATS, float_format
from exactformer.polynomials.proof.horner_rounding import scheme_bound, sums
from exactformer.polynomials.proof.monomial_rounding import expanded_bound
from exactformer.polynomials.run.compiled_run import CompiledTerms
from exactformer.polynomials.run.horner_plan import Action, Scheme, Step, scheme
from exactformer.polynomials.run.monomial_plan import Monomial, _monomial, expand
from tests.examples import examples

DENSE = "(1 + x - 2 y + z/3)^5 - 3 (x + y - z/7)^4"
SPARSE = "x^7 y^2 - 3 x z + 1/3; y^5; 4"

tables = st.dictionaries(
    st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)),
    st.fractions(-9, 9, max_denominator=50),
    max_size=40,
)

Counts = dict[Monomial, int]


def of(text: str, centre: tuple[Fraction, ...] = ()) -> tuple[Target, Scheme]:
    target = Target.coerce(text)
    d = target.dimension
    terms = [p.composed(centre or [0] * d, [1] * d).terms() for p in target]
    plan = scheme(terms, d, centre or [Fraction(0)] * d)
    assert plan is not None
    return target, plan


def times(j: int, row: Counts) -> Counts:
    return {tuple(sorted((*m, 1 + j))): count for m, count in row.items()}


def plus(a: Counts, b: Counts) -> Counts:
    """Each term of either meets this addition."""
    return {m: count + 1 for m, count in {**a, **b}.items()}


def additions(plan: Scheme) -> list[Counts]:
    """How many additions every term meets, one operation after the other."""
    rows: dict[int, Counts] = {}
    outputs = []

    def with_leaves(row: Counts, step: Step) -> Counts:
        for j, _ in step.leaves:
            row = plus(row, {(1 + j,): 0})
        return row

    for step in plan.steps:
        row = rows.get(step.level, {})
        if step.action is Action.BEGIN:
            rows[step.level] = with_leaves({(): 0}, step)
        elif step.action is Action.LEAVES:
            rows[step.level] = with_leaves(row, step)
        elif step.action is Action.CHAIN:
            for _ in step.leaves:
                row = plus(times(step.variable, row), {(): 0})
            rows[step.level] = row
        elif step.action is Action.OUT:
            outputs.append(row)
        else:
            fold = step.action is Action.FOLD
            other = rows[step.level + 1] if fold else with_leaves({(): 0}, step)
            rows[step.level] = plus(row, times(step.variable, other))
    return outputs


@given(st.lists(tables, min_size=1, max_size=3))
@settings(max_examples=examples(60), deadline=None)
def test_the_scheme_is_the_polynomial_and_its_additions_are_counted(polynomials) -> None:
    plan = scheme(polynomials, 4, [Fraction(0)] * 4)
    if plan is None:
        return
    for table, (terms, most), counted in zip(polynomials, sums(plan), additions(plan), strict=True):
        assert dict(terms) == {_monomial(a): c for a, c in table.items() if c}
        for degree, count in most.items():
            assert count == max(counted[m] for m, _ in terms if len(m) == degree)


@pytest.mark.parametrize(("d", "q"), [(1, 30), (2, 12), (4, 5), (7, 3)])
def test_few_additions_meet_a_term(d: int, q: int) -> None:
    """Later variables first: hardly more than d + q, where a sum of all terms would have C(d+q, q)."""
    _, plan = of(f"(1 + {' + '.join(f'x{j}' for j in range(d))})^{q}")
    (_, most) = next(sums(plan))
    assert max(most.values()) <= d + q


@pytest.mark.parametrize("text", [DENSE, SPARSE, "x^2", "x y; x + y"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("centred", [False, True])
def test_values_are_within_the_bound(text: str, dtype: torch.dtype, centred: bool) -> None:
    pytest.importorskip("numba")
    d = Target.coerce(text).dimension
    centre = tuple(Fraction(k + 1, 4) for k in range(d)) if centred else ()
    target, plan = of(text, centre)
    for domain in (
        Ball(Fraction(2), centre),
        Box(centre or (Fraction(0),) * d, (Fraction(2),) * d),
    ):
        local = np.random.default_rng(0).uniform(-1, 1, (60, d))
        if isinstance(domain, Ball):
            local /= np.maximum(np.linalg.norm(local, axis=1, keepdims=True), 1)
        x = torch.as_tensor(1.99 * local + [float(c) for c in centre or [0] * d]).to(dtype)
        bound = scheme_bound(plan, domain, float_format(dtype))
        values = CompiledTerms(plan, dtype)(x, dtype)
        assert values is not None
        errors = [
            abs(Fraction(value) - polynomial.at(point))
            for polynomial, row in zip(target, values.view(plan.outputs, -1).tolist(), strict=True)
            for point, value in zip(x.double().tolist(), row, strict=True)
        ]
        assert max(errors) <= bound
        assert bound <= 1000 * max(float(max(errors)), float_format(dtype).unit)


@pytest.mark.parametrize("name", FORMATS)
def test_the_bound_of_a_dense_polynomial_is_better_than_that_of_matrix_products(name: str) -> None:
    target, plan = of("(1 + a + b + c - d/3)^6")
    other = expand([p.terms() for p in target], 4, [Fraction(0)] * 4)
    assert other is not None
    own, others = (
        f(p, Ball(Fraction(1)), FORMATS[name])
        for f, p in ((scheme_bound, plan), (expanded_bound, other))
    )
    assert 0 < own <= others


def test_a_centre_that_no_format_holds_has_no_bound() -> None:
    _, plan = of("x^3", (Fraction(1, 3),))
    assert scheme_bound(plan, Ball(Fraction(1), (Fraction(1, 3),)), FORMATS["float64"]) == inf
    _, plan = of("10^300 x^9")
    assert scheme_bound(plan, Ball(Fraction(10**20)), FORMATS["float64"]) == inf


def test_linear_polynomials_have_no_scheme() -> None:
    assert scheme([{(1, 0): Fraction(3), (0, 0): Fraction(1)}], 2, [Fraction(0)] * 2) is None
    assert scheme([{}], 2, [Fraction(0)] * 2) is None


def test_high_degrees_need_no_deep_recursion() -> None:
    plan = scheme([{(3000,): Fraction(1), (1,): Fraction(2)}], 1, [Fraction(0)])
    assert plan is not None
    assert [step.action for step in plan.steps] == [Action.BEGIN, Action.CHAIN, Action.OUT]
    assert next(sums(plan))[0] == [((1,) * 3000, 1), ((1,), 2)]
