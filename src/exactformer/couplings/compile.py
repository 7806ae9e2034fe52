"""``compile_coupling``: a coupling into a transformer (Jiang & Li 2023, Theorem 4.1)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral
from pathlib import Path

import torch

from exactformer.core.options import MEMORY_LIMIT
from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.centring import centred
from exactformer.couplings.construction import coupling
from exactformer.couplings.files import load_coupling
from exactformer.couplings.model import EXECUTORS, CouplingModel
from exactformer.couplings.proof.bound import CouplingBound, bound_coupling, check_same_tokens
from exactformer.couplings.proof.stated import ROOM, check_stated
from exactformer.couplings.run.literal import check_layers
from exactformer.couplings.target import Coupling
from exactformer.errors import InputError, SizeError
from exactformer.theory import Decomposition, pod

MOST_VALUES = 2**26
"""Values at knots: half a GiB in float64."""


def compile_coupling(
    target: Coupling,
    head_dim: int,
    ff_width: int = 256,
    *,
    centre: bool = False,
    decomposition: Decomposition | None = None,
    executor: str = EXECUTORS[0],
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
) -> CouplingModel:
    """Compile a coupling of scalar tokens into a transformer with one head.

    Args:
        target: F, f, ρ, the number of tokens, their domain and, where the map knows them, positions.
        head_dim: m_h; the coupling is cut after so many terms of its decomposition.
        ff_width: pieces of the interpolants that the feed-forward networks are; with positions they
            are shared among the τ intervals. Powers of two lose least to rounding.
        centre: take out of ρ(u, v) what depends on u alone, which no softmax sees; the theorem does
            not, but the same accuracy may then need a smaller head.
        decomposition: that of ``target.rho``, where it is at hand: ``pod(target.rho,
            target.intervals, measure="probability")``; with ``centre`` that of the centred one.
        executor: ``"fused"`` (default): tables in place of layers; ``"literal"``: every matrix.
        dtype: the number format of the weights.
        device: where the module lives.

    Raises:
        ExactformerError: if the target is not one of scalar tokens, or too much is asked for.

    >>> import exactformer as ef
    >>> from exactformer.targets import sine_family
    >>> model = ef.compile_coupling(sine_family([1.0, 0.5], tau=4), head_dim=2, ff_width=512)
    >>> error = model.measure(samples=200)
    >>> error.l1 <= model.bound.total < 0.01
    True
    """
    if not isinstance(target, Coupling):
        raise InputError(f"a coupling is wanted, exactformer.targets.Coupling, not {type(target)}")
    if target.dim is not None:
        raise InputError(
            f"tokens of {target.dim} coordinates: the interpolants of f̂ take scalar tokens; a coupling "
            "of scalar tokens may have values of up to three coordinates"
        )
    for name, size in (("head_dim", head_dim), ("ff_width", ff_width)):
        if not isinstance(size, Integral) or size < 1:
            raise InputError(f"{name}={size!r} must be a whole number, at least 1")
    if not dtype.is_floating_point:
        raise InputError(f"dtype={dtype} is not a format of floating-point numbers")
    knots, rows = ff_width + len(target.intervals), 2 * head_dim + 1
    if executor == "literal":
        check_layers((1, 2 * (knots - 1), knots, rows), dtype)
    values = knots * rows
    if values > MOST_VALUES:
        raise SizeError(
            f"head_dim={head_dim} and ff_width={ff_width:,} need {values:,} values at knots; the limit "
            f"is {MOST_VALUES:,}. Feasible: ff_width={MOST_VALUES // rows // 2:,}"
        )
    target = centred(target) if centre else target
    if decomposition is None:
        with _doing("decomposing the coupling"):
            decomposition = pod(target.rho, target.intervals, measure="probability")
    low, high = target.domain
    with _doing(f"interpolating on {ff_width:,} pieces"):
        blueprint = coupling(
            decomposition.truncate(head_dim),
            target.f,
            target.F,
            tau=target.tau,
            head_dim=head_dim,
            ff_width=ff_width,
            domain=(float(low), float(high)),  # type: ignore[arg-type]
            positions=target.positions,
        )
    with _doing("bounding the error"):
        bound = json.dumps(bound_coupling(blueprint, target, decomposition).to_dict())
    blueprint = replace(blueprint, metadata={"bound": bound, "target": target.name})
    model = CouplingModel(blueprint, target, decomposition, executor, dtype)
    return model if device is None else model.to(device)


def load_coupling_model(
    path: str | Path,
    *,
    target: Coupling | None = None,
    executor: str = EXECUTORS[0],
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
    memory_limit: int = MEMORY_LIMIT,
) -> CouplingModel:
    """Load a saved model.

    A file holds no functions. Its bound is *stated by the file*, and refused where it contradicts the
    weights. With ``target`` it is computed anew, from these functions and the weights of the file.
    """
    if not dtype.is_floating_point:
        raise InputError(f"dtype={dtype} is not a format of floating-point numbers")
    blueprint = load_coupling(path)
    _check_stored_size(blueprint, memory_limit)
    stored = blueprint.metadata.get("bound")
    stated = None if stored is None else CouplingBound.of_dict(json.loads(stored))
    decomposition = None
    if target is not None:
        if not isinstance(target, Coupling):
            raise InputError(f"target= takes an exactformer.targets.Coupling, not {type(target)}")
        check_same_tokens(blueprint, target)
        with _doing("computing the bound"):
            bound, target, decomposition = _bound_anew(blueprint, target, stated)
        metadata = {"bound": json.dumps(bound.to_dict()), "target": target.name}
        blueprint = replace(blueprint, metadata=metadata)
    elif stated is not None:
        check_stated(stated, blueprint)
    model = CouplingModel(blueprint, target, decomposition, executor, dtype)
    return model if device is None else model.to(device)


def _bound_anew(
    blueprint: CouplingBlueprint, target: Coupling, stated: CouplingBound | None
) -> tuple[CouplingBound, Coupling, Decomposition]:
    """Return the bound of given weights, and ρ and its decomposition that gave it.

    ρ and the centred ρ are the same map of sequences, and bounds for either hold. Weights made for one
    are far from the other's: where ρ as given does not come to what is stated, both are tried.
    """

    def bounded(way: Coupling) -> tuple[CouplingBound, Coupling, Decomposition]:
        decomposition = pod(way.rho, way.intervals, measure="probability")
        return bound_coupling(blueprint, way, decomposition, turned=True), way, decomposition

    plain = bounded(target)
    if stated is not None and plain[0].total <= stated.total * (1 + ROOM):
        return plain
    return min(plain, bounded(centred(target)), key=lambda way: way[0].total)


def _check_stored_size(blueprint: CouplingBlueprint, memory_limit: int) -> None:
    """Refuse a model whose tables, or the scores of one sequence, would not fit."""
    tables = 8 * (blueprint.features.values.size + blueprint.outer.values.size)
    for name, size in (
        ("the values at knots", tables),
        (f"the scores of tau = {blueprint.tau:,} tokens", 8 * blueprint.tau**2),
    ):
        if size > memory_limit:
            raise SizeError(
                f"{name} take {size / 2**30:,.1f} GiB; the limit is {memory_limit / 2**30:.1f} GiB. "
                "If this is your own model, raise memory_limit="
            )


@contextmanager
def _doing(what: str) -> Iterator[None]:
    """Say in a terminal what is being done, while it is."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
