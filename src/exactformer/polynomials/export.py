"""A model in other formats: ONNX, plain arrays, a program of ``torch.export``.

Exports embed the certificate's claims (target, domain, bound), so a model whose weights differ from its
blueprint is refused. A file cannot raise for a point outside the domain, and returns NaN instead;
``outside="allow"`` exports no check at all. Arrays never check: they are numbers, not a program.
"""

from __future__ import annotations

import json
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
import torch

from exactformer.core.formats import float_format
from exactformer.core.onnx_graph import LARGEST_ONNX, check_onnx
from exactformer.errors import SizeError
from exactformer.polynomials.model import BOUNDARY_SLACK, PolynomialModel
from exactformer.polynomials.proof.certify import Proof
from exactformer.polynomials.run.literal import dense_bytes
from exactformer.polynomials.run.numpy_weights import (
    AnyArray,
    fused_arrays,
    literal_arrays,
    numpy_dtype,
)
from exactformer.polynomials.transformer import closed_form
from exactformer.version import __version__

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def about(model: PolynomialModel, executor: str) -> dict[str, str]:
    """Return what an export says of itself."""
    certificate = model.certificate
    return {
        "target": model.target,
        "variables": ", ".join(model.blueprint.variables),
        "domain": str(model.blueprint.domain),
        "bound": repr(float(certificate.bound(model.dtype, executor))),
        "dtype": float_format(model.dtype).name,
        "executor": executor,
        "construction": model.blueprint.construction,
        "blueprint_digest": certificate.blueprint_digest,
        "version": __version__,
    }


def arrays(model: PolynomialModel, executor: str | None = None) -> dict[str, AnyArray]:
    """Return the weights of one executor by name, and the words about them as arrays of text."""
    executor = executor or model.executor
    words = {name: np.array(text) for name, text in about(model, executor).items()}
    words["bound"] = words["bound"].astype(np.float64)
    return _weights(model, executor) | words


def npz_file(model: PolynomialModel, executor: str | None = None) -> bytes:
    """Return :func:`arrays` as an ``.npz`` file, which is read without pickle."""
    file = BytesIO()
    np.savez(file, allow_pickle=False, **arrays(model, executor))
    return file.getvalue()


def onnx_file(model: PolynomialModel, executor: str | None = None) -> bytes:
    """Return an ``.onnx`` file that onnxruntime runs on any batch, within the bound it names."""
    check_onnx()
    from exactformer.polynomials.onnx import fused_graph, literal_graph, onnx_model

    executor, dtype = executor or model.executor, numpy_dtype(model.dtype)
    words = about(model, executor) | {"outside": _outside(model)}
    if executor == "literal":
        _check_size(model)
    weights = _weights(model, executor)
    if executor == "literal":
        graph, values = literal_graph(model.blueprint, weights)
    else:
        graph, values = fused_graph(weights, dtype)
    inside = None if model.outside == "allow" else BOUNDARY_SLACK
    file: bytes = onnx_model(graph, values, model.blueprint, words, inside).SerializeToString()
    return file


def pt2_file(model: PolynomialModel, executor: str | None = None) -> bytes:
    """Return a ``.pt2`` file for :func:`torch.export.load`, with the words in ``exactformer.json``."""
    executor = executor or model.executor
    words = about(model, executor) | {"outside": _outside(model)}
    if executor != model.executor:
        proof = Proof(model.certificate)
        model = PolynomialModel(model.blueprint, proof, model.dtype, model.outside, executor)
    file = BytesIO()
    torch.export.save(program(model), file, extra_files={"exactformer.json": json.dumps(words)})
    return file.getvalue()


def program(model: PolynomialModel) -> ExportedProgram:
    """Return the model as ``torch.export`` sees it, for points (batch, d)."""
    d, like = len(model.blueprint.variables), next(model.parameters())
    example = torch.zeros(2, d, dtype=model.dtype, device=like.device)
    batch = torch.export.Dim("batch")
    return torch.export.export(model, (example,), dynamic_shapes=({0: batch},))


FORMATS = {"onnx": (".onnx", onnx_file), "numpy": (".npz", npz_file), "torch": (".pt2", pt2_file)}
"""By name: the ending of a file and what makes its contents."""


def _outside(model: PolynomialModel) -> str:
    return "allow" if model.outside == "allow" else "nan"


def _weights(model: PolynomialModel, executor: str) -> dict[str, AnyArray]:
    model.check_unchanged()
    if executor == "literal":
        return literal_arrays(model.blueprint, model.dtype)
    return fused_arrays(closed_form(model.blueprint), model.dtype)


def _check_size(model: PolynomialModel) -> None:
    size, n = dense_bytes(model.blueprint, model.dtype), model.blueprint.tokens
    if size > LARGEST_ONNX:
        raise SizeError(
            f"the literal transformer has n = {n:,} tokens and {size / 2**30:.1f} GiB of matrices; an "
            f"ONNX file holds less than {(LARGEST_ONNX + 1) / 2**30:.0f} GiB. Use executor='fused', "
            "the same function in closed form"
        )
