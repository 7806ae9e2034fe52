"""A softmax blueprint in the worst arithmetic that is assumed of attention kernels.

An exponential errs by its units in the last place and by 4u·|x|, a rescaling by two more of them; a
weight meets four roundings on its way to the values and an answer five. Each of these errors is one
choice, as every product and sum is.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from flint import fmpq
from mpmath import mp

from exactformer.core.formats import EXP_ULPS
from exactformer.polynomials.blueprint import Blueprint
from tests.cases.worst_rounding import ONE, ZERO, Arithmetic, embedded, linear

RESCALING_ULPS, PER_WEIGHT, COMMON = 2, 4, 5


def run_softmax_in(on: Arithmetic, blueprint: Blueprint, x: Sequence[Fraction]) -> fmpq:
    """Run; the readout in the worst order."""
    n, w, stream = blueprint.tokens, blueprint.width, embedded(on, blueprint, x)
    for block in blueprint.blocks:
        added: list[list[list[fmpq]]] = [[[] for _ in range(w)] for _ in range(n)]
        for head in block.attention.heads:
            q, k, v = (
                [linear(on, matrix, token) for token in stream]
                for matrix in (head.query, head.key, head.value)
            )
            for i in range(n):
                logits = [
                    on.sum([on.times(a, b) for a, b in zip(q[i], key, strict=True)]) for key in k
                ]
                for r, answer in enumerate(_mean(on, logits, v)):
                    added[i][r].append(answer)
        stream = [
            [on.sum([entry, *terms]) for entry, terms in zip(token, more, strict=True)]
            for token, more in zip(stream, added, strict=True)
        ]
    readout = blueprint.readouts[0]
    terms = [on.times(on.weight(value), stream[i][d]) for i, d, value in readout.beta]
    return on.sum([on.weight(readout.bias), *terms])


def _mean(on: Arithmetic, logits: list[fmpq], values: list[list[fmpq]]) -> list[fmpq]:
    top = max(logits)
    near = [j for j, logit in enumerate(logits) if top - logit < 50]
    ulps = 2 * (EXP_ULPS[on.format.name] + RESCALING_ULPS)
    weights = {}
    for j in near:
        errors = ulps + 4 * (top - logits[j]) if top != logits[j] else fmpq(0)
        weights[j] = on.several(_exp(logits[j] - top), errors)
    whole = sum(weights.values(), ZERO)
    answers = []
    for r in range(len(values[0])):
        shares = [(weights[j] / whole, values[j][r]) for j in near if values[j][r] != 0]
        answer = sum((on.several(p, fmpq(PER_WEIGHT)) * value for p, value in shares), ZERO)
        answers.append(on.several(answer, fmpq(COMMON)))
    return answers


def _exp(x: fmpq) -> fmpq:
    if x == 0:
        return ONE
    with mp.workprec(200):
        sign, mantissa, exponent, _ = mp.exp(mp.mpf(int(x.p)) / int(x.q))._mpf_
    assert not sign
    return fmpq(int(mantissa)) * fmpq(2) ** int(exponent)
