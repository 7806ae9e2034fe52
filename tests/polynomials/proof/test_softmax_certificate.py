"""The certificate of softmax models: what it claims, to whom, and that forgeries do not get one."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from exactformer.algebra import Polynomial, Target
from exactformer.algebra.ridge import ridge_form, ridge_forms
from exactformer.core.layers import Rule
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError, IdentityError, InputError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions import construct
from exactformer.polynomials.constructions.softmax import softmax
from exactformer.polynomials.constructions.tanh_extrapolation import Extrapolation
from exactformer.polynomials.model import PolynomialModel
from exactformer.polynomials.proof.certificate import PolynomialCertificate
from exactformer.polynomials.proof.certify import Proof, certify_blueprint
from exactformer.polynomials.proof.softmax_certificate import SoftmaxCertificate
from exactformer.polynomials.run.softmax import SoftmaxTransformer
from tests.cases.adversary import worst_error
from tests.cases.blueprints import attention_block, hand_made
from tests.cases.polynomials import RADII, names, random_polynomial

F2 = "x1^5 + 3 x2^4 + 2 x3^3 + 5 x3 x4 + 3 x5^2 + 2 x6 x7 x8 + 2 x9"
P = Polynomial.parse("x^3 + 2 x y^2 - y")
BLUEPRINT = softmax(ridge_form(P), Fraction(2), Extrapolation(4, Fraction(1, 2)))
CHOICES = {torch.float64: (12, "91/64"), torch.float32: (11, "19/4")}


def softmax_certificate(blueprint: Blueprint, p: Polynomial) -> SoftmaxCertificate:
    certificate = certify_blueprint(blueprint, p)
    assert isinstance(certificate, SoftmaxCertificate)
    return certificate


def test_f2_of_the_paper_within_a_millionth_in_float64() -> None:
    p = Polynomial.parse(F2, names(10))
    certificate = softmax_certificate(softmax(ridge_form(p), Fraction(4)), p)
    assert certificate.scale >= 4**5
    assert certificate.bound(torch.float64) < 1e-12 * certificate.scale
    assert certificate.errors["float64"].leakage < 1e-18  # type: ignore[operator]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", CHOICES, ids=str)
def test_f2_against_a_long_attack(dtype: torch.dtype) -> None:
    p = Polynomial.parse(F2, names(10))
    heads, span = CHOICES[dtype]
    blueprint = softmax(ridge_form(p), Fraction(4), Extrapolation(heads, Fraction(span)))
    bound = softmax_certificate(blueprint, p).bound(dtype)
    module = SoftmaxTransformer(blueprint, dtype)
    worst = max(
        worst_error(module, blueprint, p, dtype, count=2000, rounds=8, seed=seed)
        for seed in range(3)
    )
    assert worst <= Fraction(bound) < 100 * worst


@pytest.mark.slow
def test_random_models_against_an_adversary() -> None:
    rng = random.Random(7)
    for k in range(60):
        d, q = rng.choice([(1, 3), (1, 8), (2, 2), (2, 4), (3, 4), (4, 3), (6, 2)])
        p = random_polynomial(rng, d, q, rng.choice(["sparse", "dense", "monomial", "mixed"]))
        dtype = rng.choice([torch.float64, torch.float32])
        chosen = Extrapolation(rng.randint(1, 12), Fraction(2) ** rng.randint(-3, 2))
        blueprint = softmax(ridge_form(p), rng.choice(RADII), chosen)
        bounds = certify_blueprint(blueprint, p).rounding[str(dtype)[6:]]
        if bounds.value is not None:
            module = SoftmaxTransformer(blueprint, dtype)
            worst = worst_error(module, blueprint, p, dtype, count=30, rounds=6, seed=k)
            assert worst <= Fraction(bounds.value)


def test_the_bound_is_the_sum_of_its_causes() -> None:
    certificate = softmax_certificate(BLUEPRINT, P)
    for name, error in certificate.errors.items():
        if error.total is None:
            continue
        assert error.truncation is not None
        assert error.leakage is not None
        assert error.rounding is not None
        parts = error.truncation + error.leakage + error.rounding
        assert error.total == pytest.approx(parts, rel=1e-12)
        assert certificate.bound(name) == certificate.bound(name, "literal") == error.total
        bound = certificate.bound(name)
        assert list(bound.parts) == ["truncation", "leakage", "rounding"]
        assert bound.parts["truncation"] == error.truncation
        assert bound.parts["leakage"] == error.leakage
        assert bound.parts["rounding"] >= 0
        assert sum(bound.parts.values()) == pytest.approx(bound.total, rel=1e-12)


def test_what_is_neither_truncation_nor_leakage_is_rounding() -> None:
    certificate = softmax_certificate(BLUEPRINT, P)
    total = certificate.bound("float64").total
    error = replace(certificate.errors["float64"], truncation=total / 2, leakage=total / 8)
    bound = replace(certificate, errors={"float64": error}).bound("float64")
    assert bound.parts == {
        "truncation": total / 2,
        "leakage": total / 8,
        "rounding": total * 3 / 8,
    }


def test_no_zero_error_and_no_fused_form_are_claimed() -> None:
    certificate = softmax_certificate(BLUEPRINT, P)
    assert not certificate.zero_error
    assert certificate.executors == ("literal",)
    with pytest.raises(InputError, match="softmax model runs as 'literal' only"):
        certificate.bound(torch.float64, "fused")


def test_the_certificate_is_a_document() -> None:
    certificate = softmax_certificate(BLUEPRINT, P)
    plain = json.loads(json.dumps(certificate.to_dict()))
    assert SoftmaxCertificate.from_dict(plain) == certificate
    assert plain["zero_error"] is False
    text = str(certificate)
    for word in ("attention", "identity", "truncation", "leakage", "rounding", "float32"):
        assert word in text
    del plain["errors"]
    with pytest.raises(InputError, match="not the certificate of a softmax model"):
        SoftmaxCertificate.from_dict(plain)


@pytest.mark.parametrize(
    ("text", "variables"),
    [("0", ["x"]), ("5/3", []), ("7", ["x", "y"]), ("2 x - 1", ["x", "y"]), ("x^2", ["x"])],
)
@pytest.mark.parametrize("radius", ["1/1000000", "1", "1000000"])
def test_degenerate_models_are_within_their_bounds(
    text: str, variables: list[str], radius: str
) -> None:
    """No degree, no variable, one token, no term: without attention the ordinary certificate holds."""
    p = Polynomial.parse(text, variables)
    blueprint = softmax(ridge_form(p), Fraction(radius))
    certificate = certify_blueprint(blueprint, p)
    assert isinstance(certificate, SoftmaxCertificate) == (p.degree > 1)
    bound = certificate.bound(torch.float64, "literal")
    module = SoftmaxTransformer(blueprint)
    for share in (-1.0, 0.0, 0.3, 1.0):
        x = np.zeros((1, len(variables)))
        x[:, :1] = share * float(Fraction(radius))
        exact = p.at(x[0].tolist())
        assert abs(Fraction(module(torch.from_numpy(x)).item()) - exact) <= Fraction(bound)


def test_a_vector_is_certified_component_by_component() -> None:
    target = Target.coerce(["x^2 + y^2", "x y"])
    blueprint = construct("softmax", ridge_forms(list(target), "lattice"), Fraction(1), target)
    certificate = certify_blueprint(blueprint, target)
    single = certify_blueprint(
        replace(blueprint, readouts=blueprint.readouts[:1], vector=False), target.polynomials[0]
    )
    assert single.bound("float64") <= certificate.bound("float64")
    with pytest.raises(IdentityError, match="output 2 of the model"):
        certify_blueprint(blueprint, Target.coerce(["x^2 + y^2", "2 x y"]))


ALTERED = ("query", "key", "value")


@pytest.mark.parametrize("name", ALTERED)
def test_no_weight_of_a_head_can_be_altered_unnoticed(name: str) -> None:
    """Each entry in turn: the proof fails, or the bound still covers what the altered model does."""
    before = softmax_certificate(BLUEPRINT, P).bound(torch.float64)
    head, *others = BLUEPRINT.blocks[-1].attention.heads
    matrix = getattr(head, name)
    refused = 0
    for place, value in matrix.entries.items():
        entries = {**matrix.entries, place: value * Fraction(101, 100)}
        altered = replace(head, **{name: Matrix.of(*matrix.shape, entries)})
        last = BLUEPRINT.blocks[-1]
        attention = replace(last.attention, heads=(altered, *others))
        blueprint = replace(
            BLUEPRINT, blocks=(*BLUEPRINT.blocks[:-1], replace(last, attention=attention))
        )
        try:
            bound = certify_blueprint(blueprint, P).bound(torch.float64)
        except CertificationError:
            refused += 1
            continue
        # A mask that is a little weaker or stronger changes nothing of the function.
        assert bound == pytest.approx(before, rel=0.01)
        module = SoftmaxTransformer(blueprint)
        worst = worst_error(module, blueprint, P, torch.float64, count=10, rounds=2)
        assert worst <= Fraction(bound)
    assert refused >= 1


def test_certificates_of_exact_models_are_not_softmax_certificates() -> None:
    certificate = certify_blueprint(
        softmax(ridge_form(Polynomial.parse("x")), Fraction(1)), Polynomial.parse("x")
    )
    assert type(certificate) is PolynomialCertificate
    assert certificate.zero_error


def test_a_value_inherits_the_errors_of_what_it_reads() -> None:
    """Block 1 leaves 3/4 up to what σ has beyond its linear part; block 2 hands that on as a value."""
    w = 5
    first = attention_block(w, [(1, {(0, 0): 1}, {(0, 0): 1}, {(3, 1): 1})], Rule.SOFTMAX)
    second = attention_block(w, [(1, {}, {}, {(4, 3): 2})], Rule.SOFTMAX)
    constant = {(0, 0): 1, (0, 1): 1, (1, 2): 1}
    blueprint = hand_made({}, 2, 1, w, constant, [first, second], {(0, 4): 1})
    certificate = certify_blueprint(blueprint, Target.coerce("5/4", ["x1"]))
    assert isinstance(certificate, SoftmaxCertificate)
    value = 1 / (1 + math.exp(-1)) + 0.5  # what two tokens with the logits 1 and 0 give in the end
    assert float(PolynomialModel(blueprint, Proof(certificate))([0.5])) == pytest.approx(value)
    bound = certificate.bound("float64")
    assert 1.25 - value < bound < 3 * (1.25 - value)
    assert certificate.errors["float64"].truncation > certificate.errors["float64"].rounding


def test_a_block_without_heads_is_refused() -> None:
    empty = attention_block(2, [], Rule.SOFTMAX)
    blueprint = hand_made({(0, 0): 1}, 1, 1, 2, {}, [empty], {(0, 0): 1})
    with pytest.raises(CertificationError, match="no head"):
        certify_blueprint(blueprint, Target.coerce("x1"))
