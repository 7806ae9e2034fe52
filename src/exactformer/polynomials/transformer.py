"""The module that runs a blueprint, and the places of its entries in the blueprint's words."""

from __future__ import annotations

import torch

from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.proof.softmax_symbolic import is_softmax
from exactformer.polynomials.proof.symbolic import run_symbolic
from exactformer.polynomials.run.closed_form import FusedForm, fuse
from exactformer.polynomials.run.closed_form_module import FusedTransformer
from exactformer.polynomials.run.literal import LiteralTransformer
from exactformer.polynomials.run.softmax import SoftmaxTransformer, softmax_weights

Transformer = FusedTransformer | LiteralTransformer | SoftmaxTransformer


def transformer(
    blueprint: Blueprint, executor: str, dtype: torch.dtype, form: FusedForm | None = None
) -> Transformer:
    """Return the module that runs a blueprint; selection must have been proven, or be about to be."""
    if is_softmax(blueprint):
        return SoftmaxTransformer(blueprint, dtype)
    if executor == "literal":
        return LiteralTransformer(blueprint, dtype)
    return FusedTransformer(form or closed_form(blueprint), dtype)


def closed_form(blueprint: Blueprint) -> FusedForm:
    """Read the closed form of a certified blueprint from its weights."""
    return fuse(run_symbolic(blueprint, blueprint.domain))


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
