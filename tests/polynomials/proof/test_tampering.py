"""One wrong weight: the proof fails, or the model is still right. There is nothing in between."""

from __future__ import annotations

import random
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from exactformer.algebra import Polynomial
from exactformer.algebra.ridge import ridge_form
from exactformer.core.domain import Ball
from exactformer.core.layers import IDENTITY, Rule, Selection
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions import CONSTRUCTIONS
from exactformer.polynomials.proof.certify import certify_blueprint
from exactformer.polynomials.run.exact import run_exact
from exactformer.polynomials.run.literal import LiteralTransformer
from tests.cases.blueprints import direct_form, tampered, with_matrix
from tests.cases.polynomials import RADII, random_point, random_polynomial


def random_blueprint(rng: random.Random) -> tuple[Blueprint, Polynomial]:
    d, q = rng.choice([(1, 1), (1, 4), (2, 2), (2, 3), (2, 4), (3, 2), (3, 3)])
    p = random_polynomial(rng, d, q, rng.choice(["sparse", "monomial", "dense", "mixed"]))
    family = rng.choice(["tailored", "lattice", "spread"])
    construction = rng.choice(sorted(CONSTRUCTIONS))
    return CONSTRUCTIONS[construction](ridge_form(p, family), rng.choice(RADII)), p


def check_is_still_right(
    blueprint: Blueprint, p: Polynomial, rng: random.Random, what: str
) -> None:
    """A certified blueprint equals the polynomial wherever we look: inside, boundary, axes."""
    for k in range(12):
        x = random_point(rng, p.dimension, blueprint.radius)
        if k < 2 * p.dimension:
            sign = 1 if k % 2 else -1
            x = [
                sign * blueprint.radius if i == k // 2 else Fraction(0) for i in range(p.dimension)
            ]
        assert run_exact(blueprint, x) == p.at(x), what


def check_the_bound(
    blueprint: Blueprint, p: Polynomial, bound: float, rng: random.Random, what: str
) -> None:
    """The float64 module of a certified blueprint keeps to its certified bound."""
    floats = [
        [float(c) for c in random_point(rng, p.dimension, blueprint.radius)] for _ in range(20)
    ]
    module = LiteralTransformer(blueprint)
    computed = module(torch.tensor(floats, dtype=torch.float64)).tolist()
    for x, y in zip(floats, computed, strict=True):
        assert np.isfinite(y), what
        assert abs(Fraction(y) - p.at(x)) <= Fraction(bound), what


def campaign(seed: int, models: int, changes: int) -> tuple[int, int]:
    """Tamper; return how many changes were refused and how many were proven harmless."""
    rng = random.Random(seed)
    refused = harmless = 0
    for _ in range(models):
        blueprint, p = random_blueprint(rng)
        for _ in range(changes):
            changed, what = tampered(rng, blueprint)
            if rng.random() < 0.2:
                changed, more = tampered(rng, changed)
                what += f"; {more}"
            try:
                certificate = certify_blueprint(changed, p)
            except CertificationError:
                refused += 1
                continue
            harmless += 1
            check_is_still_right(changed, p, rng, what)
            bound = certificate.rounding["float64"].value
            if bound is not None:
                check_the_bound(changed, p, bound, rng, what)
    return refused, harmless


def test_hundreds_of_tampered_blueprints_are_refused_or_right() -> None:
    refused, harmless = campaign(seed=5, models=12, changes=25)
    assert refused > 150
    assert harmless > 5  # the campaign also meets changes that do no harm


@pytest.mark.slow
def test_thousands_of_tampered_blueprints_are_refused_or_right() -> None:
    with ProcessPoolExecutor(2) as pool:
        results = list(pool.map(campaign, range(1000, 1012), [20] * 12, [30] * 12))
    assert sum(refused for refused, _ in results) > 4_000
    assert sum(harmless for _, harmless in results) > 100


