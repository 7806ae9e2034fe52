"""The module that runs a blueprint, and the places of its entries in the blueprint's words.

A blueprint runs by its matrices, or in closed form. Once the identity is proven, a closed form may be
evaluated by the terms of the polynomial: where their certified error is much smaller, or no larger and
they are quicker.
"""

from __future__ import annotations

import torch

from exactformer.algebra import Target
from exactformer.core.formats import float_format
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.proof.certify import SLACK, Proof
from exactformer.polynomials.proof.horner_rounding import scheme_bound
from exactformer.polynomials.proof.monomial_rounding import expanded_bound
from exactformer.polynomials.proof.softmax_symbolic import is_softmax
from exactformer.polynomials.proof.symbolic import run_symbolic
from exactformer.polynomials.run import compiled_run
from exactformer.polynomials.run.closed_form import FusedForm, fuse
from exactformer.polynomials.run.closed_form_module import FusedTransformer
from exactformer.polynomials.run.horner_plan import Scheme, scheme
from exactformer.polynomials.run.literal import LiteralTransformer
from exactformer.polynomials.run.monomial_plan import MATMUL_DISCOUNT, Expansion, expand
from exactformer.polynomials.run.softmax import SoftmaxTransformer, softmax_weights

_MAX_TERMS = 20_000
_MUCH = 4
"""Terms are evaluated whatever they cost where their certified error is smaller by this factor."""

Transformer = FusedTransformer | LiteralTransformer | SoftmaxTransformer


def transformer(
    blueprint: Blueprint, executor: str | None, dtype: torch.dtype, proof: Proof | None = None
) -> Transformer:
    """Return the module that runs a blueprint; selection must have been proven, or be about to be."""
    if is_softmax(blueprint):
        return SoftmaxTransformer(blueprint, dtype)
    if executor == "literal":
        return LiteralTransformer(blueprint, dtype)
    if proof is None:
        return FusedTransformer(closed_form(blueprint), dtype)
    form = proof.form or closed_form(blueprint)
    return FusedTransformer(form, dtype, *_evaluation(blueprint, form, proof, dtype))


def closed_form(blueprint: Blueprint) -> FusedForm:
    """Read the closed form of a certified blueprint from its weights."""
    return fuse(run_symbolic(blueprint, blueprint.domain))


def _evaluation(
    blueprint: Blueprint, form: FusedForm, proof: Proof, dtype: torch.dtype
) -> tuple[Expansion | Scheme | None, float | None, Scheme | None]:
    """Return the plan for terms of the proven polynomial that are evaluated in memory, and its bound.

    With the bound come steps within it, for points that no plan takes. No plan: the tokens are
    evaluated. No bound: that of the tokens holds, and is not much larger.
    """
    certificate, number_format = proof.certificate, float_format(dtype)
    bound = certificate.fused[number_format.name].executed
    if bound is None or not 0 < certificate.terms <= _MAX_TERMS or certificate.tokens == 1:
        return None, None, None
    target = proof.target or Target.coerce(certificate.target, blueprint.variables)
    d, domain = target.dimension, blueprint.domain.enlarged(SLACK)
    centre = [domain.offset(j) for j in range(d)]
    terms = [p.composed(centre, [1] * d).terms() for p in target]
    steps = scheme(terms, d, centre)
    plan, discount = (
        (steps, 1) if compiled_run.is_installed() else (expand(terms, d, centre), MATMUL_DISCOUNT)
    )
    if plan is None or steps is None:
        return None, None, None
    by_terms = scheme_bound(steps, domain, number_format)
    if isinstance(plan, Expansion):
        by_terms = max(by_terms, expanded_bound(plan, domain, number_format))
    if by_terms * _MUCH <= bound:
        return plan, by_terms, steps
    quicker = by_terms <= bound and plan.cost <= _cost(form, discount)
    return plan if quicker else None, None, None


def _cost(form: FusedForm, discount: int) -> float:
    """Return what evaluating the tokens costs, counted as the cost of the terms is."""
    n, d = form.features.shape
    return n * (d / discount + (form.coefficients[0].columns + 1) * len(form.coefficients))


def place_in_module(blueprint: Blueprint, executor: str, name: str, index: tuple[int, ...]) -> str:
    """Return where an entry of a tensor stands; ``name`` is the tensor's in the transformer."""
    if is_softmax(blueprint):
        weights = softmax_weights(blueprint, torch.float64)
        return weights[name][1](*index) if name in weights else name
    if executor == "literal":
        path = _paths(blueprint).get(name)
        return name if path is None else blueprint.place(path, *index)
    if name == "features":
        return blueprint.place("embedding.features", *index)
    if name == "coefficients":
        _, s, i = index
        return f"readout β, token {i + 1}, power {s + 1}"
    if name == "centre":
        return f"centre of the domain, {blueprint.variables[index[0]]}"
    return "readout bias b" if name == "bias" else name


def _paths(blueprint: Blueprint) -> dict[str, str]:
    """Return the blueprint's path of every tensor of the literal module."""
    paths = [path for path, _ in blueprint.matrices()]
    return {p.replace("embedding.", "").replace("heads.", "attention.heads."): p for p in paths}
