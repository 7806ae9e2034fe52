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

from exactformer.blueprint.coupling_storing import load_coupling
from exactformer.constructions.coupling import coupling
from exactformer.errors import InputError, SizeError
from exactformer.execution.coupling_literal import check_layers
from exactformer.model.coupling_bound import bound_coupling
from exactformer.model.coupling_centring import centred
from exactformer.model.coupling_model import EXECUTORS, CouplingModel
from exactformer.targets import Coupling
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
    executor: str = EXECUTORS[0],
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
) -> CouplingModel:
    """Load a saved model. Its bound is the one that was computed from the functions it approximates."""
    model = CouplingModel(load_coupling(path), executor=executor, dtype=dtype)
    return model if device is None else model.to(device)


@contextmanager
def _doing(what: str) -> Iterator[None]:
    """Say in a terminal what is being done, while it is."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
