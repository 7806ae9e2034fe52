"""Refutation of a polynomial model's certificate: exact runs and float runs where they hurt most.

A certificate claims that every token selects itself by some margin, that the outputs are the target,
and that each way of running the model stays within a bound. Points where a margin is small are found by
coordinate search in floats; what is then compared with a claim is compared in rationals.
"""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import torch

from exactformer.algebra import Target
from exactformer.errors import OutsideDomainError, RoundingError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.model import PolynomialModel
from exactformer.polynomials.proof.certificate import PolynomialCertificate
from exactformer.polynomials.proof.certify import SLACK, Proof
from exactformer.polynomials.proof.selection import prove_selection
from exactformer.polynomials.proof.softmax_symbolic import is_softmax
from exactformer.polynomials.proof.symbolic import run_symbolic
from exactformer.polynomials.run.exact import run_exact
from tests.adversary.interpreter import Array, FloatBlueprint, is_inside, run_rationally
from tests.adversary.points import at, exact_at, exact_points, float_points, into
from tests.adversary.tiny_numbers import flushed

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)

Margins = tuple[tuple[Array, ...], ...]

_ROUNDS, _KEPT, _CHILDREN = 5, 6, 6
_BEYOND = (0.0, 2.0**-31, 2.0**-10)
_EVALUATED = 80  # more than the points from which a model may expand its polynomial


def refutation(
    rng: random.Random, blueprint: Blueprint, target: Target, certificate: PolynomialCertificate
) -> str | None:
    """Return what is false about a certificate, with the point; ``None`` where nothing was found."""
    if len(target) > 1 and not blueprint.vector:
        return f"the target has {len(target)} outputs, a scalar model returns one"
    offsets = float_points(blueprint, rng)
    if not is_softmax(blueprint):
        run = run_symbolic(blueprint, blueprint.domain.enlarged(SLACK))
        margins = prove_selection(run).margins
        worst = _descend(rng, blueprint, margins, offsets)
        points = [exact_at(offset, blueprint) for offset in worst]
        for k, point in enumerate(points + exact_points(blueprint, rng)):
            finding = _exactly(blueprint, target, margins, point, k == 0)
            if finding is not None:
                return finding
        offsets = np.vstack([worst, offsets])
    return _in_floats(rng, blueprint, target, certificate, offsets)


def _exactly(
    blueprint: Blueprint, target: Target, margins: Margins, point: list[Fraction], also: bool
) -> str | None:
    """Compare a run on rationals with the target and the margins; ``also`` the package's own run."""
    run = run_rationally(blueprint, point)
    where = f"({', '.join(map(str, point))})"
    wanted = tuple(polynomial.at(point) for polynomial in target)
    if run.outputs != wanted:
        return f"value {list(map(float, run.outputs))}, not {list(map(float, wanted))}, at {where}"
    if also:
        theirs = run_exact(blueprint, point)
        if (theirs if blueprint.vector else (theirs,)) != run.outputs:
            return f"two exact runs disagree at {where}"
    for b, block in enumerate(run.margins):
        for h, head in enumerate(block):
            for i, margin in enumerate(head):
                claim = float(margins[b][h][i])
                if margin is not None and margin < Fraction(claim):
                    return (
                        f"block {b + 1}, head {h + 1}, token {i + 1}: the margin is "
                        f"{float(margin):.6g}, not {claim:.6g}, at {where}"
                    )
    return None


