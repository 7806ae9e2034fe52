"""The module of a coupling: one attention layer between two feed-forward networks, with its bound."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from exactformer.core.inputs import as_tensor, check_values, converted, is_recording
from exactformer.core.integrity import differences, remember
from exactformer.core.model import CertifiedModel, Trace
from exactformer.core.options import check_draw, choose
from exactformer.core.precision import check_products, plain_torch
from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.files import save_coupling
from exactformer.couplings.measure import Floats, Function, MeasuredCoupling, measure_error
from exactformer.couplings.proof.certificate import EXECUTORS, CouplingCertificate
from exactformer.couplings.proof.rounding import check_format
from exactformer.couplings.run import fused as coupling_fused
from exactformer.couplings.run import kuhn_tables as coupling_kuhn
from exactformer.couplings.run import literal as coupling_literal
from exactformer.couplings.run import tables as coupling_table
from exactformer.couplings.run.fused import FusedCoupling
from exactformer.couplings.run.literal import LiteralCoupling
from exactformer.couplings.target import Coupling
from exactformer.errors import (
    ExecutionError,
    InputError,
    OutsideDomainError,
    WeightMismatchError,
)
from exactformer.theory import Decomposition

SAMPLES = 2048
_PIECE_NUMBERS = 2**24  # that a literal module keeps at a time


class CouplingModel(CertifiedModel[CouplingCertificate]):
    """Sequences ``(..., τ)`` to ``(..., τ)``.

    ``executor="fused"`` reads the feed-forward networks from tables, ``"literal"`` carries out every
    matrix of equation (5). Weights are parameters: a model may be trained on, and then has no bound.

    Products of reduced precision, which the bound does not cover, are refused; train
    :attr:`network`, which promises nothing, where they are wanted.
    """

    FIXED = ("blueprint", "_target", "decomposition", "executor")
    blueprint: CouplingBlueprint

    @plain_torch()
    def __init__(
        self,
        blueprint: CouplingBlueprint,
        certificate: CouplingCertificate | None = None,
        target: Coupling | None = None,
        decomposition: Decomposition | None = None,
        executor: str | None = None,
        dtype: torch.dtype = torch.float64,
        outside: str = "raise",
    ) -> None:
        super().__init__()
        executor = executor or EXECUTORS[0]
        choose("executor", executor, EXECUTORS)
        check_format(blueprint, dtype, executor)
        self.outside = outside
        self.blueprint = blueprint
        self._target = target
        self.decomposition = decomposition
        self.executor = executor
        self.network = _network(blueprint, executor, dtype)
        self._seal(certificate)

    @property
    def certificate(self) -> CouplingCertificate:
        """How far the model can be from its target, in its number format and as it is run.

        Raises:
            WeightMismatchError: if the weights were trained, now or before they were saved.
        """
        if self.is_trained():
            raise WeightMismatchError(
                "the weights have been trained: the bound was that of the constructed ones; "
                "measure() says how good these are"
            )
        if self._record.statement is None:
            raise WeightMismatchError("these weights were trained before they were saved: no bound")
        return super().certificate

    @property
    def target(self) -> Coupling | None:
        """The coupling that was compiled; None for a file, which holds no functions."""
        return self._target

    def forward(self, x: Any) -> Tensor:
        """Evaluate sequences given as tensor, array or nested list, of numbers of the domain."""
        sequences = self._sequences(x)
        inside = self._inside(sequences)
        output: Tensor = self.network(sequences)
        return output if inside is None else output.where(inside, torch.nan)

    def attention(self, x: Any) -> Tensor:
        """Return the attention matrices, ``(..., τ, τ)``, one row a query."""
        sequences = self._sequences(x)
        inside, weights = self._inside(sequences), self.network.attention(sequences)
        return weights if inside is None else weights.where(inside[..., None], torch.nan)

    def trace(self, x: Any) -> Trace:
        """Return the stream ĥ, scores, attention, what it averages, and outputs of one sequence."""
        sequences = self._sequences(x)
        if sequences.dim() != 1:
            raise InputError(f"trace takes one sequence of {self.blueprint.tau} numbers at a time")
        self._inside(sequences)
        seen: dict[str, Tensor] = {}
        with torch.no_grad():
            seen["output"] = self.network(sequences, record=seen.__setitem__)
        return Trace(seen, self.blueprint.dimensions)

    def exact(self, x: Any) -> Any:
        """Softmax is not rational: there is nothing exact to run."""
        raise ExecutionError("softmax is not rational: a coupling's model has nothing exact to run")

    @plain_torch()
    def measure(
        self, target: Coupling | None = None, *, samples: int = SAMPLES, seed: int = 0
    ) -> MeasuredCoupling:
        """Measure the distance to the target, and its parts, on random inputs.

        A loaded model knows no target: give one. Parts need the decomposition of the construction.
        """
        target = target or self.target
        if target is None:
            raise InputError("a file holds no functions: give the target, measure(target)")
        if not isinstance(target, Coupling):
            raise InputError(f"the target is an exactformer.targets.Coupling, not {type(target)}")
        check_draw(samples, seed)
        low, high = (float(end) for end in self.blueprint.domain)
        if target.tau != self.blueprint.tau or tuple(target.domain) != (low, high):
            raise InputError(
                f"the target has {target.tau} tokens of {target.domain}, the model "
                f"{self.blueprint.tau} of {(low, high)}"
            )
        home = self._home()
        check_products(home.dtype)
        drawn = torch.as_tensor(target.sample(samples, seed)).to(home.dtype)
        x = drawn.double().clamp(low, high).numpy()

        def run(network: nn.Module, points: Floats) -> Floats:
            with torch.no_grad():
                inputs = torch.as_tensor(points).to(_home(network))
                return np.asarray(network(inputs).double().cpu())

        way: dict[str, Function] = {"target": lambda points: np.asarray(target(points))}
        known = target is self.target and self.decomposition is not None
        known = known and self._difference() is None
        if known and self.decomposition is not None:
            cut = target.with_kernel(self.decomposition.truncate(self.blueprint.head_dim))
            way["truncation"] = lambda points: np.asarray(cut(points))
            exact = FusedCoupling.of(self.blueprint, torch.float64).to(home.device)
            way["interpolation"] = lambda points: run(exact, points)
        way["rounding" if known else "model"] = lambda points: run(self.network, points)
        return measure_error(way, x, self._piece(), seed)

    def is_trained(self) -> bool:
        """Whether any weight differs from the constructed one."""
        return self._has_other_weights()

    def save(self, path: str | Path) -> None:
        """Write the blueprint; trained tables are written as they are, without bound.

        Raises:
            WeightMismatchError: if anything else was changed, which the file would not hold.
        """
        if not self.is_trained():
            self.check_unchanged()
            known = self._record.statement
            stated = {} if known is None else {"bound": json.dumps(known.terms.to_dict())}
            metadata = {**self.blueprint.metadata, **stated}
            return save_coupling(replace(self.blueprint, metadata=metadata), path)
        if not isinstance(self.network, FusedCoupling):
            raise WeightMismatchError(
                "trained layers are not interpolants any more; save model.network.state_dict()"
            )
        features = replace(self.blueprint.features, values=_numbers(self.network.features.values))
        outer = replace(self.blueprint.outer, values=_numbers(self._outer_values()))
        trained = replace(self.blueprint, features=features, outer=outer)
        again = _network(trained, self.executor, self._format())
        if difference := next(differences(self.network, again), None):
            raise WeightMismatchError(
                f"more than the tables was changed, and a file holds no more: {difference.problem}; "
                "save model.network.state_dict()"
            )
        return save_coupling(trained, path)

    def extra_repr(self) -> str:
        """Describe the model in ``repr``."""
        b = self.blueprint
        text = f"τ = {b.tau}, head_dim = {b.head_dim}, ff_width = {self._width()}, {self.executor}"
        return text + ("; trained: no bound holds" if self.is_trained() else self._warning())

    def __str__(self) -> str:
        """Explain: what it is made of, and how far off it can be."""
        b, counts = self.blueprint, self.blueprint.counts()
        places = "no positions" if b.positions is None else f"{b.tau} positions"
        text = (
            f"equation (5) for {b.tau} tokens of [{float(b.domain[0]):g}, {float(b.domain[1]):g}], "
            f"{places}\n"
            f"  f̂: {_widths(1, *counts.hidden, counts.features)}, rows {', '.join(_named(b))}\n"
            f"  attention: one head of dimension {b.head_dim}, {b.value_dim} value row(s)\n"
            f"  F̂: {_widths(b.value_dim, *counts.outer_hidden, 1)}\n"
        )
        if self._record.statement is None or self.is_trained():
            return text + "trained: no bound holds"
        return text + (self._warning().removeprefix("; ") or self.certificate.explained())

    def _rebuilt(self) -> CouplingModel:
        parts = (self._record.statement, self._target, self.decomposition, self.executor)
        fresh = CouplingModel(self.blueprint, *parts, self._format(), self.outside)
        return fresh.to(self._home().device)

    def _format(self) -> torch.dtype:
        return self._home().dtype

    def _home(self) -> Tensor:
        return _home(self.network)

    def _outer_values(self) -> Tensor:
        assert isinstance(self.network, FusedCoupling)
        assert self.network.outer is not None
        return self.network.outer.values

    def _width(self) -> int:
        knots = self.blueprint.features.knots
        return knots.pieces * len(knots.intervals)

    def _piece(self) -> int:
        if self.executor == "fused":
            return SAMPLES
        hidden = sum(self.blueprint.features.hidden) + sum(self.blueprint.outer.hidden)
        return max(1, _PIECE_NUMBERS // (hidden * self.blueprint.tau))

    def _sequences(self, x: Any) -> Tensor:
        home = self._home()
        if is_recording():
            raise ExecutionError(
                "torch.jit.trace would keep the check of these sequences for all others; trace "
                "model.network, which checks nothing"
            )
        check_products(home.dtype)
        sequences = as_tensor(x, home.dtype, home.device, "sequences")
        check_values(sequences, "sequences")
        if sequences.dim() < 1 or sequences.shape[-1] != self.blueprint.tau:
            raise InputError(
                f"sequences have {self.blueprint.tau} numbers each, (…, {self.blueprint.tau}); the "
                f"shape is {tuple(sequences.shape)}"
            )
        sequences = converted(sequences, home.dtype, "sequences").to(home.device)
        if not bool(sequences.isfinite().all()):
            raise InputError("sequences must be finite")
        return sequences

    def _inside(self, sequences: Tensor) -> Tensor | None:
        """Raise, or return which sequences lie in the domain, ``(..., 1)``; None is all of them."""
        if self.outside == "allow":
            return None
        low, high = (float(end) for end in self.blueprint.domain)
        room = torch.finfo(sequences.dtype).eps * max(abs(low), abs(high))
        inside = (sequences >= low - room) & (sequences <= high + room)
        if bool(inside.all()):
            return None
        if self.outside == "nan":
            return inside.all(dim=-1, keepdim=True)
        wrong = sequences.detach()[~inside].flatten()[0].item()
        raise OutsideDomainError(
            f"the model holds on [{low:g}, {high:g}] only, and {wrong:g} is outside; compile the "
            "target on a larger domain, or with outside='nan' or 'allow'"
        )


def _network(
    blueprint: CouplingBlueprint, executor: str, dtype: torch.dtype
) -> FusedCoupling | LiteralCoupling:
    if executor == "literal":
        return LiteralCoupling(blueprint, dtype)
    return FusedCoupling.of(blueprint, dtype)


def _home(network: nn.Module) -> Tensor:
    """A tensor of the format and on the device that a network computes in."""
    return next(network.parameters())


def _numbers(values: Tensor) -> Floats:
    return np.asarray(values.detach().double().cpu())


def _widths(*sizes: int) -> str:
    return " → ".join(f"{size:,}" for size in sizes)


def _named(blueprint: CouplingBlueprint) -> list[str]:
    names = list(blueprint.dimensions)
    return names if len(names) <= 9 else [*names[:3], "…", *names[-2:]]


remember(coupling_fused, coupling_literal, coupling_table, coupling_kuhn, CouplingModel)
