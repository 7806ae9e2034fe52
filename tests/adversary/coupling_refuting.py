"""Refutation of a computed bound: its total and its terms, held against an interpreter of equation (5).

The total and the per-token terms are held against means over random inputs, less five standard errors.
The suprema K, R, ε_ρ, ε_f, ε_F and w are held against random points, the ends of intervals and the
neighbourhoods of knots among them. They were sampled (the bound is *numerical*), and what lies between
the samples may be larger: by a share of ``ROOM`` at most, for functions that bend as these do.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.proof.bound import ErrorTerms
from exactformer.targets import Coupling
from exactformer.theory import Decomposition
from tests.adversary.coupling_interpreter import (
    LONG,
    Interpreter,
    Truncation,
    target_outputs,
    target_scores,
    weights,
)

Array = Any

INPUTS, MORE_INPUTS = 600, 20_000
"""Random inputs at first, and again before a mean counts as a finding."""
ERRORS = 5
ROOM = 1e-3
UNSEEN = 2.0**-10
"""The part of a function's range that may lie between its samples."""
ROUNDING = 1e-9
"""Relative to the numbers that were added up."""
LEAST = 1e-290
"""Below this, the last digits of float64 are lost."""
SMALLEST = float(np.finfo(np.float64).tiny)
"""What may be taken for zero; the rounding of one output, which is left out here, is larger."""
LARGE = 1e60
"""Weights from which float64 may not hold a score, or its square."""


def refutation(
    rng: random.Random,
    blueprint: CouplingBlueprint,
    target: Coupling,
    decomposition: Decomposition,
    bound: ErrorTerms,
) -> str | None:
    """Return what is false about a computed bound; ``None`` where nothing was found."""
    if bound.source != "computed":
        return f"a bound that was computed now is {bound.source}"
    if not bound.total >= 0:
        return f"the bound is {bound.total}"
    with np.errstate(all="ignore"):
        checks = (_means(rng, blueprint, target, bound), _suprema(rng, blueprint, target, bound))
        for findings in (*checks, _scores(rng, blueprint, target, decomposition, bound)):
            for finding in findings:
                return finding
    return None


def inputs(blueprint: CouplingBlueprint, count: int, seed: int) -> Array:
    """Return independent uniform tokens, (count, τ)."""
    low, high = (float(end) for end in blueprint.domain)
    return np.random.default_rng(seed).uniform(low, high, (count, blueprint.tau))


def edgy(rng: random.Random, blueprint: CouplingBlueprint, count: int) -> Array:
    """Return sequences whose tokens lie at random, at ends, at knots, close to them and between."""
    low, high = (float(end) for end in blueprint.domain)
    generator = np.random.default_rng(rng.getrandbits(32))
    shape = (count, blueprint.tau)
    pieces = blueprint.features.knots.pieces
    place = generator.uniform(0, 1, shape)
    knots = np.round(place * pieces) / pieces
    between = (np.floor(place * pieces) + 0.5) / pieces
    near = knots + generator.normal(size=shape) * 1e-3 / pieces
    kinds = np.stack([place, np.round(place), knots, near, between])
    chosen = np.take_along_axis(kinds, generator.integers(0, 5, (1, *shape)), axis=0)[0]
    return np.clip(low + (high - low) * chosen, low, high)


def _encoded(target: Coupling, x: Array) -> Array:
    return x if target.positions is None else x + target.positions


def _interpreter(blueprint: CouplingBlueprint) -> Interpreter:
    largest = max(np.abs(blueprint.features.values).max(), np.abs(blueprint.outer.values).max())
    return Interpreter(blueprint, LONG if largest > LARGE else np.float64)


def _means(
    rng: random.Random, blueprint: CouplingBlueprint, target: Coupling, bound: ErrorTerms
) -> Iterator[str]:
    """E Σ_t |H_t − Ĥ_t|, and for every t the mean and the root of the mean square."""
    run, seed = _interpreter(blueprint), rng.getrandbits(32)
    steep, size = bound.lipschitz * bound.radius, np.abs(blueprint.outer.values).max()
    rest = steep * bound.coupling_error + bound.lipschitz * bound.value_error + bound.outer_error
    claims = {
        "E Σ|H − Ĥ|": (bound.total, lambda gaps: gaps.sum(axis=1)),
        "the mean square": (bound.mean_squared, lambda gaps: (gaps**2).mean(axis=1)),
    }
    for t in range(blueprint.tau):
        each = np.float64(steep * bound.weight_errors[t] + rest)
        claims[f"E|H − Ĥ| of token {t + 1}"] = each, lambda gaps, t=t: gaps[:, t]
        claims[f"E|H − Ĥ|² of token {t + 1}"] = each**2, lambda gaps, t=t: gaps[:, t] ** 2
    gaps = None
    for name, (claim, part) in claims.items():
        if claim == np.inf:
            continue
        for count in (INPUTS, MORE_INPUTS):
            if gaps is None or count > INPUTS:
                x = inputs(blueprint, count, seed)
                gaps = np.abs(target_outputs(target, _encoded(target, x)) - run(x))
            sums = part(gaps)
            mean, error = float(sums.mean()), float(sums.std()) / len(sums) ** 0.5
            room = ROUNDING * (claim + size) + (ROUNDING * size) ** 2 + SMALLEST
            if mean - ERRORS * error <= claim + room:
                break
        else:
            yield f"{name} is {mean:.6g} ± {error:.2g}, not at most {claim:.6g}"