def _descend(rng: random.Random, blueprint: Blueprint, margins: Margins, offsets: Array) -> Array:
    """Return offsets at which some margin exceeds its claim least, or a ReLU's input is near zero."""
    floats = FloatBlueprint(blueprint)
    noise = np.random.default_rng(rng.getrandbits(64))
    signs: list[Array | None] = []

    def excess(points: Array) -> Array:
        """Return one column per head or layer of units, relative to the sizes met at first."""
        run = floats.run(at(points, blueprint))
        columns = [
            (found - claim).min(axis=1) / (1 + abs(claim.min()))
            for block, claims in zip(run.margins, margins, strict=True)
            for found, claim in zip(block, claims, strict=True)
            if np.all(np.isfinite(claim))
        ]
        if not signs:
            signs.extend(None if z is None else np.sign(z.mean(axis=0)) for z in run.entering)
        for sign, z in zip(signs, run.entering, strict=True):
            if sign is not None and z is not None:
                columns.append(np.where(sign == 0, np.inf, z * sign).min(axis=(1, 2)))
        return np.stack(columns, axis=1) if columns else np.zeros((len(points), 1))

    with np.errstate(all="ignore"):
        values = np.nan_to_num(excess(offsets), nan=-1.0)
        step = 0.3
        for _ in range(_ROUNDS):
            best = np.unique(np.argsort(values, axis=0)[:_KEPT].ravel())[: 3 * _KEPT]
            offsets, values = offsets[best], values[best]
            children = np.repeat(offsets, _CHILDREN, axis=0)
            moves = noise.normal(size=children.shape) * step
            single = noise.integers(0, offsets.shape[1], size=len(children))
            moves[::2] = np.where(np.arange(offsets.shape[1]) == single[::2, None], moves[::2], 0.0)
            children = into(children + moves, blueprint.domain)
            offsets = np.vstack([offsets, children])
            values = np.vstack([values, np.nan_to_num(excess(children), nan=-1.0)])
            step *= 0.4
    order = np.argsort(values, axis=0)[0]
    lowest = order[np.argsort(values[order, np.arange(values.shape[1])])]
    return offsets[np.unique(lowest[:4])]


def _in_floats(
    rng: random.Random,
    blueprint: Blueprint,
    target: Target,
    certificate: PolynomialCertificate,
    offsets: Array,
) -> str | None:
    """Compare one way of running the model in one format with its bound."""
    dtype, executor = rng.choice(DTYPES), rng.choice(certificate.executors)
    try:
        bound = certificate.bound(dtype, executor)
    except RoundingError:
        return None
    model = PolynomialModel(blueprint, Proof(certificate), dtype, executor=executor)
    rounded = torch.from_numpy(at(offsets[:_EVALUATED], blueprint)).to(dtype)
    exact = [[Fraction(c) for c in point] for point in rounded.double().tolist()]
    inside = [k for k, point in enumerate(exact) if is_inside(blueprint.domain, point)]
    for flush in (False, True) if inside else ():
        try:
            with flushed(flush):
                values = model(rounded[inside])
        except OutsideDomainError:
            sides = [blueprint.domain.extent(j) for j in range(len(blueprint.variables))]
            if flush or min(sides) < torch.finfo(dtype).tiny:
                continue  # what is taken for zero, or is not told from it, may lie outside
            raise
        values = values.double().reshape(len(inside), len(target)).tolist()
        for k, found in zip(inside, values, strict=True):
            for value, polynomial in zip(found, target, strict=True):
                wanted = polynomial.at(exact[k])
                if not np.isfinite(value) or abs(Fraction(value) - wanted) > Fraction(bound):
                    return (
                        f"{executor} in {dtype}{', flushed,' * flush} returns {value!r}, not "
                        f"{float(wanted)!r} within {bound:.3g}, at {rounded[k].tolist()}"
                    )
    return _outside(model, offsets)


def _outside(model: PolynomialModel, offsets: Array) -> str | None:
    """Try points a little beyond the boundary, where nothing is proven and none may be answered."""
    for beyond in _BEYOND:
        moved = offsets[:_EVALUATED] * (1 + beyond)
        points = torch.from_numpy(at(moved, model.blueprint)).to(model.dtype)
        for point in points:
            exact = [Fraction(c) for c in point.double().tolist()]
            if not is_inside(model.blueprint.domain, exact, SLACK):
                try:
                    model(point)
                except OutsideDomainError:
                    break
                return f"{model.executor} in {model.dtype} answers outside, at {point.tolist()}"
    return None
