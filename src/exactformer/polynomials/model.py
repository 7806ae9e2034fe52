"""The compiled model: a ``torch.nn.Module`` with its blueprint and its certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import inf, isfinite, prod
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from exactformer.algebra.printing import name_list
from exactformer.algebra.rational import to_float, to_fmpq, to_fraction
from exactformer.core.certificate import Measured
from exactformer.core.domain import Ball, Domain
from exactformer.core.formats import float_format
from exactformer.core.inputs import (
    as_tensor,
    by_name,
    check_values,
    converted,
    coordinates,
    has_values,
    is_exporting,
    is_recording,
    narrows,
    with_coordinates,
)
from exactformer.core.integrity import Difference, remember
from exactformer.core.model import CertifiedModel, Trace
from exactformer.core.onnx_graph import check_onnx_name
from exactformer.core.precision import check_products, full_precision, plain_torch
from exactformer.core.whole_files import write_bytes
from exactformer.core.words import plural
from exactformer.errors import (
    CertificationError,
    ExecutionError,
    InputError,
    OutsideDomainError,
)
from exactformer.polynomials.blueprint import Blueprint, named_as, table_names
from exactformer.polynomials.files import save_blueprint
from exactformer.polynomials.functions.report import Approximation
from exactformer.polynomials.proof.certificate import PolynomialCertificate, shortened
from exactformer.polynomials.proof.certify import Proof
from exactformer.polynomials.proof.softmax_symbolic import is_softmax
from exactformer.polynomials.run import closed_form_module as fused
from exactformer.polynomials.run import literal
from exactformer.polynomials.run import softmax as softmax_module
from exactformer.polynomials.run.literal import LiteralTransformer
from exactformer.polynomials.sizes import chosen_executor
from exactformer.polynomials.transformer import place_in_module, transformer

BOUNDARY_SLACK = 1 + 2.0**-33  # half the slack of the proofs: room for rounding in the norm itself
_PIECE_BYTES = 8 * 2**20  # of what the literal module keeps
_ENTRIES = 2**15 - 1
"""Tokens times points of a fused piece on the CPU: they stay in the cache, and steps in one thread."""
_ENTRIES_ELSEWHERE = 2**26
_CHECKED = 2**13  # points at a time


class PolynomialModel(CertifiedModel[PolynomialCertificate]):
    """Points ``(..., d)`` to values, within the certified bound of the exact polynomial.

    Values are ``(...)`` for one polynomial, ``(..., m)`` for a vector of m. A model of one variable
    takes a number, too, and a row of n ≠ 1 numbers for n points; an array of shape (1,) is one point,
    as for any d.

    ``executor="literal"`` carries out every matrix of the transformer, as :meth:`trace` always does;
    ``"fused"`` evaluates its proven closed form.

    Points outside the domain raise, because nothing is proven there; ``outside="nan"`` marks them,
    ``outside="allow"`` computes without any check of the input.

    Weights may be trained after ``requires_grad_()``. Such a model still runs, but whatever would speak
    of the certificate then raises :class:`~exactformer.errors.WeightMismatchError`.
    """

    FIXED = ("blueprint", "executor", "certificate")
    blueprint: Blueprint

    @plain_torch()
    def __init__(
        self,
        blueprint: Blueprint,
        proof: Proof,
        dtype: torch.dtype = torch.float64,
        outside: str = "raise",
        executor: str | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(proof, Proof):
            raise InputError(
                "a model is built from a proof; give Proof(certificate) in place of a certificate"
            )
        executor = chosen_executor(blueprint, executor)
        proof.certificate.check_executor(executor)
        self.outside = outside
        self.blueprint = blueprint
        self.executor = executor
        self._surface = _surface(blueprint)
        self.transformer = transformer(blueprint, executor, dtype, proof.form)
        self._seal(proof.certificate)

    def _note(self, **words: str) -> None:
        """Keep words about how text was read, or the model chosen, with its certificate.

        They prove nothing.
        """
        statement = replace(self._certificate, **words)  # type: ignore[arg-type]
        vars(self)["_record"] = replace(self._record, statement=statement)

    @property
    def target(self) -> str:
        """The polynomial that was compiled, as text; several between semicolons."""
        return self._certificate.target

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables' names, in the order of a point's coordinates."""
        return self.blueprint.variables

    @property
    def columns(self) -> tuple[str, ...]:
        """What the table that a law was learned from calls the variables; their names elsewhere."""
        return table_names(self.blueprint, "columns") or self.variables

    @property
    def outputs(self) -> tuple[str, ...]:
        """What that table calls the values; empty where they have no names."""
        return table_names(self.blueprint, "outputs")

    @property
    def approximation(self) -> Approximation | None:
        """For a compiled function, how far this model is from it: measured, or partly bounded.

        It was measured in one format and executor. In another one, the error that the polynomial was
        measured to have is raised by the bound on rounding there.
        """
        found = Approximation.of(self.blueprint.metadata)
        if found is None:
            return None
        name = float_format(self.dtype).name
        try:
            bound = float(self._certificate.bound(name, self.executor))
        except CertificationError:
            bound = inf
        return found.on(name, self.executor, bound)

    def forward(self, x: Any) -> Tensor:
        """Evaluate at points given as tensor, array or nested list, coordinates last.

        With one variable, a number or a row of numbers will do. The columns of a DataFrame are matched
        with the variables by name.
        """
        if self.outside == "raise" and is_recording():
            raise self._no_values_error()
        points = self._points(x)
        if self._is_symbolic(points):
            return self._evaluate_unchecked(points)
        flat = points.reshape(points.shape[:-1].numel(), points.shape[-1])
        self._check_format()
        try:
            with full_precision(points.device):  # the test of the domain needs it as well
                pieces = self._in_pieces(flat)
        except _OutsideError:
            raise self._outside_error(flat) from None
        values = torch.cat(pieces) if len(pieces) > 1 else pieces[0]
        return values.reshape((*points.shape[:-1], *values.shape[1:]))

    @plain_torch()
    def trace(self, x: Any) -> Trace:
        """Return every residual stream, score matrix and selection at one point, by name."""
        points = converted(self._points(x), self.dtype, "points")
        check_values(points, "points")
        if points.dim() != 1:
            raise InputError(f"trace takes one point of {points.shape[-1]} coordinates at a time")
        self._check_format()
        self.check_unchanged()
        try:
            with full_precision(points.device):
                self._check(points[None])
        except _OutsideError:
            raise self._outside_error(points[None]) from None
        seen: dict[str, Tensor] = {}
        literal = LiteralTransformer(self.blueprint, self.dtype).to(points.device)
        literal(points[None], record=lambda name, t: seen.__setitem__(name, t[0]))
        return Trace(seen, self.blueprint.dimensions)

    def exact(self, x: Any) -> Fraction | tuple[Fraction, ...]:
        """Run every matrix at one point in rational arithmetic.

        Coordinates are integers, fractions, decimals or floats, which count as the binary numbers they
        are. What comes out is the target's value, without any rounding.
        """
        from exactformer.polynomials.run.exact import run_exact

        if is_softmax(self.blueprint):
            raise ExecutionError("softmax is not rational: there is nothing exact to run")
        point = [to_fraction(to_fmpq(c)) for c in coordinates(self._in_order(x))]
        if len(point) == len(self.blueprint.variables) and self.outside != "allow":
            self._check_exactly(point)
        return run_exact(self.blueprint, point)

    @plain_torch()
    def measure(self, target: Any = None, *, samples: int = 2048, seed: int = 0) -> Measured:
        """Measure the mean error on random points of the domain.

        Args:
            target: a polynomial, a vector of them, or a function; its own by default.
            samples: how many points are drawn, uniformly.
            seed: of the draw.
        """
        from exactformer.polynomials.measure import measure

        return measure(self, target, samples, seed)

    def save(self, path: str | Path) -> None:
        """Write blueprint and target to one file; :func:`exactformer.load` reads it back.

        Raises:
            WeightMismatchError: if the weights are no longer the blueprint's.
        """
        self.check_unchanged()
        save_blueprint(self.blueprint, path)

    def named(self, columns: Sequence[str], outputs: Sequence[str] = ()) -> PolynomialModel:
        """Return the same model with a table's names of the variables and values, as its file keeps.

        >>> import exactformer as ef
        >>> ef.compile("m v^2").named(["mass (kg)", "speed (m/s)"]).columns
        ('mass (kg)', 'speed (m/s)')
        """
        self.check_unchanged()
        blueprint = named_as(self.blueprint, columns, outputs)
        proof = Proof(self._certificate)
        fresh = PolynomialModel(blueprint, proof, self.dtype, self.outside, self.executor)
        return fresh.to(self.transformer.features.device)

    @plain_torch()
    def to_onnx(self, path: str | Path, executor: str | None = None) -> None:
        """Write an ONNX file that runs on any batch, within ``certificate.bound(…)``.

        Points outside the domain are answered with NaN unless the model has ``outside="allow"``.
        """
        from exactformer.polynomials.export import onnx_file

        check_onnx_name(path)
        write_bytes(onnx_file(self, executor), path)

    @plain_torch()
    def to_numpy(self, executor: str | None = None) -> dict[str, NDArray[Any]]:
        """Return the weights as plain arrays: every matrix by its path, or the closed form."""
        from exactformer.polynomials.export import arrays

        return arrays(self, executor)

    def extra_repr(self) -> str:
        """Describe the model in ``print(model)``."""
        b = self.blueprint
        way = "every matrix" if self.executor == "literal" else "its proven closed form"
        lines = [
            f"{shortened(self.target)}",
            f"variables {name_list(self.variables) or 'none'}; on {b.domain}",
            *([f"columns {name_list(self.columns)}"] if self.columns != self.variables else []),
            f"{b.construction}: {plural(b.tokens, 'token')}, {plural(b.depth, 'block')}, "
            f"run as {way} ({self.executor})",
        ]
        if self.approximation is not None:
            lines.insert(0, str(self.approximation))
        return "\n".join(lines) + self._warning()

    def __copy__(self) -> PolynomialModel:
        twin = self.__new__(type(self))
        twin.__dict__ = self.__dict__.copy()
        return twin

    def _rebuilt(self) -> PolynomialModel:
        proof = Proof(self._certificate)  # no form: it is read anew, from the weights
        fresh = PolynomialModel(self.blueprint, proof, self.dtype, self.outside, self.executor)
        return fresh.to(self.transformer.features.device)

    def _format(self) -> torch.dtype:
        return self.transformer.features.dtype

    def _in_words(self, difference: Difference) -> str:
        if difference.tensor is None:
            return difference.problem
        name = difference.tensor.removeprefix("transformer.")
        place = place_in_module(self.blueprint, self.executor, name, difference.entry)
        return f"{difference.tensor if place == name else place}: {difference.problem}"

    def _is_symbolic(self, points: Tensor) -> bool:
        """Whether points are symbolic (traced, vectorised, meta), so that no check of data can run.

        ``torch.compile`` breaks the graph at such a check. ``torch.export`` fails there, and
        ``torch.jit.trace`` would keep the outcome for these points as the outcome for all.
        """
        if torch.compiler.is_compiling():
            return self.outside != "raise" or is_exporting()
        if is_recording():
            return True
        return not has_values(points)

    def _evaluate_unchecked(self, points: Tensor) -> Tensor:
        """Evaluate without a branch on the data; NaN where the model would raise or mark."""
        if self.outside == "raise" and not is_exporting():
            raise self._no_values_error()
        self._check_format()
        flat = points.reshape(prod(points.shape[:-1]), points.shape[-1])
        with full_precision(points.device):
            values: Tensor = self.transformer(flat)
            if self.outside != "allow":
                inside = self._distances(flat.detach().double()) <= BOUNDARY_SLACK
                inside = inside[:, None] if self.blueprint.vector else inside
                values = values.where(inside, torch.nan)
        return values.reshape((*points.shape[:-1], *values.shape[1:]))

    def _no_values_error(self) -> ExecutionError:
        return ExecutionError(
            "these points have no values to check: they are vectorised, traced by torch.jit, or on "
            "the meta device; compile with outside='nan' or 'allow'"
        )

    def _points(self, x: Any) -> Tensor:
        expected = self.transformer.features
        dtype = expected.dtype
        x = self._in_order(x)
        if isinstance(x, list | tuple) and not x and self.variables:
            raise InputError("points must be numbers: the list is empty")
        points = with_coordinates(as_tensor(x, dtype, expected.device, "points"), self.variables)
        if self.executor == "fused" and not narrows(points.dtype, dtype):
            return points  # read as they are: a narrower format is exact in the wider one
        return converted(points, dtype, "points")

    def _in_order(self, x: Any) -> Any:
        return by_name(x, self.variables, table_names(self.blueprint, "columns"))

    def _check_format(self) -> None:
        dtype = self.dtype
        self._certificate.guaranteed(
            dtype, self.executor
        )  # raises after .to(dtype) without a bound
        if self.executor == "fused" and dtype.itemsize < 4:  # never computes below float32
            dtype = torch.float32
        check_products(dtype)

    def _in_pieces(self, points: Tensor) -> list[Tensor]:
        """Evaluate a few points at a time, which keeps memory constant."""
        tokens, width, heads = self.blueprint.tokens, self.blueprint.width, 1
        if self.executor == "fused":
            most = _ENTRIES if points.device.type == "cpu" else _ENTRIES_ELSEWHERE
            size = max(1, most // tokens)
        else:
            if is_softmax(self.blueprint):  # all heads of a block at once
                heads = max(len(block.attention.heads) for block in self.blueprint.blocks)
            per_point = heads * tokens * (tokens + 4 * width) * self.dtype.itemsize
            size = max(1, _PIECE_BYTES // per_point)
        pieces = [points] if len(points) <= size else torch.split(points, size)
        return [self._evaluate(piece) for piece in pieces]

    def _evaluate(self, points: Tensor) -> Tensor:
        """Check and evaluate some of the points."""
        inside = self._check(points)
        values: Tensor = self.transformer(points)
        if inside is None:
            return values
        return values.where(inside.reshape(len(points), *(1 for _ in values.shape[1:])), torch.nan)

    def _check(self, points: Tensor) -> Tensor | None:
        """Raise, or return which points are inside, by ``outside``; None is all of them."""
        if self.outside == "allow" or _clearly_inside(points.detach(), self.blueprint.domain):
            return None
        known = points.detach().double()
        inside = self._distances(known) <= BOUNDARY_SLACK
        if not bool(known.isfinite().all()) or (self.outside == "raise" and not bool(inside.all())):
            raise _OutsideError
        return inside if self.outside == "nan" else None

    def _check_exactly(self, point: Sequence[Fraction]) -> None:
        domain = self.blueprint.domain
        away = [(x - domain.offset(j)) / domain.extent(j) for j, x in enumerate(point)]
        ball = isinstance(domain, Ball)
        distance = sum(a * a for a in away) if ball else max(map(abs, away), default=0)
        if distance > 1:
            raise OutsideDomainError(
                f"the point lies outside {domain}, where nothing is proven; compile for a larger "
                "domain, or with outside='allow'"
            )

    def _distances(self, points: Tensor) -> Tensor:
        """Return how far points are from the centre; 1 is the boundary of the domain."""
        if not self._surface:
            return points.new_zeros(len(points))
        nearest, rest, extent = points.new_tensor(self._surface)
        order = 2 if isinstance(self.blueprint.domain, Ball) else float("inf")
        away = (points - nearest - rest) / extent
        distances: Tensor = torch.linalg.vector_norm(away, ord=order, dim=-1)
        return distances

    def _outside_error(self, points: Tensor) -> InputError:
        """Return the error for points that are not all inside."""
        known = points.detach().double()
        if not bool(known.isfinite().all()):
            row = int((~known.isfinite()).any(dim=-1).nonzero()[0])
            return InputError(f"point {row} is not finite: {known[row].tolist()}")
        norms = self._distances(known)
        row, count = int(norms.argmax()), int((norms > BOUNDARY_SLACK).sum())
        return OutsideDomainError(
            f"{count} of {len(points)} points lie outside {self.blueprint.domain}, where nothing "
            f"is proven; the farthest is point {row}, {float(norms[row]):.6g} times as far from "
            "the centre as the boundary. Compile for a larger domain, or with outside='nan' or "
            "'allow'"
        )


def proven_model(
    blueprint: Blueprint,
    proof: Proof,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
    executor: str | None = None,
    outside: str = "raise",
) -> PolynomialModel:
    """Return the model of a proven blueprint.

    Raises:
        RoundingError: if the format admits no bound.
    """
    model = PolynomialModel(blueprint, proof, dtype, outside, executor)
    proof.certificate.bound(dtype, model.executor)
    return model.placed(device)


class _OutsideError(Exception):
    """Some point of a piece is not in the domain."""


def _clearly_inside(points: Tensor, domain: Domain) -> bool:
    """Whether all points are in a ball round the origin, and not so near its boundary that rounding
    could hide it: a quick test that may fail for points that are inside.
    """
    if not isinstance(domain, Ball) or any(domain.centre) or not 2**-30 < domain.radius < 2**30:
        return False
    wide = torch.promote_types(points.dtype, torch.float32)
    d = points.shape[-1]
    ones = points.new_ones(d, dtype=wide)
    limit = float(domain.radius) ** 2 * (1 - 4 * (d + 2) * torch.finfo(wide).eps)
    known = points.to(wide)
    for part in torch.split(known, _CHECKED) if len(known) > _CHECKED else (known,):
        if len(part) and not bool(((part * part) @ ones).max() <= limit):
            return False
    return True


def _surface(blueprint: Blueprint) -> list[list[float]]:
    """Return the centre of a domain, what rounding takes from it, and the largest |x_j − c_j|.

    A domain may be small beside its centre; subtracting both parts loses nothing of x − c.
    """
    domain, axes = blueprint.domain, range(len(blueprint.variables))
    nearest = [to_float(domain.offset(j)) for j in axes]
    if not all(map(isfinite, nearest)):
        raise InputError(
            "the centre of the domain is beyond float64, whose numbers are below 2^1024"
        )
    rest = [to_float(domain.offset(j) - Fraction(nearest[j])) for j in axes]
    return [nearest, rest, [to_float(domain.extent(j)) for j in axes]] if nearest else []


remember(fused, literal, softmax_module, PolynomialModel)
