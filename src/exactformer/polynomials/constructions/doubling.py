"""Powers by doubling: depth ⌈log₂ q⌉ instead of q, one head for every product of a block.

A block that finds t, …, t^k in the stream multiplies t^k by each of them in parallel heads, and
leaves t, …, t^2k. Features, offset and readout are those of the scaled construction; so is the proof
of selection, head by head.

    block 1: t²        block 2: t³ t⁴        block 3: t⁵ t⁶ t⁷ t⁸        …
"""

from __future__ import annotations

from fractions import Fraction

from exactformer.algebra.ridge import RidgeForm
from exactformer.core.domain import Domain
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions.scaled import assemble, multiply, power_rows


def doubling(form: RidgeForm, domain: Domain | Fraction) -> Blueprint:
    """Return a transformer of ⌈log₂ q⌉ blocks that computes the ridge form on a domain."""
    rows = power_rows(form)
    blocks = []
    known = 1
    while known < form.degree:
        reached = min(2 * known, form.degree)
        steps = [(known, s - known, s) for s in range(known + 1, reached + 1)]
        blocks.append(multiply(rows, steps))
        known = reached
    return assemble(form, domain, rows, blocks, "doubling")