@pytest.mark.parametrize("construction", CONSTRUCTIONS)
def test_every_entry_of_every_matrix_matters_or_is_proven_not_to(construction: str) -> None:
    """Each non-zero entry in turn is halved. Only the paper's second ReLU can spare it: what enters
    it, −xy − 2M², is never positive, so the unit is idle.
    """
    idle = {f"blocks.{b}.feed_forward.{w}" for b in range(3) for w in ("w1", "w2")}
    form = direct_form([[1, 0], [0, 1], [Fraction(3, 5), Fraction(4, 5)]], [[1, 2, 3]] * 3)
    p = form.to_polynomial()
    blueprint = CONSTRUCTIONS[construction](form, Fraction(2))
    for path, matrix in blueprint.matrices():
        for place, value in matrix.entries.items():
            entries = {**matrix.entries, place: value / 2}
            changed = with_matrix(blueprint, path, Matrix.of(*matrix.shape, entries))
            unit = place[0] if path.endswith("w1") else place[1]
            if path in idle and unit == 1:
                certify_blueprint(changed, p)
                check_is_still_right(changed, p, random.Random(0), f"{path} {place}")
                continue
            with pytest.raises(CertificationError):
                certify_blueprint(changed, p)


@pytest.mark.parametrize("construction", CONSTRUCTIONS)
def test_another_rule_or_activation_is_refused(construction: str) -> None:
    p = Polynomial.parse("x^3 + x y")
    blueprint = CONSTRUCTIONS[construction](ridge_form(p), Fraction(2))
    block = blueprint.blocks[-1]
    for rule in (Rule.HARD_MAX, Rule.SOFTMAX):
        attention = replace(block.attention, selection=Selection(rule))
        blocks = (*blueprint.blocks[:-1], replace(block, attention=attention))
        with pytest.raises(CertificationError):
            certify_blueprint(replace(blueprint, blocks=blocks), p)
    if block.feed_forward.w1.nonzeros:
        layer = replace(block.feed_forward, activation=IDENTITY)
        blocks = (*blueprint.blocks[:-1], replace(block, feed_forward=layer))
        with pytest.raises(CertificationError):
            certify_blueprint(replace(blueprint, blocks=blocks), p)


@pytest.mark.parametrize("order", [slice(None, None, -1), slice(None, -1), slice(1, None)])
def test_blocks_left_out_or_out_of_order_are_refused(order: slice) -> None:
    p = Polynomial.parse("x^4 + x y")
    blueprint = CONSTRUCTIONS["scaled"](ridge_form(p), Fraction(2))
    with pytest.raises(CertificationError):
        certify_blueprint(replace(blueprint, blocks=blueprint.blocks[order]), p)


def test_a_larger_radius_is_refused_where_it_is_too_large() -> None:
    p = Polynomial.parse("x^4 + x y")
    for construction in CONSTRUCTIONS:
        blueprint = CONSTRUCTIONS[construction](ridge_form(p), Fraction(2))
        with pytest.raises(CertificationError):
            certify_blueprint(replace(blueprint, domain=Ball(Fraction(3))), p)


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("embedding.constant", (1, 6)),
        ("embedding.features", (2, 1)),
        ("readouts.0.beta", (1, 6)),
        ("blocks.0.feed_forward.b2", (1, 1)),
        ("blocks.0.heads.0.key", (2, 6)),
        ("blocks.0.heads.0.value", (6, 5)),
        ("blocks.0.heads.0.query", (3, 5)),
    ],
)
def test_a_matrix_that_a_module_would_broadcast_is_refused(
    path: str, shape: tuple[int, int]
) -> None:
    """A module whose constant has one row gives it to every token; the proof must not differ."""
    form = direct_form([[1, 0], [0, 1]], [[1, 1, 0], [1, 0, 0]])
    p = form.to_polynomial()
    blueprint = CONSTRUCTIONS["scaled"](form, Fraction(1))
    matrix = dict(blueprint.matrices())[path]
    assert matrix.shape != shape
    fitting = {k: v for k, v in matrix.entries.items() if k[0] < shape[0] and k[1] < shape[1]}
    changed = with_matrix(blueprint, path, Matrix.of(*shape, fitting))
    with pytest.raises(CertificationError, match=path):
        certify_blueprint(changed, p)
