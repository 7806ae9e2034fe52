"""A saved model of any family as a function of the rows of a table.

A row of a polynomial's table is a point. A row of a sequence map's or a coupling's is a sequence: its
numbers token after token.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from exactformer.cli.support.evaluation import as_array
from exactformer.cli.support.options import torch_dtype
from exactformer.core.loading import family_of, load
from exactformer.errors import CertificationError, InputError
from exactformer.polynomials.blueprint import table_names
from exactformer.progress import waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from exactformer.core.certificate import Bound
    from exactformer.core.domain import Domain

OUTSIDE = {
    "polynomials": ("raise", "nan", "allow"),
    "sequences": ("raise", "nan", "zero"),
    "couplings": ("raise", "nan"),
}
"""By family: what can be done with rows outside the domain."""


@dataclass(frozen=True)
class RowFunction:
    """A model that is given batches of rows."""

    model: Any
    family: str
    columns: tuple[str, ...]
    """Names of the numbers of a row."""
    outputs: tuple[str, ...]
    dtype: torch.dtype
    outside: str

    @property
    def unit(self) -> str:
        """What a row is."""
        return "point" if self.family == "polynomials" else "sequence"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the values of one row; of one number it is ``()``."""
        return (len(self.outputs),) if self.outputs != ("value",) else ()

    def __call__(self, rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the values of rows, rounded to the format first, and which rows lie outside.

        Rows outside have the value NaN, zero or whatever the model computes, by ``outside``.
        """
        inputs = torch.from_numpy(rows).to(self.dtype)
        if self.family == "sequences":
            blueprint = self.model.blueprint
            inputs = inputs.reshape(len(rows), blueprint.tokens, blueprint.dim)
        with torch.inference_mode():
            values = as_array(self.model(inputs)).reshape(len(rows), *self.shape)
        off = np.isnan(values).reshape(len(rows), -1).any(axis=1)
        if self.outside == "allow":
            off[:] = False
        values[off] = 0.0 if self.outside == "zero" else np.nan
        return values, off

    def bound(self) -> Bound | None:
        """How far values can be from the target; None where nothing is known."""
        try:
            bound: Bound = self.model.certificate.bound()
            return bound
        except CertificationError:
            return None

    def where(self, row: NDArray[Any]) -> str:
        """Return what lies outside in a row that does, for messages."""
        blueprint = self.model.blueprint
        if self.family == "polynomials":
            domain = blueprint.domain
            return f"the point has {_farthest(domain, self.columns, row)}, outside {domain}"
        is_map = self.family == "sequences"
        low, high = blueprint.support if is_map else blueprint.domain
        j = int(np.argmax(np.maximum(float(low) - row, row - float(high))))
        return f"{self.columns[j]} is {row[j]:.6g}, outside [{low}, {high}{')' if is_map else ']'}"


def open_model(
    file: Path, dtype: str, executor: str | None, outside: str, memory_limit: int
) -> RowFunction:
    """Load a saved model for the rows of a table, proving it anew."""
    family, number_format = family_of(file), torch_dtype(dtype)
    if outside not in OUTSIDE[family]:
        raise InputError(f"--outside {outside}: choose one of {', '.join(OUTSIDE[family])}")
    formats = {} if family == "sequences" else {"dtype": number_format}
    if not formats and number_format != torch.float64:
        raise InputError(f"--dtype {dtype}: sequence models compute in float64")
    # Rows off the domain come back as NaN, which tells on what line they stand.
    marked = "allow" if outside == "allow" else "nan"
    with waiting("Prove", True):
        model: Any = load(
            file, executor=executor, outside=marked, memory_limit=memory_limit, **formats
        )
    columns, outputs = _names(family, model.blueprint)
    return RowFunction(model, family, columns, outputs, number_format, outside)


def _names(family: str, blueprint: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if family == "polynomials":
        values: tuple[str, ...] = ("value",)
        if blueprint.vector:
            numbered = tuple(f"value {k + 1}" for k in range(len(blueprint.readouts)))
            values = table_names(blueprint, "outputs") or numbered
        return table_names(blueprint, "columns") or blueprint.variables, values
    tokens, dim = (blueprint.tau, 1) if family == "couplings" else (blueprint.tokens, blueprint.dim)
    names = [f"token {t + 1}" for t in range(tokens)]
    if dim > 1:
        names = [f"{name}.{k + 1}" for name in names for k in range(dim)]
    return tuple(names), tuple(names)


def _farthest(domain: Domain, variables: Sequence[str], point: NDArray[Any]) -> str:
    """Return what is too large: a distance, or the coordinate farthest off its interval."""
    from exactformer.core.domain import Box

    axes = range(len(variables))
    offsets = point - [float(domain.offset(j)) for j in axes]
    if isinstance(domain, Box):
        j = int(np.argmax(np.abs(offsets) / [float(domain.extent(k)) for k in axes]))
        return f"{variables[j]} = {point[j]:.6g}"
    name = "distance" if any(domain.centre) else "norm"
    return f"{name} {float(np.linalg.norm(offsets)):.6g}"
