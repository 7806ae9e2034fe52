"""The weights of a model as NumPy arrays, each entry the exact one rounded once.

A fused form is five arrays: with t = F·(x − centre) the model is

    bias + Σ_i Σ_s coefficients[s − 1, …, i] B_s(t_i),     B_s(t) = t^s or T_s(t) as ``basis`` says,

the dots being an axis for the outputs where they form a vector. A literal transformer is every matrix
of its blueprint by path, with what its layers do beside the matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from exactformer.core.formats import float_format
from exactformer.errors import InputError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.run.closed_form import FusedForm
from exactformer.polynomials.run.closed_form_module import fused_weights
from exactformer.polynomials.run.literal import rounded_weights

AnyArray = NDArray[Any]


def fused_arrays(form: FusedForm, dtype: torch.dtype) -> dict[str, AnyArray]:
    """Return ``features``, ``centre``, ``coefficients``, ``bias`` and ``basis``.

    Numbers of the half formats come as float32, for arithmetic in float32.
    """
    wide = torch.promote_types(dtype, torch.float32)
    weights = {name: w.to(wide).numpy() for name, w in fused_weights(form, dtype).items()}
    features, bias = weights["features"], weights["bias"]
    coefficients = np.ascontiguousarray(weights["coefficients"].swapaxes(0, 1))
    return {
        "features": features,
        "centre": weights.get("centre", np.zeros(features.shape[1], features.dtype)),
        "coefficients": coefficients if form.vector else coefficients[:, 0],
        "bias": bias if form.vector else bias[0],
        "basis": np.array(form.basis.value),
    }


def literal_arrays(blueprint: Blueprint, dtype: torch.dtype) -> dict[str, AnyArray]:
    """Return every matrix by path, the feature's column, and each block's rule and activation."""
    numpy_dtype(dtype)
    arrays = {path: tensor.numpy() for path, tensor in rounded_weights(blueprint, dtype).items()}
    arrays["embedding.dimension"] = np.array(blueprint.embedding.dimension)
    for b, block in enumerate(blueprint.blocks):
        selection = block.attention.selection
        arrays[f"blocks.{b}.selection"] = np.array(selection.rule.value)
        arrays[f"blocks.{b}.temperature"] = np.array(float(selection.temperature))
        arrays[f"blocks.{b}.activation"] = np.array(block.feed_forward.activation.name)
    return arrays


def numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    """Return NumPy's name of a float format."""
    name = float_format(dtype).name
    if name == "bfloat16":
        raise InputError(
            "neither NumPy nor onnxruntime computes in bfloat16; export a model of dtype float64, "
            "float32 or float16"
        )
    return np.dtype(name)
