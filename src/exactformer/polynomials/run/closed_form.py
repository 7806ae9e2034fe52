"""The function of a self-selecting transformer, in closed form.

Once every token is proven to select itself, nothing of the n × n attention is left but

    output = b + Σ_i P_i(t_i),      t_i = F_i·(x − c),  deg P_i ≤ q,

with P_i known exactly from the run on polynomials. A fused form is these numbers: what a matrix
product and a pass of Horner's rule need, O(n(d + q)) work per point instead of O(n³). Which basis the
P_i are written in is a matter of accuracy, not of truth: powers, or Chebyshev polynomials, which
Clenshaw's recurrence adds up.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.polynomial.chebyshev import chebval
from numpy.polynomial.polynomial import polyval

from exactformer.core.arrays import Array
from exactformer.core.matrix import Matrix

if TYPE_CHECKING:
    from flint import fmpq_poly

    from exactformer.polynomials.proof.symbolic import SymbolicRun


class Basis(StrEnum):
    """What the coefficients of a fused form multiply."""

    POWER = "power"
    CHEBYSHEV = "Chebyshev"


@dataclass(frozen=True)
class FusedForm:
    """F (n × d), the centre c, and for every output its coefficients and b; all exact."""

    features: Matrix
    centre: tuple[Fraction, ...]
    """Empty for the origin."""
    coefficients: tuple[Matrix, ...]
    """For every output n × q: weights of t_i … t_i^q, or of T_1(t_i) … T_q(t_i)."""
    biases: tuple[Fraction, ...]
    basis: Basis = Basis.POWER
    vector: bool = False

    def at_offsets(self, offsets: Array) -> Array:
        """Evaluate at x − c in float64, without guarantee: (N, d) gives (N, m)."""
        t = self.features.floats() @ offsets.T
        add_up = polyval if self.basis is Basis.POWER else chebval
        columns = []
        for matrix, bias in zip(self.coefficients, self.biases, strict=True):
            table = np.pad(matrix.floats(), ((0, 0), (1, 0))).T  # no constant term
            constant = Matrix.of(1, 1, {(0, 0): bias}).floats()[0, 0]
            columns.append(add_up(t, table[:, :, None], tensor=False).sum(axis=0) + constant)
        return np.stack(columns, axis=-1)


def fuse(run: SymbolicRun) -> FusedForm:
    """Read the closed form off a symbolic run; right wherever selection is proven."""
    blueprint, n = run.blueprint, run.blueprint.tokens
    degree = max(max(p.degree(), 0) for polynomials in run.readouts for p in polynomials)
    basis = _basis(run)
    expand = _in_powers if basis is Basis.POWER else _in_chebyshev_polynomials
    coefficients, biases = [], []
    for readout, polynomials in zip(blueprint.readouts, run.readouts, strict=True):
        rows = [expand(polynomial) for polynomial in polynomials]
        entries = {(i, s): c for i, row in enumerate(rows) for s, c in enumerate(row[1:])}
        coefficients.append(Matrix.of(n, degree, entries))
        biases.append(readout.bias + sum((row[0] for row in rows if row), Fraction(0)))
    centre = blueprint.domain.centre
    return FusedForm(
        blueprint.embedding.features,
        centre if any(centre) else (),
        tuple(coefficients),
        tuple(biases),
        basis,
        blueprint.vector,
    )


def _basis(run: SymbolicRun) -> Basis:
    """Return the basis that the readouts use: that of the first polynomial they read that tells.

    Weights decide, not the name of the construction: a fused form and its bound depend on them alone.
    """
    stream = run.blocks[-1].output if run.blocks else run.tokens
    for readout in run.blueprint.readouts:
        for i, dimension, _ in readout.beta:
            polynomial = stream[i].get(dimension)
            if polynomial is not None and sum(map(bool, polynomial.coeffs())) > 1:
                single = sum(map(bool, _in_chebyshev_polynomials(polynomial))) == 1
                return Basis.CHEBYSHEV if single else Basis.POWER
    return Basis.POWER


def _in_powers(polynomial: fmpq_poly) -> list[Fraction]:
    from flint import fmpq

    from exactformer.algebra.rational import to_fraction

    return [to_fraction(fmpq(c)) for c in polynomial.coeffs()]


def _in_chebyshev_polynomials(polynomial: fmpq_poly) -> list[Fraction]:
    from exactformer.algebra.chebyshev import from_powers

    return from_powers(_in_powers(polynomial))