def _suprema(
    rng: random.Random, blueprint: CouplingBlueprint, target: Coupling, bound: ErrorTerms
) -> Iterator[str]:
    """K, R, ε_f and ε_F, at points that are not those of the samples."""
    run = _interpreter(blueprint)
    x = edgy(rng, blueprint, 400)
    tokens, own = _encoded(target, x), run.split(x)[2]
    values = np.asarray(target.f(tokens))
    rows = values[..., None] if values.ndim == 2 else values
    flat = rows.reshape(-1, rows.shape[-1])
    yield from _exceeds("R", np.ptp(flat, axis=0).max() / 2, bound.radius, np.abs(flat).max())
    yield from _exceeds("ε_f", np.abs(rows - own).max(), bound.value_error, np.abs(own).max())
    generator = np.random.default_rng(rng.getrandbits(32))
    low, high = flat.min(axis=0), flat.max(axis=0)
    means = np.concatenate([generator.uniform(low, high, (800, flat.shape[1])), flat[:400]])
    wanted = np.asarray(target.F(means[:, 0] if values.ndim == 2 else means))
    found = run.outer(means)[:, 0]
    largest = np.abs(blueprint.outer.values).max()
    # Where f bends between two of its samples, its range is a little larger than was seen.
    unseen = UNSEEN * (bound.lipschitz * bound.radius + np.ptp(wanted))
    apart = np.abs(wanted - found).max() - unseen
    yield from _exceeds("ε_F", apart, bound.outer_error, largest)
    box = run.outer
    ends = generator.uniform(0, 1, (800, 2, flat.shape[1]))
    ends[:400, 1] = ends[:400, 0] + generator.normal(size=ends[:400, 1].shape) * 0.01
    points = box.low + (box.high - box.low) * ends
    rise = np.abs(np.diff(box(points.reshape(-1, flat.shape[1]))[:, 0].reshape(-1, 2))[:, 0])
    run_along = np.abs(points[:, 0] - points[:, 1]).max(axis=-1)
    excess = rise - bound.lipschitz * run_along * (1 + ROUNDING)
    if not (excess <= ROUNDING * (largest + rise + LEAST)).all() and bound.lipschitz < np.inf:
        yield f"F̂ rises by {rise[excess.argmax()]:.6g} over {run_along[excess.argmax()]:.6g}: K fails"


def _scores(
    rng: random.Random,
    blueprint: CouplingBlueprint,
    target: Coupling,
    decomposition: Decomposition,
    bound: ErrorTerms,
) -> Iterator[str]:
    """ε_ρ, w, and the means T, D and B_t."""
    truncation = Truncation(target, decomposition, blueprint.head_dim)
    run = _interpreter(blueprint)
    x = edgy(rng, blueprint, 200)
    tokens = _encoded(target, x)
    full, cut = target_scores(target, tokens), truncation.scores(tokens)
    size = max(np.abs(full).max(), np.abs(cut).max())
    apart = np.abs(cut - run.scores(x)).max()
    # φ and ψ are sums of ρ over nodes: where ρ has a kink they have one at every node.
    yield from _exceeds("ε_ρ", apart - UNSEEN * size, bound.coupling_error, size)
    for name, scores in (("ρ", full), ("ρ_m", cut)):
        largest = float(weights(scores).max())
        yield from _exceeds(f"w of {name}", largest, bound.concentration, 1.0)
    x = inputs(blueprint, INPUTS, rng.getrandbits(32))
    tokens = _encoded(target, x)
    squares = (target_scores(target, tokens) - truncation.scores(tokens)) ** 2
    room = (ROUNDING * max(size, 1.0)) ** 2
    for t in range(blueprint.tau):
        sums = squares[:, t].sum(axis=1)
        least = float(sums.mean()) - ERRORS * float(sums.std()) / len(sums) ** 0.5
        if not least <= bound.root_sums[t] ** 2 * (1 + ROOM) + room:
            yield f"B_{t + 1} is {sums.mean():.6g}, not {bound.root_sums[t] ** 2:.6g}"
    own = np.diagonal(squares, axis1=1, axis2=2).mean(axis=1)
    least = float(own.mean()) - ERRORS * float(own.std()) / len(own) ** 0.5
    if not least <= bound.diagonal**2 * (1 + ROOM) + room:
        yield f"D² is {own.mean():.6g}, not {bound.diagonal**2:.6g}"


def _exceeds(name: str, found: Any, claim: float, size: Any) -> Iterator[str]:
    if not float(found) <= claim * (1 + ROOM) + ROUNDING * (float(size) + LEAST):
        yield f"{name} is {float(found):.9g} somewhere, not at most {claim:.9g}"
