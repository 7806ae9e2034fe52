"""Places in the module of a polynomial, in the words of its blueprint."""

from __future__ import annotations

import torch

from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.proof.softmax_symbolic import is_softmax
from exactformer.polynomials.run.softmax import softmax_weights


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
