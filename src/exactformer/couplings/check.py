"""``load`` and ``certify`` for couplings: what a file states is held against its weights."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch

from exactformer.core.integrity import check_against_blueprint
from exactformer.core.options import MEMORY_LIMIT
from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.centring import centred
from exactformer.couplings.compile import doing
from exactformer.couplings.files import load_coupling
from exactformer.couplings.model import CouplingModel
from exactformer.couplings.proof.bound import ErrorTerms, bound_coupling, check_same_tokens
from exactformer.couplings.proof.certificate import CouplingCertificate, certify_terms
from exactformer.couplings.proof.stated import ROOM, check_stated
from exactformer.couplings.target import Coupling
from exactformer.errors import InputError, SizeError
from exactformer.theory import Decomposition, pod


def load_coupling_model(
    path: str | Path,
    *,
    target: Coupling | None = None,
    executor: str | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
    outside: str = "raise",
    memory_limit: int = MEMORY_LIMIT,
) -> CouplingModel:
    """Load a saved model.

    A file holds no functions. Its bound is *stated by the file*, and refused where it contradicts the
    weights. With ``target`` it is computed anew, from these functions and the weights of the file.
    """
    if not dtype.is_floating_point:
        raise InputError(f"dtype={dtype} is not a format of floating-point numbers")
    blueprint = load_coupling(path)
    _check_stored_size(blueprint, memory_limit)
    blueprint, stated = _taken_out(blueprint)
    certificate, target, decomposition = _certified(blueprint, stated, target)
    model = CouplingModel(blueprint, certificate, target, decomposition, executor, dtype, outside)
    return model.placed(device)


def certify_coupling(
    source: CouplingModel | str | Path,
    target: Coupling | None = None,
    *,
    memory_limit: int = MEMORY_LIMIT,
) -> CouplingCertificate:
    """Bound from scratch how far a model or a saved file is from ``target``.

    Without ``target`` that of the model is used. A file holds no functions: what it states is then
    returned as *stated*, and refused where it contradicts the weights.
    """
    if not isinstance(source, CouplingModel):
        return load_coupling_model(source, target=target, memory_limit=memory_limit).certificate
    check_against_blueprint(source)
    target = target or source.target
    stated = source.certificate.terms
    found, _, _ = _certified(source.blueprint, stated, target)
    assert found is not None
    return found


def _certified(
    blueprint: CouplingBlueprint, stated: ErrorTerms | None, target: Coupling | None
) -> tuple[CouplingCertificate | None, Coupling | None, Decomposition | None]:
    """Return what is known of weights, from functions where they are given, else as stated."""
    if target is None:
        if stated is None:
            return None, None, None
        check_stated(stated, blueprint)
        return certify_terms(blueprint, stated), None, None
    if not isinstance(target, Coupling):
        raise InputError(f"target= takes an exactformer.targets.Coupling, not {type(target)}")
    check_same_tokens(blueprint, target)
    with doing("computing the bound"):
        terms, target, decomposition = _bound_anew(blueprint, target, stated)
    return certify_terms(blueprint, terms, target), target, decomposition


def _taken_out(blueprint: CouplingBlueprint) -> tuple[CouplingBlueprint, ErrorTerms | None]:
    """Return a blueprint without what its file states of the error, and that."""
    metadata = dict(blueprint.metadata)
    stored = metadata.pop("bound", None)
    stated = None if stored is None else ErrorTerms.of_dict(json.loads(stored))
    return replace(blueprint, metadata=metadata), stated


def _bound_anew(
    blueprint: CouplingBlueprint, target: Coupling, stated: ErrorTerms | None
) -> tuple[ErrorTerms, Coupling, Decomposition]:
    """Return the bound of given weights, and ρ and its decomposition that gave it.

    ρ and the centred ρ are the same map of sequences, and bounds for either hold. Weights made for one
    are far from the other's: where ρ as given does not come to what is stated, both are tried.
    """

    def bounded(way: Coupling) -> tuple[ErrorTerms, Coupling, Decomposition]:
        decomposition = pod(way.rho, way.intervals, measure="probability")
        return bound_coupling(blueprint, way, decomposition, turned=True), way, decomposition

    plain = bounded(target)
    if stated is not None and plain[0].total <= stated.total * (1 + ROOM):
        return plain
    return min(plain, bounded(centred(target)), key=lambda way: way[0].total)


def _check_stored_size(blueprint: CouplingBlueprint, memory_limit: int) -> None:
    """Refuse a model whose tables, or the scores of one sequence, would not fit."""
    tables = 8 * (blueprint.features.values.size + blueprint.outer.values.size)
    for name, size in (
        ("the values at knots", tables),
        (f"the scores of tau = {blueprint.tau:,} tokens", 8 * blueprint.tau**2),
    ):
        if size > memory_limit:
            raise SizeError(
                f"{name} take {size / 2**30:,.1f} GiB; the limit is {memory_limit / 2**30:.1f} GiB. "
                "If this is your own model, raise memory_limit="
            )
