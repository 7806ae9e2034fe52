"""From target to model: every step once, and what a step hands on is what a check reads anew."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch

import exactformer as ef
from exactformer.algebra import Polynomial, Target
from exactformer.core.integrity import check_against_blueprint
from exactformer.core.matrix import Matrix
from exactformer.errors import InputError, WeightMismatchError
from exactformer.polynomials import transformer
from exactformer.polynomials.compile import local_forms
from exactformer.polynomials.constructions import CONSTRUCTIONS, construct
from exactformer.polynomials.model import PolynomialModel
from exactformer.polynomials.proof import certify
from exactformer.polynomials.proof.certify import Proof, prove
from exactformer.polynomials.transformer import closed_form
from tests.cases.targets import CASES, Case


@pytest.mark.spread(12)
@pytest.mark.parametrize("construction", CONSTRUCTIONS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_slack_of_a_proof_does_not_change_the_closed_form(
    case: Case, construction: str
) -> None:
    """Proofs are about a slightly larger domain; its P_i are those of the domain, exactly."""
    blueprint = ef.compile(case.target, construction=construction, **case.where).blueprint
    target = Target.coerce(case.target, blueprint.variables)
    assert prove(blueprint, target).form == closed_form(blueprint)


@pytest.mark.spread(4)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_model_built_from_its_proof_is_the_one_built_from_its_blueprint(case: Case) -> None:
    for dtype in (torch.float64, torch.float32):
        check_against_blueprint(ef.compile(case.target, dtype=dtype, **case.where))


def test_no_step_is_taken_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: Counter[str] = Counter()

    def count(place: Any, name: str) -> None:
        step = getattr(place, name)

        def counted(*given: Any, **options: Any) -> Any:
            steps[name] += 1
            return step(*given, **options)

        monkeypatch.setattr(place, name, counted)

    for place in (certify, transformer):
        count(place, "run_symbolic")
        count(place, "fuse")
    count(Polynomial, "_parsed")
    ef.compile("(x + 2 y - z)^4 - 5 x y z + 1", radius=2)
    assert steps == {"run_symbolic": 1, "fuse": 1, "_parsed": 1}


def test_a_proof_with_another_form_is_noticed() -> None:
    """What a model was built from is not believed: it is compared with what its weights say."""
    target = Target.coerce("(x + 2 y - z)^4 - 5 x y z + 1")
    domain = ef.compile("x").blueprint.domain
    blueprint = construct("scaled", local_forms(target, domain), domain, target)
    proof = prove(blueprint, target)
    assert proof.form is not None
    doubled = tuple(
        Matrix.of(*m.shape, {(i, j): 2 * v for i, j, v in m}) for m in proof.form.coefficients
    )
    for forged in (
        replace(proof, form=replace(proof.form, coefficients=doubled)),
        replace(proof, form=replace(proof.form, biases=(Fraction(3),))),
    ):
        model = PolynomialModel(blueprint, forged, executor="fused")
        with pytest.raises(WeightMismatchError):
            check_against_blueprint(model)
        with pytest.raises(WeightMismatchError):
            ef.certify(model)
    check_against_blueprint(PolynomialModel(blueprint, Proof(proof.certificate), executor="fused"))


def test_a_model_keeps_nothing_of_its_proof_but_the_certificate() -> None:
    model = ef.compile("x^2 + 3 x y", radius=2)
    assert not any(isinstance(value, Proof) for value in vars(model).values())
    assert model._record.statement == model.certificate


def test_a_certificate_alone_is_refused_with_the_new_spelling() -> None:
    model = ef.compile("x^2")
    with pytest.raises(InputError, match=r"Proof\(certificate\)"):
        PolynomialModel(model.blueprint, model.certificate)  # type: ignore[arg-type]
