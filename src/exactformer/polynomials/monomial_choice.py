"""Whether a certified model may be evaluated by the terms of its polynomial."""

from __future__ import annotations

import torch

from exactformer.algebra import Target
from exactformer.core.formats import float_format
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.proof.certificate import PolynomialCertificate
from exactformer.polynomials.proof.certify import SLACK
from exactformer.polynomials.proof.monomial_rounding import expanded_bound
from exactformer.polynomials.run.closed_form import Basis, FusedForm
from exactformer.polynomials.run.monomial_plan import CHEAP, Expansion, expand

MAX_TERMS = 20_000


def proven_expansion(
    blueprint: Blueprint, form: FusedForm, certificate: PolynomialCertificate, dtype: torch.dtype
) -> Expansion | None:
    """Return the quicker expansion of the proven polynomial, if its rounding is within the bound.

    Chebyshev polynomials are there because powers are not accurate enough; they stay.
    """
    if form.basis is not Basis.POWER or certificate.terms > MAX_TERMS:
        return None
    bound = certificate.fused[float_format(dtype).name].executed
    if bound is None:
        return None
    target = Target.coerce(certificate.target, blueprint.variables)
    d, domain = target.dimension, blueprint.domain.enlarged(SLACK)
    centre = [domain.offset(j) for j in range(d)]
    terms = [p.composed(centre, [1] * d).terms() for p in target]
    plan = expand(terms, d, centre)
    if plan is None or plan.cost > _cost(form):
        return None
    return plan if expanded_bound(plan, domain, float_format(dtype)) <= bound else None


def _cost(form: FusedForm) -> float:
    """Return what evaluating the tokens costs, counted as :attr:`Expansion.cost` does."""
    n, d = form.features.shape
    return n * (d / CHEAP + (form.coefficients[0].columns + 1) * len(form.coefficients))
