"""Proof of zero error: the model's output, multiplied out, is the target, term by term."""

from __future__ import annotations

from flint import fmpq, fmpq_mpoly

from exactformer.algebra import Polynomial, Target
from exactformer.algebra.rational import to_float, to_fmpq
from exactformer.algebra.ring import ring
from exactformer.errors import IdentityError
from exactformer.polynomials.proof.symbolic import SymbolicRun

_SHOWN = 3


def prove_identity(run: SymbolicRun, target: Target | Polynomial) -> int:
    """Compare outputs and target exactly; return the number of terms that agree."""
    target = Target.coerce(target)
    if run.blueprint.variables != target.variables:
        raise IdentityError(
            f"the model's variables are {', '.join(run.blueprint.variables) or 'none'}, "
            f"the target's are {', '.join(target.variables) or 'none'}; name them with variables=[…]"
        )
    if len(run.readouts) != len(target):
        raise IdentityError(f"the model has {len(run.readouts)} outputs, the target {len(target)}")
    for k, polynomial in enumerate(target):
        name = f"output {k + 1} of the model" if target.vector else "the model"
        _compare(_output(run, k), polynomial, name)
    return sum(map(len, target))


def _compare(output: fmpq_mpoly, target: Polynomial, name: str) -> None:
    difference = output - target.flint
    if not difference.is_zero():
        wrong = Polynomial(target.variables, difference)
        terms = list(wrong.terms())
        shown = ", ".join(
            f"{_term(a, target)} (off by {to_float(wrong.coefficient(a)):.3g})"
            for a in terms[:_SHOWN]
        )
        more = f" and {len(terms) - _SHOWN} more" if len(terms) > _SHOWN else ""
        raise IdentityError(f"{name} does not compute the target: it differs in {shown}{more}")


def _term(powers: tuple[int, ...], target: Polynomial) -> str:
    if not any(powers):
        return "the constant term"
    return str(Polynomial.from_terms({powers: 1}, target.variables))


def _output(run: SymbolicRun, k: int) -> fmpq_mpoly:
    """Return b + Σ_i P_i(F_i·(x − c)) of one readout, multiplied out."""
    features = run.blueprint.embedding.features
    dimension = features.columns
    ctx = ring(dimension)
    unit = [tuple(int(i == j) for j in range(dimension)) for i in range(dimension)]
    rows = features.by_row
    bias = run.blueprint.readouts[k].bias
    output = ctx.from_dict({(0,) * dimension: to_fmpq(bias)})
    for i, polynomial in enumerate(run.readouts[k]):
        linear = ctx.from_dict({unit[j]: to_fmpq(value) for j, value in rows.get(i, ())})
        for j, value in rows.get(i, ()):
            linear -= to_fmpq(value * run.domain.offset(j))
        power = ctx.from_dict({(0,) * dimension: fmpq(1)})
        for k, coefficient in enumerate(polynomial.coeffs()):
            if k:
                power = power * linear
            if coefficient != 0:
                output += power * fmpq(coefficient)
    return output
