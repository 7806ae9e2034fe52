"""``compile_coupling``: a coupling into a transformer (Jiang & Li 2023, Theorem 4.1)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral

import torch

from exactformer.core.precision import as_dtype
from exactformer.couplings.centring import centred
from exactformer.couplings.construction import coupling
from exactformer.couplings.model import CouplingModel
from exactformer.couplings.proof.bound import bound_coupling
from exactformer.couplings.proof.certificate import certify_terms
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
    executor: str | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
    outside: str = "raise",
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
        outside: what to do with tokens outside the domain: ``"raise"``, ``"nan"`` or ``"allow"``.

    Raises:
        ExactformerError: if the target is not one of scalar tokens, or too much is asked for.

    >>> import exactformer as ef
    >>> from exactformer.targets import sine_family
    >>> model = ef.compile_coupling(sine_family([1.0, 0.5], tau=4), head_dim=2, ff_width=512)
    >>> error = model.measure(samples=200)
    >>> error.value <= model.certificate.bound() < 0.01
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
    dtype = as_dtype(dtype)
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
        with doing("decomposing the coupling"):
            decomposition = pod(target.rho, target.intervals, measure="probability")
    low, high = target.domain
    with doing(f"interpolating on {ff_width:,} pieces"):
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
    blueprint = replace(blueprint, metadata={"target": target.name})
    with doing("bounding the error"):
        terms = bound_coupling(blueprint, target, decomposition)
    certificate = certify_terms(blueprint, terms, target)
    model = CouplingModel(blueprint, certificate, target, decomposition, executor, dtype, outside)
    return model.placed(device)


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Say in a terminal what is being done, while it is."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
