"""``load`` and ``certify``: proofs of a file or a model, whatever it says of itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from exactformer.algebra import Target
from exactformer.core.integrity import check_against_blueprint
from exactformer.core.options import MEMORY_LIMIT
from exactformer.errors import (
    AlteredFileError,
    CertificationError,
    ExactformerError,
    FileFormatError,
    WeightMismatchError,
)
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.compile import local_forms
from exactformer.polynomials.constructions import APPROXIMATIONS, construct
from exactformer.polynomials.constructions.tanh_extrapolation import Extrapolation
from exactformer.polynomials.files import load_blueprint
from exactformer.polynomials.model import PolynomialModel, proven_model
from exactformer.polynomials.proof.certificate import PolynomialCertificate
from exactformer.polynomials.proof.certify import certify_blueprint, prove
from exactformer.polynomials.sizes import check_size, check_stored_size, chosen_executor

_SHOWN = 3


def load(
    path: str | Path,
    *,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
    executor: str | None = None,
    outside: str = "raise",
    memory_limit: int = MEMORY_LIMIT,
) -> PolynomialModel:
    """Load a saved model, proving it anew against the polynomial its file names."""
    blueprint = load_blueprint(path)
    target = _own_target(blueprint, path)
    check_size(target, blueprint.tokens, dtype.itemsize, memory_limit)
    executor = chosen_executor(blueprint, executor)
    by_matrices = executor == "literal"
    check_stored_size(blueprint, target, memory_limit, dtype.itemsize if by_matrices else 0)
    proof = prove(blueprint, target)
    return proven_model(blueprint, proof, dtype, device, executor, outside)


def certify(
    source: PolynomialModel | str | Path,
    target: Any = None,
    *,
    variables: Sequence[str] | None = None,
    memory_limit: int = MEMORY_LIMIT,
) -> PolynomialCertificate:
    """Prove from scratch that a model or a saved file computes ``target``; raise if it does not.

    ``target`` is a polynomial in any form that ``compile`` reads exactly; without it, the one that the
    model names is used. A target in fewer variables is read over the model's own. When the proof fails,
    the weights that differ from a fresh construction are named.

    A model is compared with one built afresh from its blueprint: classes, weights, attributes, methods
    and hooks. Functions of torch, or of this package, that were exchanged in the running program cannot
    be seen from the module and are not covered.
    """
    if isinstance(source, PolynomialModel):
        blueprint, altered = source.blueprint, False
        check_against_blueprint(source)
    else:
        blueprint, altered = _read_for_proof(source)
    if target is None:
        polynomial = _own_target(blueprint, source)
    else:
        polynomial = Target.coerce(target, variables or blueprint.variables)
    check_size(polynomial, blueprint.tokens, torch.float64.itemsize, memory_limit)
    check_stored_size(blueprint, polynomial, memory_limit)
    try:
        certificate = certify_blueprint(blueprint, polynomial)
    except CertificationError as error:
        places = _explain(blueprint)
        raise type(error)(f"{error}{places}") from None
    if isinstance(source, PolynomialModel) and source.certificate != replace(
        certificate, target=source.target
    ):
        raise WeightMismatchError(
            "the certificate that the model carries is not that of its blueprint; compile it anew"
        )
    if altered:
        raise WeightMismatchError(
            f"{source} was altered after it was saved{_explain(blueprint)}. What it holds now still "
            "passes every proof; save it again to accept it"
        )
    return certificate


def _read_for_proof(path: str | Path) -> tuple[Blueprint, bool]:
    """Return the blueprint, and whether its digests failed; certification decides if that matters."""
    try:
        return load_blueprint(path), False
    except AlteredFileError:
        return load_blueprint(path, verify=False), True


def _own_target(blueprint: Blueprint, source: object) -> Target:
    if "target" not in blueprint.metadata:
        raise FileFormatError(f"{source} names no target; give the polynomial to certify against")
    return Target.coerce(blueprint.metadata["target"], blueprint.variables)


def _explain(blueprint: Blueprint) -> str:
    """Name the weights in which a blueprint differs from a fresh construction of its own target."""
    try:
        target, domain = _own_target(blueprint, "the model"), blueprint.domain
        forms = local_forms(target, domain, blueprint.metadata.get("directions", "auto"))
        options = {}
        if blueprint.construction in APPROXIMATIONS:
            options["extrapolation"] = Extrapolation.from_metadata(blueprint.metadata)
        fresh = construct(blueprint.construction, forms, domain, target, **options)
    except ExactformerError:
        return ""
    places = list(_differences(blueprint, fresh))
    if not places:
        return ""
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return f"; altered: {'; '.join(places[:_SHOWN])}{more}"


def _differences(blueprint: Blueprint, fresh: Blueprint) -> Iterator[str]:
    for (path, here), (_, there) in zip(blueprint.matrices(), fresh.matrices(), strict=False):
        if here.shape != there.shape:
            yield f"{path} has shape {here.shape}, not {there.shape}"
            continue
        for i, j in sorted(here.entries.keys() | there.entries.keys()):
            if here[i, j] != there[i, j]:
                yield (
                    f"{blueprint.place(path, i, j)} is {float(here[i, j]):.12g}, "
                    f"the construction has {float(there[i, j]):.12g}"
                )
