"""The compiled model: a ``torch.nn.Module`` that knows its blueprint and its certificate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from exactformer.blueprint import Ball, Blueprint
from exactformer.blueprint.storing import save_blueprint
from exactformer.certificates import Certificate
from exactformer.errors import ExecutionError, InputError, OutsideDomainError
from exactformer.execution.fused import FusedTransformer
from exactformer.execution.fusing import GROUP, FusedForm, fuse
from exactformer.execution.literal import LiteralTransformer
from exactformer.execution.softmax_module import SoftmaxTransformer
from exactformer.execution.softmax_run import is_softmax

OUTSIDE = ("raise", "nan", "allow")
_INSIDE = 1 + 2.0**-33  # half the slack of the proofs: room for rounding in the norm itself
_CHUNK_BYTES = 8 * 2**20
# Of one group of tokens: in a core's cache, and just below the size from which torch splits an
# operation over threads, whose waiting for each other costs more than it saves.
_CHUNK_ENTRIES = 2**15 - 1


def fused_form(blueprint: Blueprint) -> FusedForm:
    """Return the closed form of a certified blueprint."""
    from exactformer.execution.symbolic import run_symbolic

    return fuse(run_symbolic(blueprint, blueprint.domain))


class CompiledModel(nn.Module):
    """Points ``(..., d)`` to values, within the certified bound of the exact polynomial.

    Values are ``(...)`` for one polynomial, ``(..., m)`` for a vector of m.

    ``executor="fused"`` evaluates the proven closed form of the transformer, ``"literal"`` carries
    out every matrix of it; :meth:`trace` always does.

    Points outside the domain raise, because nothing is proven there; ``outside="nan"`` marks them,
    ``outside="allow"`` computes without any check of the input.
    """

    def __init__(
        self,
        blueprint: Blueprint,
        certificate: Certificate,
        dtype: torch.dtype = torch.float64,
        outside: str = "raise",
        executor: str | None = None,
    ) -> None:
        super().__init__()
        executor = executor or certificate.executors[0]
        certificate.check_executor(executor)
        if outside not in OUTSIDE:
            raise InputError(f"outside={outside!r}; choose one of {', '.join(OUTSIDE)}")
        self.blueprint = blueprint
        self.certificate = certificate
        self.outside = outside
        self.executor = executor
        self.transformer: FusedTransformer | LiteralTransformer | SoftmaxTransformer
        if is_softmax(blueprint):
            self.transformer = SoftmaxTransformer(blueprint, dtype)
        elif executor == "literal":
            self.transformer = LiteralTransformer(blueprint, dtype)
        else:
            self.transformer = FusedTransformer(fused_form(blueprint), dtype)

    @property
    def dtype(self) -> torch.dtype:
        """The float format the model computes in."""
        return self.transformer.features.dtype

    @property
    def target(self) -> str:
        """The polynomial, as text; several between semicolons."""
        return self.certificate.target

    def forward(self, x: Any) -> Tensor:
        """Evaluate at points given as tensor, array or nested list, coordinates last."""
        points = self._points(x)
        flat = points.reshape(points.shape[:-1].numel(), points.shape[-1])
        inside = self._check(flat)
        pieces = [self.transformer(piece) for piece in torch.split(flat, self._chunk())]
        last = (len(self.blueprint.readouts),) if self.blueprint.vector else ()
        values = torch.cat(pieces) if pieces else flat.new_empty(0, *last)
        if inside is not None:
            values = values.where(inside.reshape(len(flat), *(1 for _ in last)), torch.nan)
        return values.reshape((*points.shape[:-1], *last))

    def trace(self, x: Any) -> Trace:
        """Return every residual stream, score matrix and selection at one point, by name."""
        points = self._points(x)
        if points.dim() != 1:
            raise InputError(f"trace takes one point of {points.shape[-1]} coordinates at a time")
        self._check(points[None])
        seen: dict[str, Tensor] = {}
        literal = LiteralTransformer(self.blueprint, self.dtype).to(points.device)
        literal(points[None], record=lambda name, t: seen.__setitem__(name, t[0]))
        return Trace(seen, self.blueprint.dimensions)

    def save(self, path: str | Path) -> None:
        """Write blueprint and target to one file; :func:`exactformer.load` reads it back."""
        save_blueprint(self.blueprint, path)

    def extra_repr(self) -> str:
        """Describe the model in ``print(model)``."""
        b = self.blueprint
        return f"{b.construction}: {b.tokens} tokens, {b.depth} blocks, {b.domain}"

    def __getstate__(self) -> dict[str, Any]:
        raise ExecutionError(
            "models are not pickled; use model.save(path) and exactformer.load(path)"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledModel:
        copy = CompiledModel(
            self.blueprint, self.certificate, self.dtype, self.outside, self.executor
        )
        copy.to(self.transformer.features.device)
        copy.load_state_dict(self.state_dict())
        memo[id(self)] = copy
        return copy

    def _points(self, x: Any) -> Tensor:
        expected = self.transformer.features
        points = x if isinstance(x, Tensor) else _as_tensor(x, self.dtype, expected.device)
        d = expected.shape[1]
        if points.dim() == 0 or points.shape[-1] != d:
            names = ", ".join(self.blueprint.variables)
            raise InputError(
                f"points need {d} coordinates ({names}) on the last axis; "
                f"the shape is {tuple(points.shape)}"
            )
        if points.is_complex() or points.dtype == torch.bool:
            raise InputError(f"points must be real numbers, not {points.dtype}")
        rounded = points.to(self.dtype)
        if _narrows(points.dtype, self.dtype) and not torch.equal(
            rounded.to(points.dtype).nan_to_num(), points.nan_to_num()
        ):
            raise InputError(
                f"points are {points.dtype}, the model computes in {self.dtype}: rounding them is "
                "not covered by the certificate; convert them, or compile with that dtype"
            )
        return rounded

    def _check(self, points: Tensor) -> Tensor | None:
        """Raise, or return which points are inside, by ``outside``."""
        self.certificate.bound(self.dtype, self.executor)  # raises after .to(dtype) without a bound
        if self.dtype == torch.float32 and not _is_full_precision():
            raise ExecutionError(
                "float32 matrix products are set to reduced precision, which the certificate does "
                "not cover; call torch.set_float32_matmul_precision('highest')"
            )
        if self.outside == "allow":
            return None
        known = points.detach().double()
        if not bool(known.isfinite().all()):
            row = int((~known.isfinite()).any(dim=-1).nonzero()[0])
            raise InputError(f"point {row} is not finite: {known[row].tolist()}")
        norms = _distances(known, self.blueprint)
        inside: Tensor = norms <= _INSIDE
        if self.outside == "nan":
            return inside
        if not bool(inside.all()):
            row, count = int(norms.argmax()), int((~inside).sum())
            raise OutsideDomainError(
                f"{count} of {len(points)} points lie outside {self.blueprint.domain}, where nothing "
                f"is proven; the farthest is point {row}, {float(norms[row]):.6g} times as far from "
                "the centre as the boundary. Compile for a larger domain, or with outside='nan' or "
                "'allow'"
            )
        return None

    def _chunk(self) -> int:
        tokens, width = self.blueprint.tokens, self.blueprint.width
        if self.executor == "fused":
            return max(1, _CHUNK_ENTRIES // min(tokens, GROUP))
        heads = 1
        if is_softmax(self.blueprint):  # all heads of a block at once
            heads = max(len(block.attention.heads) for block in self.blueprint.blocks)
        per_point = heads * tokens * (tokens + 4 * width) * self.dtype.itemsize
        return max(1, _CHUNK_BYTES // per_point)


def _distances(points: Tensor, blueprint: Blueprint) -> Tensor:
    """Return how far points are from the centre; 1 is the boundary of the domain."""
    domain, d = blueprint.domain, points.shape[-1]
    centre = points.new_tensor([float(domain.offset(j)) for j in range(d)])
    extent = points.new_tensor([float(domain.extent(j)) for j in range(d)])
    order = 2 if isinstance(domain, Ball) else float("inf")
    offsets = (points - centre) / extent
    return (
        torch.linalg.vector_norm(offsets, ord=order, dim=-1) if d else points.new_zeros(len(points))
    )


def _as_tensor(x: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Arrays keep their type; numbers in lists are read as the nearest of the model's format."""
    try:
        if hasattr(x, "__array__"):
            return torch.as_tensor(np.asarray(x), device=device)
        return torch.as_tensor(np.asarray(x, dtype=np.float64), device=device).to(dtype)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"points must be numbers: {error}") from None


def _is_full_precision() -> bool:
    try:
        return torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # torch refuses to answer once its backends have been set one by one
        return False


def _narrows(source: torch.dtype, target: torch.dtype) -> bool:
    if not source.is_floating_point:
        return True
    return torch.finfo(source).eps < torch.finfo(target).eps


class Trace(Mapping[str, Tensor]):
    """What happened at one point: tensors by name, in order."""

    def __init__(self, seen: dict[str, Tensor], dimensions: tuple[str, ...]) -> None:
        self._seen = seen
        self.dimensions = dimensions
        """Names of the columns of every residual stream."""

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._seen:
            raise InputError(f"the trace has no {name!r}; it has {', '.join(self._seen)}")
        return self._seen[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, name: object) -> bool:
        return name in self._seen

    def __str__(self) -> str:
        return "\n".join(f"{name:<28} {tuple(tensor.shape)}" for name, tensor in self.items())
