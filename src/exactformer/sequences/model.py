"""The module of a sequence map: PyTorch's token order, three stages by name, exact on the grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from exactformer.algebra.rational import to_float
from exactformer.core.certificate import Measured
from exactformer.core.inputs import as_tensor, check_values, converted, is_recording
from exactformer.core.integrity import remember
from exactformer.core.model import CertifiedModel, Trace
from exactformer.core.options import choose
from exactformer.core.precision import plain_torch
from exactformer.core.upper import float_above
from exactformer.errors import ExecutionError, InputError, OutsideDomainError, SizeError
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.files import save_sequence, sequence_digest
from exactformer.sequences.grid import GridTable, exact
from exactformer.sequences.proof.certify import SequenceCertificate, fits
from exactformer.sequences.proof.error import Modulus, sample_of, state, stated_error
from exactformer.sequences.run import fused as sequence_sweeps
from exactformer.sequences.run import literal as sequence_literal
from exactformer.sequences.run.exact import run_sequence
from exactformer.sequences.run.fused import (
    ContextualMapping,
    Quantiser,
    SequenceSweeps,
    ValueMap,
)
from exactformer.sequences.run.literal import LiteralSequence
from exactformer.sequences.sizes import PRECISION

if TYPE_CHECKING:
    from exactformer.sequences.soft_model import SoftSequenceModel
    from exactformer.sequences.tabulate import SequenceMap

EXECUTORS = ("fused", "literal", "exact")
OUTSIDE = ("raise", "nan", "zero")


def check_outside(outside: str) -> None:
    """Raise unless this is something that can be done with sequences outside the support."""
    if outside == "allow":
        raise InputError(
            "outside='allow' has no meaning for sequence maps, whose layers know the grid only; the "
            "theorem's value outside the support is 0, outside='zero'"
        )
    choose("outside", outside, OUTSIDE)


class SequenceModel(CertifiedModel[SequenceCertificate]):
    """Sequences ``(batch, n, d)`` to ``(batch, n, d)``, or ``(n, d)`` to ``(n, d)``, in float64.

    ``executor="fused"`` carries out layers of the same kind in one sweep and gives every float the cell
    that exact arithmetic gives it; ``"literal"`` carries out every layer, from the centre of that cell
    (rounding in the quantiser could take a float near an edge for its neighbour); ``"exact"`` does so
    in rational arithmetic.

    Sequences with a coordinate outside the support raise; ``outside="nan"`` marks them, and
    ``outside="zero"`` sends them to 0, the theorem's value.

    Where a processor is set to take numbers below 2^(−1022) for zero (``torch.set_flush_denormal``), it
    takes such a coordinate for 0 before it is given a cell.

    The stages are modules of their own: :attr:`quantiser`, :attr:`contextual_mapping` and
    :attr:`value_map`, which the fused model is the composition of.
    """

    FIXED = ("blueprint", "table", "certificate", "executor", "limit")

    @plain_torch()
    def __init__(
        self,
        blueprint: SequenceBlueprint,
        table: GridTable,
        certificate: SequenceCertificate,
        executor: str | None = None,
        outside: str = "raise",
    ) -> None:
        super().__init__()
        self.outside = outside
        self._build(blueprint, table, executor)
        self._seal(certificate)

    def _build(
        self, blueprint: SequenceBlueprint, table: GridTable, executor: str | None = None
    ) -> None:
        executor = executor or EXECUTORS[0]
        choose("executor", executor, EXECUTORS)
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
    def outside(self) -> str:
        """What is done with sequences outside the support: ``"raise"``, ``"nan"`` or ``"zero"``."""
        return self._outside

    @outside.setter
    def outside(self, outside: str) -> None:
        check_outside(outside)
        self._outside = outside

    @property
    def target(self) -> GridTable:
        """The table that the model reproduces: the values of its map on every class of the grid."""
        return self.table

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
        inside = self._inside(sequences)
        values = self._run(sequences)
        missing = torch.nan if self.outside == "nan" else 0.0
        return values.where(inside[..., None, None], missing)

    def softened(
        self,
        tolerance: float | None = None,
        *,
        sharpness: Fraction | float | None = None,
        ramp: int | None = None,
        p: float = 2,
        executor: str | None = None,
    ) -> SoftSequenceModel:
        """Return the model of softmax attention and ReLUs that approaches this one.

        A model that is softened already is softened anew, from its hard limit.

        Args:
            tolerance: how far it may be from the hard model in d_p.
            sharpness: λ, the inverse temperature of the softmax, in place of one from the tolerance.
            ramp: k for ramps of the quantiser that are 2^(−k) of a cell wide, likewise.
            p: the exponent of d_p, at least 1.
            executor: ``"fused"`` (default) or ``"literal"``, which evaluates every ReLU.

        Raises:
            ExactformerError: if the tolerance cannot be met in float64, or anything is not proven.
        """
        from exactformer.sequences.soft_model import soften_model

        self.check_unchanged()
        soft = soften_model(
            self._hard(), self.table, sharpness, ramp, tolerance, p, executor, self.outside
        )
        return soft.to(self._home().device)

    def bounded(
        self,
        modulus: Modulus | str,
        *,
        p: float = 2,
        largest: float | None = None,
        target: SequenceMap | None = None,
    ) -> Self:
        """Return this model with a bound on d_p between it and its map in its certificate.

        The bound is proven for the modulus, which is taken as it is given; saving keeps both.

        Args:
            modulus: a number L with ‖f(X) − f(Y)‖_p ≤ L‖X − Y‖_p for the map f; or ω, which must not
                fall, with ω(‖X − Y‖_p); or ``"estimate"``, from samples of ``target``.
            p: the exponent of d_p, at least 1.
            largest: a bound on ‖f(X)‖_p where it is known; else it follows from table and modulus.
            target: f itself, of (tokens, dim) arrays. A form that sends equal tokens to 0 is then
                charged what f is there, and not the most that it could be.
        """
        from exactformer.sequences.measure import equal_column_norm, estimate_modulus

        certificate, grid = self.certificate, self.table.grid
        sample, estimated = sample_of(self.blueprint), modulus == "estimate"
        if estimated:
            if target is None:
                raise InputError("modulus='estimate' needs target=, a function to estimate it from")
            modulus = estimate_modulus(target, grid, p, sample)
        if isinstance(modulus, str):
            raise InputError(f"modulus={modulus!r}: give a number, a function, or 'estimate'")
        equal = None if target is None else equal_column_norm(target, grid, p, sample)
        stated = state(self.table, modulus, p, largest, sample, estimated, equal)
        kept = {k: v for k, v in self.blueprint.metadata.items() if not k.startswith("modulus")}
        blueprint = replace(self.blueprint, metadata={**kept, **stated.to_metadata()})
        error = stated_error(blueprint, self.table, certificate.softness)
        digest = sequence_digest(blueprint, self.table)
        return self._fresh(
            blueprint, replace(certificate, error=error, blueprint_digest=digest)
        ).to(self._home().device)

    @plain_torch()
    def measure(
        self,
        target: SequenceMap | None = None,
        *,
        samples: int = 10_000,
        seed: int = 0,
        p: float = 2,
    ) -> Measured:
        """Measure d_p to a map, to another model, or to its own table, on random inputs.

        Args:
            target: takes a (tokens, dim) array and returns one; or another sequence model; or None
                for the table, constant on every cell.
            samples: how many inputs are drawn, uniformly from the support's cube.
            seed: of the draw.
            p: the exponent, at least 1.

        >>> import exactformer as ef
        >>> f = lambda X: X - X.mean(axis=0)
        >>> model = ef.compile_sequence(f, tokens=2, dim=1, delta="1/8")
        >>> error = model.measure(f, samples=4000)
        >>> abs(error.value - (1 / 8) / 12**0.5) < 3 * error.standard_error
        True
        """
        from exactformer.sequences.measure import measure_distance

        return measure_distance(self, target, samples, seed, p)

    def quantise(self, x: Any) -> Tensor:
        """Return the cells of every coordinate, 0 … N − 1; far below 0 for what is outside."""
        cells: Tensor = self.quantiser(self._sequences(x))
        return cells

    def codes(self, x: Any) -> Tensor:
        """Return the code of every token, ``(batch, n)``: integers, in units of a cell."""
        codes: Tensor = self.contextual_mapping(self.quantise(x))
        return codes

    def exact(self, x: Sequence[Sequence[object]]) -> tuple[tuple[Fraction, ...], ...]:
        """Run every layer on one sequence, n tokens of d numbers, in rational arithmetic.

        Raises:
            OutsideDomainError: for a number outside the support, unless ``outside="zero"``.
        """
        n, d = self.blueprint.tokens, self.blueprint.dim
        try:
            tokens = [[exact(v) for v in token] for token in x]
        except (TypeError, RuntimeError) as error:  # what has no rows says, or no values
            raise InputError(f"a sequence has {n} tokens of {d} numbers: {error}") from None
        if len(tokens) != n or any(len(token) != d for token in tokens):
            raise InputError(f"a sequence has {n} tokens of {d} numbers")
        low, high = self.blueprint.support
        if self.outside != "zero" and any(not low <= v < high for token in tokens for v in token):
            raise self._outside_error()
        return self._exactly(tokens)

    @plain_torch()
    def trace(self, x: Any, layers: bool = False) -> Trace:
        """Return the stream, ``(n, w)``, after the embedding and after every stage, by name.

        With ``layers=True`` also after every layer, e.g. ``contextual mapping 3``.
        """
        sequences = self._sequences(x)
        self.check_unchanged()
        if sequences.dim() != 2:
            raise InputError("trace takes one sequence of shape (n, d) at a time")
        self._inside(sequences)
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
        low, high = b.support
        positions = " with positions" if b.positional else ""
        text = (
            f"{b.form}, {b.realisation}: {b.tokens} tokens of dimension {b.dim} in [{low}, {high})"
            f"{positions}, {b.cells} cells per side; executor={self.executor!r}"
        )
        return text + self._warning()

    def _fresh(
        self,
        blueprint: SequenceBlueprint | None = None,
        certificate: SequenceCertificate | None = None,
    ) -> Self:
        """Build the model afresh, or another one that differs in what is stated of its map."""
        return type(self)(
            blueprint or self.blueprint,
            self.table,
            certificate or self._certificate,
            self.executor,
            self.outside,
        )

    def _hard(self) -> SequenceBlueprint:
        """Return the blueprint that a softened model approaches."""
        hard: SequenceBlueprint = self.blueprint
        return hard

    def _rebuilt(self) -> Self:
        fresh, home = self._fresh(), self._home()
        for part in fresh.children():  # a model itself takes its weights from the blueprint
            part.to(home)
        return fresh

    def _format(self) -> torch.dtype:
        return self._home().dtype

    def _run(self, sequences: Tensor) -> Tensor:
        if self.executor == "fused":
            values: Tensor = self._stages()(sequences)
            return values
        return (self._in_rationals if self.literal is None else self._through_layers)(sequences)

    def _exactly(self, tokens: list[list[Fraction]]) -> tuple[tuple[Fraction, ...], ...]:
        low, high = self.blueprint.support
        away = self._outside_value()
        tokens = [[v if low <= v < high else away for v in token] for token in tokens]
        return tuple(map(tuple, run_sequence(self.blueprint, tokens)))

    def _in_rationals(self, sequences: Tensor) -> Tensor:
        flat = sequences.reshape(-1, *sequences.shape[-2:]).tolist()
        runs = (self._exactly([[exact(v) for v in token] for token in s]) for s in flat)
        outputs = [[[to_float(v) for v in token] for token in run] for run in runs]
        return sequences.new_tensor(outputs).reshape(sequences.shape)

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
            return torch.zeros((), dtype=torch.float64, device="cpu")
        return self.sweeps.quantiser.edges

    def _outside_value(self) -> Fraction:
        """A number outside the support, at whatever position it is met.

        To the theorem all such numbers are alike. One of them stands for all, so that rounding cannot
        hide how far away another was, nor a position bring it back inside.
        """
        low, high = self.blueprint.support
        return Fraction(low - self.blueprint.tokens * (high - low))

    def _gathered(self, x: Tensor) -> Tensor:
        return x.where(self._within(x), float(self._outside_value()))

    def _within(self, x: Tensor) -> Tensor:
        """Return which coordinates lie in the support."""
        return (x >= self._support[0]) & (x < self._support[1])

    def _inside(self, sequences: Tensor) -> Tensor:
        """Return which sequences lie in the support; raise where one does not, by ``outside``."""
        inside = self._within(sequences).all(-1).all(-1)
        if self.outside == "raise" and not bool(inside.all()):
            raise self._outside_error(int((~inside).sum()), inside.numel())
        return inside

    def _outside_error(self, count: int = 1, of: int = 1) -> OutsideDomainError:
        low, high = self.blueprint.support
        return OutsideDomainError(
            f"{count} of {of} sequences have a coordinate outside the support [{low}, {high}), which "
            "the table does not cover; compile for a larger support, or with outside='zero' (the "
            "theorem's value) or 'nan'"
        )

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
        check_values(sequences, "sequences")
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
