"""Proof of zero error: the model's output, multiplied out, is the target, term by term."""

from __future__ import annotations

from flint import fmpq, fmpq_mpoly

from exactformer.algebra import Polynomial
from exactformer.algebra.rational import to_float, to_fmpq
from exactformer.algebra.ring import ring
from exactformer.errors import IdentityError
from exactformer.execution.symbolic import SymbolicRun

_SHOWN = 3


def prove_identity(run: SymbolicRun, target: Polynomial) -> int:
    """Compare output and target exactly; return the number of terms that agree."""
    if run.blueprint.variables != target.variables:
        raise IdentityError(
            f"the model's variables are {', '.join(run.blueprint.variables) or 'none'}, "
            f"the target's are {', '.join(target.variables) or 'none'}; name them with variables=[…]"
        )
    difference = _output(run) - target.flint
    if not difference.is_zero():
        wrong = Polynomial(target.variables, difference)
        terms = list(wrong.terms())
        shown = ", ".join(
            f"{Polynomial.from_terms({a: 1}, target.variables)} (off by "
            f"{to_float(wrong.coefficient(a)):.3g})"
            for a in terms[:_SHOWN]
        )
        more = f" and {len(terms) - _SHOWN} more" if len(terms) > _SHOWN else ""
        raise IdentityError(f"the model does not compute the target: it differs in {shown}{more}")
    return len(target)


def _output(run: SymbolicRun) -> fmpq_mpoly:
    """Return b + Σ_i P_i(F_i·x), multiplied out."""
    features = run.blueprint.embedding.features
    dimension = features.columns
    ctx = ring(dimension)
    unit = [tuple(int(i == j) for j in range(dimension)) for i in range(dimension)]
    rows = features.by_row
    output = ctx.from_dict({(0,) * dimension: to_fmpq(run.blueprint.readout.bias)})
    for i, polynomial in enumerate(run.readout):
        linear = ctx.from_dict({unit[j]: to_fmpq(value) for j, value in rows.get(i, ())})
        power = ctx.from_dict({(0,) * dimension: fmpq(1)})
        for k, coefficient in enumerate(polynomial.coeffs()):
            if k:
                power = power * linear
            if coefficient != 0:
                output += power * fmpq(coefficient)
    return output
