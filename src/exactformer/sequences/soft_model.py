"""Sequence models of ordinary parts: softmax and ReLUs, as sharp as a tolerance asks for.

The tolerance is on d_p between the softened model and its hard limit, which is exact on the grid. It is
shared out: half of its p-th power to the ramps of the quantiser, half to leakage, after a quarter has
been kept for rounding.

* ramps: width 2^(−k) of a cell, k the smallest with (1 − (1 − 2^(−k))^(nd))^(1/p)·span ≤ its share;
* leakage: the smallest λ by the recursion of :mod:`exactformer.sequences.proof.leakage`, raised
  to where float64 no longer tells softmax from the hard maximum on integers, since sharpness is free.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil, inf, isfinite, log, log2
from typing import NoReturn, Self

from torch import Tensor

from exactformer.core.integrity import remember
from exactformer.core.layers import FeedForward
from exactformer.core.options import choose
from exactformer.core.precision import plain_torch
from exactformer.core.upper import float_above
from exactformer.core.words import at_most
from exactformer.errors import CertificationError, ExecutionError, InputError, SizeError
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.constructions.softening import cell, soften
from exactformer.sequences.floats import check_floats
from exactformer.sequences.grid import GridTable
from exactformer.sequences.model import SequenceModel
from exactformer.sequences.proof.certify import SequenceCertificate, certify_softened
from exactformer.sequences.proof.error import soft_parts, stated_error
from exactformer.sequences.proof.leakage import PRECISION, Leakage
from exactformer.sequences.proof.relu_rounding import is_exact, quantiser_rounding
from exactformer.sequences.proof.softness import (
    ALLOWED,
    Softness,
    float_bits,
    literal_rounding,
    narrowest_ramp,
    output_spans,
    reject_margin,
    temperature,
    without_relus,
)
from exactformer.sequences.run.literal import LiteralSequence
from exactformer.sequences.shapes import check_sequence_shapes

SOFT_EXECUTORS = ("fused", "literal")
DEFAULT_RAMP = 20
MOST_LAYERS = 20_000
"""Layers that are run one after another; more would take minutes for a batch."""
LITERAL_ROUNDING = 1e-6
"""What cancelling ReLUs may lose where no tolerance is given."""


class SoftSequenceModel(SequenceModel):
    """A sequence model whose layers are softmax attention and ReLUs.

    ``executor="fused"`` (default) evaluates every group of ReLUs as the continuous piecewise-linear
    function it is; ``"literal"`` evaluates each ReLU. :meth:`quantise`, :meth:`codes` and the three
    stages are those of :attr:`limit`, the hard model that this one approaches.
    """

    @plain_torch()
    def __init__(
        self,
        blueprint: SequenceBlueprint,
        limit: SequenceBlueprint,
        table: GridTable,
        certificate: SequenceCertificate,
        executor: str | None = None,
        outside: str = "raise",
    ) -> None:
        super(SequenceModel, self).__init__()
        executor = executor or "fused"
        choose("executor", executor, SOFT_EXECUTORS)
        self.outside = outside
        self._build(limit, table, "fused")
        self.limit = limit
        self.blueprint = blueprint
        self.executor = executor
        layers = blueprint if executor == "literal" else without_relus(blueprint, limit)
        self.literal = LiteralSequence(layers)
        self._seal(certificate)

    def exact(self, x: object) -> NoReturn:
        """Raise: softmax is not rational, so that there is nothing exact to run.

        Raises:
            ExecutionError: always.
        """
        raise ExecutionError(
            "softmax is not rational, so a softened model does not run in exact arithmetic; the hard "
            "model that it was softened from does"
        )

    def _hard(self) -> SequenceBlueprint:
        return replace(self.limit, metadata=self.blueprint.metadata)

    def _run(self, sequences: Tensor) -> Tensor:
        assert self.literal is not None
        values: Tensor = self.literal(self._gathered(sequences))
        return values

    def _fresh(
        self,
        blueprint: SequenceBlueprint | None = None,
        certificate: SequenceCertificate | None = None,
    ) -> Self:
        return type(self)(
            blueprint or self.blueprint,
            self.limit,
            self.table,
            certificate or self._certificate,
            self.executor,
            self.outside,
        )


remember(SoftSequenceModel)


def soften_model(
    limit: SequenceBlueprint,
    table: GridTable,
    sharpness: Fraction | float | None = None,
    ramp: int | None = None,
    tolerance: float | None = None,
    p: float = 2,
    executor: str | None = None,
    outside: str = "raise",
) -> SoftSequenceModel:
    """Soften a hard blueprint, prove the result against it, and return its module."""
    if not 1 <= p < inf:
        raise InputError(f"p={p} must be at least 1, and finite")
    check_soft_size(sum(len(stage) for stage in limit.stages), limit.key_bits, limit.tokens)
    if tolerance is not None and not (isfinite(tolerance) and tolerance > 0):
        raise InputError(f"tolerance={tolerance!r} must be a positive number")
    chosen_ramp = _ramp(table, tolerance, p) if ramp is None else ramp
    if not isinstance(chosen_ramp, int) or isinstance(chosen_ramp, bool) or chosen_ramp < 2:
        raise InputError(
            f"ramp={ramp!r} must be an integer, at least 2: widths are 2^(-ramp) cells"
        )
    chosen = _sharpness(limit, tolerance, p) if sharpness is None else _number(sharpness)
    _check_ramp(limit, chosen_ramp)
    soft = soften(limit, table, chosen, chosen_ramp)
    return prove_softened(soft, limit, table, executor, tolerance, p, outside)


def prove_softened(
    soft: SequenceBlueprint,
    limit: SequenceBlueprint,
    table: GridTable,
    executor: str | None = None,
    tolerance: float | None = None,
    p: float = 2,
    outside: str = "raise",
) -> SoftSequenceModel:
    """Return the module of a softened blueprint with its certificate; raise what is not proven."""
    if executor == "exact":
        raise InputError("executor='exact' is for hard models: softmax is not rational")
    check_sequence_shapes(limit)
    depth = sum(len(stage) for stage in limit.stages)
    check_soft_size(depth, limit.key_bits, limit.tokens)
    certificate = certify_softened(soft, limit, table)
    width = narrowest_ramp(soft, limit)
    if width is not None:
        _check_ramp(limit, log2(1 / width))
    if executor == "literal":
        certificate = _literally(soft, limit, table, certificate, width, tolerance, p)
    model = SoftSequenceModel(soft, limit, table, certificate, executor, outside)
    check_floats(model)
    return model


def check_soft_size(depth: int, key_bits: int, tokens: int) -> None:
    """Refuse what float64 or patience does not allow, with the figures."""
    if depth > MOST_LAYERS:
        raise SizeError(
            f"the softened model has {depth:,} layers to be run one after another, and the limit is "
            f"{MOST_LAYERS:,}; use a larger delta, form='four-layer', or the hard model"
        )
    bits = float_bits(key_bits, tokens)
    if bits > PRECISION:
        raise SizeError(
            f"keys of {key_bits} bits need {bits} with the fractions that ramps read, and "
            f"float64 has {PRECISION}; use a larger delta, form='four-layer', or the hard model"
        )


def _check_ramp(limit: SequenceBlueprint, ramp: float) -> None:
    finest = PRECISION - 3 - (limit.cells * limit.tokens).bit_length()
    if ramp > finest:
        raise SizeError(
            f"ramps of 2^-{ramp:.4g} of a cell are narrower than float64 resolves here (2^-{finest}); "
            "use a smaller ramp or a larger tolerance"
        )


def _ramp(table: GridTable, tolerance: float | None, p: float) -> int:
    if tolerance is None:
        return DEFAULT_RAMP
    grid = table.grid
    span = (grid.tokens * sum(s**p for s in output_spans(table))) ** (1 / p)
    if span == 0:
        return 2
    allowed = (_share(tolerance, p) / span) ** p
    return max(2, ceil(-log(min(allowed, 0.5) / (grid.tokens * grid.dim), 2)))


def _sharpness(limit: SequenceBlueprint, tolerance: float | None, p: float) -> Fraction:
    """Return an integer λ that meets the tolerance and that float64 cannot tell from ∞."""
    leakage, unit = Leakage.of(limit), float(cell(limit))
    allowed = ALLOWED
    if limit.form == "paper":
        allowed = min(allowed, reject_margin(limit))
        if tolerance is not None:
            share = _share(tolerance, p) / limit.tokens ** (1 / p)
            allowed = min(allowed, share / unit)
    needed = leakage.sharpness_for(allowed)
    if needed == inf:
        raise SizeError(
            f"codes can not be kept within {allowed:.2g} of a cell in float64: keys have "
            f"{limit.key_bits} bits, and delta = {limit.delta} is no binary number; use "
            "form='compact', or delta = 1/2^m"
        )
    return Fraction(ceil(max(needed, leakage.float_exact()) / unit**2))


def _share(tolerance: float, p: float) -> float:
    return 0.75 * tolerance / 2 ** (1 / p)


def _number(sharpness: Fraction | float) -> Fraction:
    try:
        value = Fraction(sharpness)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"sharpness={sharpness!r} must be a positive number") from None
    if value <= 0:
        raise InputError(f"sharpness={sharpness!r} must be a positive number")
    return value


def _literally(
    soft: SequenceBlueprint,
    limit: SequenceBlueprint,
    table: GridTable,
    certificate: SequenceCertificate,
    width: Fraction | None,
    tolerance: float | None,
    p: float,
) -> SequenceCertificate:
    """Return what holds of a softened blueprint whose ReLUs are evaluated one by one in float64.

    Where rounding moves coordinates, ramps reach farther by as much.
    """
    softness = certificate.softness
    assert softness is not None
    ramp = 2 if width is None else max(2, (1 / width).numerator.bit_length() - 1)
    if soft.stages != soften(limit, table, 1 / temperature(soft, limit), ramp).stages:
        raise CertificationError(
            "executor='literal' is proven for the ReLUs of the construction only: others may be so "
            "large that nothing is left in float64 when they cancel; use executor='fused', which "
            "evaluates the same function without them"
        )
    rounded = _rounded(soft, limit, softness)
    found = literal_rounding(soft) * (soft.tokens * soft.dim) ** (1 / p)
    allowed = LITERAL_ROUNDING
    if tolerance is not None:
        before, after = (soft_parts(s, soft.tokens, p)[0] for s in (softness, rounded))
        found, allowed = found + after - before, tolerance / 4
    if found > allowed:
        raise SizeError(
            f"ReLUs as large as a key of {soft.key_bits} bits cancel in every value layer: in float64 "
            f"the output may be off by {at_most(found, 2)}, and {allowed:.2g} is allowed; use "
            "executor='fused', which evaluates the same function without them"
        )
    error = stated_error(soft, table, rounded)
    return replace(certificate, softness=rounded, error=error)


def _rounded(soft: SequenceBlueprint, limit: SequenceBlueprint, softness: Softness) -> Softness:
    """Return what is known where the quantiser's ReLUs are rounded; raise where cells are lost."""
    if is_exact(soft):
        return softness
    low, high = soft.support
    moved = quantiser_rounding(soft, low, high)
    first = soft.stages[0].parts[0]
    in_turn = isinstance(first, FeedForward) and first.successive is not None
    away = low - soft.tokens * (high - low)
    lost = quantiser_rounding(soft, away, away) if in_turn else moved
    allowed = reject_margin(limit) if in_turn else softness.clearance
    if lost + Fraction(softness.code_error or 0) > allowed:
        raise SizeError(
            f"ReLUs of the quantiser cancel: in float64 the number of a cell may be off by "
            f"{at_most(float(lost), 2)}, and {allowed:.2g} is allowed; use a smaller ramp, or "
            "executor='fused', which evaluates the same function without them"
        )
    if not in_turn:
        return softness
    mass = Fraction(softness.ramp_mass) + 2 * soft.tokens * soft.dim * moved
    return replace(softness, ramp_mass=min(1.0, float_above(mass)))
