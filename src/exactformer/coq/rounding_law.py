"""The second theorem of a law's file: its fused form in floating-point arithmetic, in any order.

The error in the theorem is twice Python's bound of the fused form in any order, rounded up to two
digits. Coq finds its own bound, with a looser model of rounded weights, which must not exceed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from exactformer.algebra import Target
from exactformer.coq.text import (
    decimal,
    listed,
    names,
    polynomial,
    rational,
    tied,
    two_digits,
    wrapped,
)
from exactformer.core.formats import FORMATS
from exactformer.errors import CertificationError, InputError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.proof.certify import SLACK
from exactformer.polynomials.proof.closed_form_rounding import fused_bound
from exactformer.polynomials.proof.symbolic import run_symbolic
from exactformer.polynomials.run.closed_form import Basis, FusedForm, fuse

FACTOR, CONSTANTS = 2, Fraction(5, 2)
"""How much larger the error of the theorem is than Python's in any order; and of constants, of which
Python knows that sums of zeros are exact."""

COVERED = {"float64": "binary64", "float32": "binary32"}
_BASES = {Basis.POWER: "Powers", Basis.CHEBYSHEV: "Chebyshev"}

ROUNDING_PROOF = "Proof. intros. certify_rounding region. Qed."


def rounding(
    blueprint: Blueprint, target: Target, hypotheses: Sequence[str], name: str
) -> tuple[str, list[str]]:
    """Return closed forms and theorems for all outputs in one float format, and the theorems' names."""
    if name not in COVERED:
        raise InputError(
            f"rounding={name!r}: Coq's theorem covers {' and '.join(COVERED)}; "
            "the certificate has bounds for the other formats"
        )
    run = run_symbolic(blueprint, blueprint.domain.enlarged(SLACK))
    form = fuse(run)
    every_order = form.features.rows - 1
    bound = fused_bound(form, run.sizes.reach, run.domain, FORMATS[name], every_order)
    if bound.value is None:
        raise CertificationError(f"there is no bound in {name} to state: {bound.reason}")
    factor = FACTOR if any(p.degree for p in target) else CONSTANTS
    error, parts, theorems = two_digits(factor * bound.value), [], []
    at_most = tied(f"<= {decimal(error)}")
    for number, wanted in enumerate(target):
        mark = "" if len(target.polynomials) == 1 else f"_{number + 1}"
        theorems.append(f"rounded{mark}")
        parts.append(definition(form, blueprint, number, f"closed_form{mark}"))
        variables = names(blueprint.variables)
        lines = [
            wrapped(
                f"Theorem rounded{mark} : forall {' '.join([*variables, 'result', 'largest'])} : R,",
                0,
            )
        ]
        lines += [f"{wrapped(h, 2)} ->" for h in hypotheses]
        call = f"computes {COVERED[name]} closed_form{mark} {listed(variables)}"
        lines.append(f"{wrapped(f'{call} result largest', 2)} ->")
        difference = f"Rabs (result - ({polynomial(wanted, variables)}))"
        conclusion = f"largest < too_large {COVERED[name]} /\\ {difference} {at_most}."
        lines.append(wrapped(conclusion, 2))
        parts += ["\n".join(lines), ROUNDING_PROOF, ""]
    return "\n".join(parts), theorems


def definition(form: FusedForm, blueprint: Blueprint, output: int, name: str) -> str:
    """Return the closed form of one output as data."""
    F, c = form.features, form.coefficients[output]
    axes = range(len(blueprint.variables))
    ridges = [
        f"({', '.join(_numbers(M[i, j] for j in range(M.columns)) for M in (F, c))})"
        for i in range(F.rows)
    ]
    return "\n".join(
        [
            f"Definition {name} : form := {{|",
            f"  about := {_numbers(blueprint.domain.offset(j) for j in axes)};",
            f"  in_basis := {_BASES[form.basis]};",
            f"  ridges_of :=\n   {listed(ridges, 3, lines=True)};",
            f"  offset := {rational(form.biases[output])}%Q",
            "|}.\n",
        ]
    )


def _numbers(values: Iterable[Fraction]) -> str:
    return f"{listed(map(rational, values))}%Q"
