"""The module of a coupling: one attention layer between two feed-forward networks, with its bound."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from exactformer.core.inputs import as_tensor, converted, is_recording
from exactformer.core.integrity import ProvenModule, differences, remember
from exactformer.core.precision import check_products
from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.files import save_coupling
from exactformer.couplings.measure import Floats, Function, MeasuredCouplingError, measure_error
from exactformer.couplings.proof.bound import CouplingBound
from exactformer.couplings.proof.rounding import check_format, rounding_bound
from exactformer.couplings.run import fused as coupling_fused
from exactformer.couplings.run import kuhn_tables as coupling_kuhn
from exactformer.couplings.run import literal as coupling_literal
from exactformer.couplings.run import tables as coupling_table
from exactformer.couplings.run.fused import FusedCoupling
from exactformer.couplings.run.literal import LiteralCoupling
from exactformer.couplings.target import Coupling
from exactformer.errors import ExecutionError, InputError, WeightMismatchError
from exactformer.theory import Decomposition

EXECUTORS = ("fused", "literal")
SAMPLES = 2048
_PIECE_NUMBERS = 2**24  # that a literal module keeps at a time


class CouplingModel(ProvenModule):
    """Sequences ``(..., τ)`` to ``(..., τ)``.

    ``executor="fused"`` reads the feed-forward networks from tables, ``"literal"`` carries out every
    matrix of equation (5). Weights are parameters: a model may be trained on, and then has no bound.

    Products of reduced precision, which the bound does not cover, are refused; train
    :attr:`network`, which promises nothing, where they are wanted.
    """

    FIXED = ("blueprint", "target", "decomposition", "executor")

    def __init__(
        self,
        blueprint: CouplingBlueprint,
        target: Coupling | None = None,
        decomposition: Decomposition | None = None,
        executor: str = EXECUTORS[0],
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__()
        if executor not in EXECUTORS:
            raise InputError(f"executor={executor!r}; choose one of {', '.join(EXECUTORS)}")
        check_format(blueprint, dtype, executor)
        self.blueprint = blueprint
        self.target = target
        self.decomposition = decomposition
        self.executor = executor
        self.network = _network(blueprint, executor, dtype)
        self._seal(None)

    def forward(self, x: Any) -> Tensor:
        """Evaluate sequences given as tensor, array or nested list, of numbers of the domain."""
        output: Tensor = self.network(self._sequences(x))
        return output

    def attention(self, x: Any) -> Tensor:
        """Return the attention matrices, ``(..., τ, τ)``, one row a query."""
        return self.network.attention(self._sequences(x))

    @property
    def bound(self) -> CouplingBound:
        """The bound on E Σ_t |H_t − Ĥ_t|, in the number format that the model has now."""
        if self.is_trained():
            raise WeightMismatchError(
                "the weights have been trained: the bound was that of the constructed ones; "
                "measure() says how good these are"
            )
        self.check_unchanged()
        stored = self.blueprint.metadata.get("bound")
        if stored is None:
            raise WeightMismatchError("these weights were trained before they were saved: no bound")
        rounding = rounding_bound(self.blueprint, self._home().dtype, self.executor)
        return replace(CouplingBound.of_dict(json.loads(stored)), rounding=rounding)

    def measure(
        self, samples: int = SAMPLES, seed: int = 0, target: Coupling | None = None
    ) -> MeasuredCouplingError:
        """Measure the distance to the target, and its parts, on random inputs.

        A loaded model knows no target: give one. Parts need the decomposition of the construction.
        """
        target = target or self.target
        if target is None:
            raise InputError("a file holds no functions: give the target, measure(target=…)")
        if samples < 2:
            raise InputError(f"samples={samples} must be at least 2")
        low, high = (float(end) for end in self.blueprint.domain)
        if target.tau != self.blueprint.tau or tuple(target.domain) != (low, high):
            raise InputError(
                f"the target has {target.tau} tokens of {target.domain}, the model "
                f"{self.blueprint.tau} of {(low, high)}"
            )
        home = self._home()
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
            return save_coupling(self.blueprint, path)
        if not isinstance(self.network, FusedCoupling):
            raise WeightMismatchError(
                "trained layers are not interpolants any more; save model.network.state_dict()"
            )
        features = replace(self.blueprint.features, values=_numbers(self.network.features.values))
        outer = replace(self.blueprint.outer, values=_numbers(self._outer_values()))
        metadata = {k: v for k, v in self.blueprint.metadata.items() if k != "bound"}
        trained = replace(self.blueprint, features=features, outer=outer, metadata=metadata)
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
        if "bound" not in b.metadata or self.is_trained():
            return text + "trained: no bound holds"
        return text + (self._warning().removeprefix("; ") or str(self.bound))

    def _rebuilt(self) -> CouplingModel:
        parts = (self.blueprint, self.target, self.decomposition, self.executor, self._format())
        return CouplingModel(*parts).to(self._home().device)

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
        if sequences.dim() < 1 or sequences.shape[-1] != self.blueprint.tau:
            raise InputError(
                f"sequences have {self.blueprint.tau} numbers each, (…, {self.blueprint.tau}); the "
                f"shape is {tuple(sequences.shape)}"
            )
        sequences = converted(sequences, home.dtype, "sequences").to(home.device)
        low, high = (float(end) for end in self.blueprint.domain)
        room = torch.finfo(home.dtype).eps * max(abs(low), abs(high))
        inside = (sequences >= low - room) & (sequences <= high + room)
        if not bool(inside.all()):
            wrong = sequences.detach()[~inside].flatten()[0].item()
            raise InputError(
                f"the model holds on [{low:g}, {high:g}] only, and {wrong:g} is outside; compile the "
                "target on a larger domain"
            )
        return sequences


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
