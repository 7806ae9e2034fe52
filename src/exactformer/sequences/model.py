"""The module of a sequence map: PyTorch's token order, three stages by name, exact on the grid."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from exactformer.algebra.rational import to_float
from exactformer.core.inputs import as_tensor, converted, is_recording
from exactformer.core.integrity import ProvenModule, remember
from exactformer.core.trace import Trace
from exactformer.errors import ExecutionError, InputError, SizeError
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.files import save_sequence
from exactformer.sequences.grid import GridTable, exact
from exactformer.sequences.proof.certify import SequenceCertificate, fits
from exactformer.sequences.run import fused as sequence_sweeps
from exactformer.sequences.run import literal as sequence_literal
from exactformer.sequences.run.exact import run_sequence
from exactformer.sequences.run.fused import (
    ContextualMapping,
    Quantiser,
    SequenceSweeps,
    ValueMap,
    float_above,
)
from exactformer.sequences.run.literal import LiteralSequence
from exactformer.sequences.sizes import PRECISION

EXECUTORS = ("fused", "literal", "exact")


class SequenceModel(ProvenModule):
    """Sequences ``(batch, n, d)`` to ``(batch, n, d)``, or ``(n, d)`` to ``(n, d)``, in float64.

    ``executor="fused"`` carries out layers of the same kind in one sweep and gives every float the cell
    that exact arithmetic gives it; ``"literal"`` carries out every layer, from the centre of that cell
    (rounding in the quantiser could take a float near an edge for its neighbour); ``"exact"`` does so
    in rational arithmetic. Sequences with a coordinate outside the support are sent to 0.

    The stages are modules of their own: :attr:`quantiser`, :attr:`contextual_mapping` and
    :attr:`value_map`, which the fused model is the composition of.
    """

    FIXED = ("blueprint", "table", "certificate", "executor", "limit")

    def __init__(
        self,
        blueprint: SequenceBlueprint,
        table: GridTable,
        certificate: SequenceCertificate,
        executor: str | None = None,
    ) -> None:
        super().__init__()
        self._build(blueprint, table, executor)
        self._seal(certificate)

    def _build(
        self, blueprint: SequenceBlueprint, table: GridTable, executor: str | None = None
    ) -> None:
        executor = executor or EXECUTORS[0]
        if executor not in EXECUTORS:
            raise InputError(f"executor={executor!r}; choose one of {', '.join(EXECUTORS)}")
        exact_in_float = fits(blueprint.tokens, blueprint.largest_key, PRECISION)
        if executor != "exact" and not exact_in_float:
            raise SizeError(
                f"the keys have {blueprint.key_bits} bits, and those of {blueprint.tokens} tokens "
                f"have to be added up; float64 has {PRECISION}. Use executor='exact', a larger "
                "delta, or another form"
            )
        self.blueprint = blueprint
        self.table = table
        self.executor = executor
        self.sweeps = SequenceSweeps(blueprint) if exact_in_float else None
        self.literal = LiteralSequence(blueprint) if executor == "literal" else None
        self._support = tuple(float_above(end) for end in blueprint.support)

    @property
    def certificate(self) -> SequenceCertificate:
        """What is proven of the model.

        Raises:
            WeightMismatchError: if the module is no longer the one that was proven.
        """
        self.check_unchanged()
        return self._certificate

    @property
    def quantiser(self) -> Quantiser:
        """Coordinates to the numbers of their cells."""
        return self._stages().quantiser

    @property
    def contextual_mapping(self) -> ContextualMapping:
        """Cells to codes: one integer for each token in its context."""
        return self._stages().contextual_mapping

    @property
    def value_map(self) -> ValueMap:
        """Codes to values."""
        return self._stages().value_map

    def forward(self, x: Any) -> Tensor:
        """Evaluate sequences given as tensor, array or nested list."""
        sequences = self._sequences(x)
        if self.executor == "fused":
            values: Tensor = self._stages()(sequences)
            return values
        run = self._in_rationals if self.literal is None else self._through_layers
        inside = (sequences >= self._support[0]) & (sequences < self._support[1])
        return run(sequences).where(inside.all(-1).all(-1)[..., None, None], 0.0)

    def quantise(self, x: Any) -> Tensor:
        """Return the cells of every coordinate, 0 … N − 1; far below 0 for what is outside."""
        cells: Tensor = self.quantiser(self._sequences(x))
        return cells

    def codes(self, x: Any) -> Tensor:
        """Return the code of every token, ``(batch, n)``: integers, in units of a cell."""
        codes: Tensor = self.contextual_mapping(self.quantise(x))
        return codes

    def exact(self, x: Sequence[Sequence[object]]) -> tuple[tuple[Fraction, ...], ...]:
        """Run every layer on one sequence, n tokens of d numbers, in rational arithmetic."""
        tokens = [[exact(v) for v in token] for token in x]
        n, d = self.blueprint.tokens, self.blueprint.dim
        if len(tokens) != n or any(len(token) != d for token in tokens):
            raise InputError(f"a sequence has {n} tokens of {d} numbers")
        low, high = self.blueprint.support
        if any(not low <= v < high for token in tokens for v in token):
            tokens = [[v if low <= v < high else self._elsewhere() for v in t] for t in tokens]
        return tuple(map(tuple, run_sequence(self.blueprint, tokens)))

    def trace(self, x: Any, layers: bool = False) -> Trace:
        """Return the stream, ``(n, w)``, after the embedding and after every stage, by name.

        With ``layers=True`` also after every layer, e.g. ``contextual mapping 3``.
        """
        sequences = self._sequences(x)
        self.check_unchanged()
        if sequences.dim() != 2:
            raise InputError("trace takes one sequence of shape (n, d) at a time")
        seen: dict[str, Tensor] = {}
        last: dict[str, str] = {
            f"{stage.name} {len(stage)}": stage.name for stage in self.blueprint.stages
        }

        def record(name: str, stream: Tensor) -> None:
            if layers or name == "embedding":
                seen[name] = stream[0]
            if name in last:
                seen[last[name]] = stream[0]

        literal = self.literal or LiteralSequence(self.blueprint).to(sequences.device)
        seen["output"] = literal(self._gathered(sequences[None]), record)[0]
        return Trace(seen, self.blueprint.dimensions)

    def save(self, path: str | Path) -> None:
        """Write blueprint and table to one file; :func:`exactformer.load` reads it back.

        Raises:
            WeightMismatchError: if the module is no longer what the blueprint builds.
        """
        self.check_unchanged()
        save_sequence(self.blueprint, self.table, path)

    def extra_repr(self) -> str:
        """Describe the model in ``print(model)``."""
        b = self.blueprint
        text = f"{b.form}: {b.tokens} tokens of dimension {b.dim}, {b.cells} cells a side"
        return text + self._warning()

    @property
    def _certificate(self) -> SequenceCertificate:
        """The certificate, without a look at the weights."""
        certificate: SequenceCertificate = self._record.statement
        return certificate

    def _fresh(self) -> SequenceModel:
        return SequenceModel(self.blueprint, self.table, self._certificate, self.executor)

    def _rebuilt(self) -> SequenceModel:
        fresh, home = self._fresh(), self._home()
        for (
            part
        ) in fresh.children():  # one by one: a model itself takes its weights from the blueprint
            part.to(home)
        return fresh

    def _format(self) -> torch.dtype:
        return self._home().dtype

    def _in_rationals(self, sequences: Tensor) -> Tensor:
        flat = sequences.reshape(-1, *sequences.shape[-2:])
        outputs = [[[to_float(v) for v in c] for c in self.exact(s)] for s in flat.tolist()]
        return torch.tensor(outputs, dtype=sequences.dtype).reshape(sequences.shape)

    def _through_layers(self, sequences: Tensor) -> Tensor:
        assert self.literal is not None
        low, high = self.blueprint.support
        side = (high - low) / self.blueprint.cells
        centres = sequences.new_tensor(
            [to_float(low + side * (q + Fraction(1, 2))) for q in range(self.blueprint.cells)]
        )
        cells = self.quantiser(sequences).long().clamp(0, len(centres) - 1)
        values: Tensor = self.literal(centres[cells])
        return values

    def _stages(self) -> SequenceSweeps:
        if self.sweeps is None:
            raise ExecutionError(
                f"keys of {self.blueprint.key_bits} bits are not exact in float64: such a model has "
                "no stages in floats; use exact(x)"
            )
        return self.sweeps

    def _home(self) -> Tensor:
        """A tensor of the format and on the device that the model computes in."""
        if self.sweeps is None:
            return torch.zeros((), dtype=torch.float64)
        return self.sweeps.quantiser.edges

    def _elsewhere(self) -> Fraction:
        """A number outside the support, at whatever position it is met.

        To the theorem all such numbers are alike. One of them stands for all, so that rounding cannot
        hide how far away another was, nor a position bring it back inside.
        """
        low, high = self.blueprint.support
        return low - self.blueprint.tokens * (high - low)

    def _gathered(self, x: Tensor) -> Tensor:
        low, high = self.quantiser.edges[0], self.quantiser.edges[-1]
        return x.where((x >= low) & (x < high), float(self._elsewhere()))

    def _sequences(self, x: Any) -> Tensor:
        home = self._home()
        if home.dtype != torch.float64:
            raise ExecutionError(f"sequence models compute in float64, not {home.dtype}")
        if is_recording():
            raise ExecutionError(
                "torch.jit.trace would keep what depends on these sequences for all others; trace "
                "model.sweeps or model.literal, which check nothing"
            )
        sequences = as_tensor(x, torch.float64, home.device, "sequences")
        shape = (self.blueprint.tokens, self.blueprint.dim)
        if sequences.dim() < 2 or tuple(sequences.shape[-2:]) != shape:
            raise InputError(
                f"sequences need the shape (batch, {shape[0]}, {shape[1]}): {shape[0]} tokens of "
                f"{shape[1]} numbers; the shape is {tuple(sequences.shape)}"
            )
        sequences = converted(sequences, torch.float64, "sequences").to(home.device)
        if not bool(sequences.isfinite().all()):
            raise InputError("sequences must be finite")
        return sequences


remember(sequence_literal, sequence_sweeps, SequenceModel)
