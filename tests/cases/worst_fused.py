"""A fused form in the worst arithmetic, and exactly."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from flint import fmpq

from exactformer.algebra.rational import to_fmpq
from exactformer.core.formats import FloatFormat
from exactformer.polynomials.proof.closed_form_rounding import arithmetic_format
from exactformer.polynomials.run.closed_form import Basis, FusedForm
from tests.cases.worst_rounding import ZERO, Arithmetic, worst

NOTHING = Fraction(0)


def worst_of_form(form: FusedForm, x: Sequence[Fraction], module: FloatFormat) -> Fraction:
    """Return how far the first output may come from the exact one in a module of some format."""
    wide = arithmetic_format(module)
    return worst(lambda on: run_form_in(on, form, x, module), exactly(form, x), wide)


def run_form_in(
    on: Arithmetic, form: FusedForm, x: Sequence[Fraction], module: FloatFormat
) -> fmpq:
    """Evaluate the first output one operation after the other, tokens in the worst order."""
    centre = [on.weight(c, module) for c in form.centre] or [ZERO] * len(x)
    y = [on.plus(to_fmpq(a), -c) for a, c in zip(x, centre, strict=True)]
    values = []
    for i in range(form.features.rows):
        row = form.features.by_row.get(i, [])
        t = on.sum([on.times(on.weight(value, module), y[j]) for j, value in row])
        stored = dict(form.coefficients[0].by_row.get(i, []))
        q = form.coefficients[0].columns
        c = [on.weight(stored.get(s, NOTHING), module) for s in range(q)]
        values.append((_horner if form.basis is Basis.POWER else _clenshaw)(on, t, c))
    bias = on.weight(form.biases[0], module)
    result = on.sum([*values, bias])
    return result if on.format is module else on.converted(result, module)


def _horner(on: Arithmetic, t: fmpq, c: list[fmpq]) -> fmpq:
    value = ZERO
    for coefficient in reversed(c):
        value = on.plus(coefficient, on.times(value, t))
    return on.times(value, t)


def _clenshaw(on: Arithmetic, t: fmpq, c: list[fmpq]) -> fmpq:
    above = current = ZERO
    for coefficient in reversed(c):
        above, current = (
            current,
            on.plus(on.plus(coefficient, -above), on.times(2 * t, current)),
        )
    return on.plus(on.times(t, current), -above)


def exactly(form: FusedForm, x: Sequence[Fraction]) -> Fraction:
    """Return the value b + Σ_i P_i(F_i·(x − c))."""
    centre = form.centre or (NOTHING,) * len(x)
    total = form.biases[0]
    for i in range(form.features.rows):
        row = form.features.by_row.get(i, [])
        t = sum((value * (x[j] - centre[j]) for j, value in row), NOTHING)
        before, basis = Fraction(1), t
        stored = dict(form.coefficients[0].by_row.get(i, []))
        for s in range(form.coefficients[0].columns):
            total += stored.get(s, NOTHING) * basis
            if form.basis is Basis.POWER:
                basis *= t
            else:
                before, basis = basis, 2 * t * basis - before
    return total
