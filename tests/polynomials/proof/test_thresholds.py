"""Proofs at their thresholds: what holds with nothing to spare passes, a tie or a trifle less fails."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from exactformer.algebra import Target
from exactformer.core.domain import Ball, Box, Domain
from exactformer.errors import CertificationError, IdentityError, SelectionError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.compile import local_forms
from exactformer.polynomials.constructions import construct
from exactformer.polynomials.proof import certify
from exactformer.polynomials.proof.certify import SLACK, certify_blueprint
from exactformer.polynomials.proof.identity import prove_identity
from exactformer.polynomials.proof.selection import SelectionProof, prove_selection
from exactformer.polynomials.proof.symbolic import run_symbolic
from exactformer.polynomials.transformer import closed_form
from tests.cases.blueprints import Entries, attention_block, hand_made

CENTRED: list[Domain] = [
    Ball(Fraction(2), (Fraction(1, 3), Fraction(-5))),
    Box((Fraction(3), Fraction(-2, 7)), (Fraction(1, 2), Fraction(4))),
]


def prove(blueprint: Blueprint, target: Target) -> int:
    return prove_identity(run_symbolic(blueprint, blueprint.domain), target)


@pytest.mark.parametrize("domain", CENTRED, ids=["ball", "box"])
@pytest.mark.parametrize("construction", ["doubling", "scaled"])
def test_a_model_is_the_target_whatever_the_centre(domain: Domain, construction: str) -> None:
    """F·x = F·(x − c) + F·c: every entry of F meets the coordinate of c that belongs to it."""
    target = Target.coerce("3 x1^3 + 2 x1 x2 - 7 x2^2 + 5")
    blueprint = construct(construction, local_forms(target, domain), domain, target)
    moved = replace(domain, centre=tuple(c + Fraction(1, 7) for c in domain.centre))
    for round_it in (domain, moved):
        run = run_symbolic(blueprint, round_it)
        assert prove_identity(run, target) == 4
        near = Target.coerce(f"3 x1^3 + 2 x1 x2 - 7 x2^2 + {5 + Fraction(1, 2**70)}")
        with pytest.raises(IdentityError, match="differs"):
            prove_identity(run, near)


def test_a_model_with_another_number_of_outputs_is_not_the_target() -> None:
    """A vector that begins with the target is not the target, nor is the beginning of it."""
    one, two = Target.coerce(["x1^2 + x2"]), Target.coerce(["x1^2 + x2", "x1 x2"])
    ball = Ball(Fraction(1))
    pair = construct("doubling", local_forms(two, ball), ball, two)
    assert prove(pair, two) == 3
    with pytest.raises(IdentityError, match="2 outputs, the target 1"):
        prove(pair, one)
    first = replace(pair, readouts=pair.readouts[:1])
    with pytest.raises(IdentityError, match="1 outputs, the target 2"):
        prove(first, two)
    with pytest.raises(IdentityError):
        certify_blueprint(first, two)


def two_tokens(
    query: Entries, key: Entries, constant: Entries, offset: Fraction, radius: Fraction
) -> Blueprint:
    """Tokens t = x and t = −x on |x| ≤ R with a constant 1, and scores ⟨q, k⟩ + offset·[i = j].

    Queries and keys have one row that both tokens use.
    """
    width = 5  # feature, two positions, one, another constant
    positions = {(0, 1): Fraction(1), (1, 2): Fraction(1), (0, 3): Fraction(1), (1, 3): Fraction(1)}
    places = {(1, 1): offset, (2, 2): offset}
    head = (3, {**query, **places}, {**key, (1, 1): 1, (2, 2): 1}, {})
    block = attention_block(width, [head])
    embedded = {**positions, **constant}
    return hand_made(
        {(0, 0): 1, (1, 0): -1}, 2, 1, width, embedded, [block], {(0, 0): 1}, 0, radius
    )


def ties(kind: str, rng: random.Random) -> tuple[Entries, Entries, Entries, Fraction, Fraction]:
    """Queries, keys, constants, the smallest offset with a tie somewhere on |x| ≤ R, and R."""
    a, b, c, radius = (Fraction(rng.randint(1, 99), rng.randint(1, 99)) for _ in range(4))
    if kind == "keys that differ":  # token 2 has the larger key, by c
        constant = {(0, 4): b, (1, 4): b + c}
        return {(0, 3): a}, {(0, 4): 1}, constant, a * c, radius
    if kind == "keys that vary":  # a·t_i against a·t_j at t_i = −R
        return {(0, 3): a}, {(0, 0): b}, {}, 2 * a * b * radius, radius
    # −a·t_i·t_i against −a·t_i·t_j at |x| = R
    return {(0, 0): -a}, {(0, 0): b}, {}, 2 * a * b * radius**2, radius


@pytest.mark.parametrize("kind", ["keys that differ", "keys that vary", "products of features"])
def test_a_tie_is_refused_and_anything_more_is_a_margin(kind: str) -> None:
    """However the numbers round: at the least a tie is not taken for a margin."""
    rng = random.Random(kind)
    for _ in range(60):
        query, key, constant, least, radius = ties(kind, rng)
        run = run_symbolic(two_tokens(query, key, constant, least, radius), radius)
        with pytest.raises(SelectionError):
            prove_selection(run)
        more = least * (1 + Fraction(1, 2**30))
        found = prove_selection(
            run_symbolic(two_tokens(query, key, constant, more, radius), radius)
        ).smallest
        assert found is not None
        assert 0 < Fraction(found) <= more - least


def with_relu(bias: Fraction) -> Blueprint:
    """σ(x + bias) on |x| ≤ 1."""
    block = attention_block(2, [], w1={(0, 0): 1}, b1={(0, 0): bias}, w2={(1, 0): 1}, units=1)
    return hand_made({(0, 0): 1}, 1, 1, 2, {}, [block], {(0, 1): 1})


def test_proofs_cover_the_domain_and_a_little_more() -> None:
    """A ReLU that shuts on the very edge of the domain would be wrong for a point rounded outwards."""
    assert 1 + Fraction(1, 2**32) == SLACK
    for bias in (Fraction(1), SLACK - Fraction(1, 2**80)):
        with pytest.raises(CertificationError, match="changes sign"):
            certify_blueprint(with_relu(bias), Target.coerce(f"x1 + {bias}"))
    proof = certify.prove(with_relu(SLACK), Target.coerce(f"x1 + {SLACK}"))
    assert proof.certificate.terms == 2
    assert proof.form == closed_form(with_relu(SLACK))  # read on the domain itself


def test_outputs_and_their_place_are_checked() -> None:
    plain = hand_made({(0, 0): 1}, 1, 1, 2, {}, [], {(0, 0): 1})
    run_symbolic(plain, Fraction(1))
    readout = plain.readouts[0]
    wrong = [
        replace(plain, readouts=()),
        replace(plain, readouts=(), vector=True),
        replace(plain, readouts=(readout, readout)),
        *(replace(plain, embedding=replace(plain.embedding, dimension=d)) for d in (-1, 2, 3)),
    ]
    for blueprint in wrong:
        with pytest.raises(CertificationError):
            run_symbolic(blueprint, Fraction(1))
    run_symbolic(replace(plain, embedding=replace(plain.embedding, dimension=1)), Fraction(1))
    run_symbolic(replace(plain, readouts=(readout, readout), vector=True), Fraction(1))


def test_margins_that_are_not_numbers_are_refused() -> None:
    """Scores beyond float64 have no margin that could be compared with 0."""
    huge = Fraction(10) ** 400
    run = run_symbolic(
        two_tokens({(0, 3): huge}, {(0, 0): huge}, {}, huge, Fraction(1)), Fraction(1)
    )
    with np.errstate(all="ignore"), pytest.raises(SelectionError):
        prove_selection(run)


def test_the_smallest_margin_is_that_of_all_blocks_heads_and_tokens() -> None:
    for least in range(6):
        values = np.where(np.arange(6) == least, 1.0, 2.0)
        first, second, third = values.reshape(3, 2)
        assert SelectionProof(((first, second), (third,))).smallest == 1
