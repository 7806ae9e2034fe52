"""Constructions × directions × executors × formats: all agree within their certificates."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

import exactformer as ef
from exactformer.algebra import Target
from exactformer.errors import ExactformerError
from exactformer.polynomials.constructions import APPROXIMATIONS, CONSTRUCTIONS
from exactformer.polynomials.model import PolynomialModel
from exactformer.polynomials.proof.certificate import EXECUTORS
from exactformer.polynomials.proof.certify import Proof
from exactformer.polynomials.run.exact import run_exact
from tests.cases.targets import CASES, Case, points

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@pytest.mark.spread(27)
@pytest.mark.parametrize("directions", ["tailored", "lattice", "spread"])
@pytest.mark.parametrize("construction", CONSTRUCTIONS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_all_agree_within_their_certificates(
    case: Case, construction: str, directions: str
) -> None:
    if case.name == "f2" and directions != "tailored":
        pytest.skip("2002 tokens: a matter of minutes, not of mathematics")
    target = Target.coerce(case.target)
    model = ef.compile(case.target, construction=construction, directions=directions, **case.where)
    x = points(model.blueprint, 24)
    for row in x[:2]:
        outputs = run_exact(model.blueprint, row)
        assert outputs == (
            tuple(p.at(row) for p in target) if target.vector else target.polynomials[0].at(row)
        )
    ran = 0
    for dtype in DTYPES:
        for executor in EXECUTORS:
            try:
                bound = model.certificate.bound(dtype, executor)
                module = PolynomialModel(
                    model.blueprint, Proof(model.certificate), dtype, executor=executor
                )
            except ExactformerError:  # a format too small for this target
                assert dtype != torch.float64
                continue
            ran += 1
            inputs = torch.as_tensor(x).to(dtype)
            values = module(inputs).double().reshape(len(x), -1)
            for point, row in zip(inputs.double().tolist(), values.tolist(), strict=True):
                exact = [p.at(point) for p in target]
                assert all(
                    abs(Fraction(v) - e) <= Fraction(bound) for v, e in zip(row, exact, strict=True)
                ), (dtype, executor, point)
    assert ran >= 4


@pytest.mark.spread(3)
@pytest.mark.parametrize("construction", APPROXIMATIONS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_approximations_are_within_theirs(case: Case, construction: str) -> None:
    target = Target.coerce(case.target)
    for dtype in DTYPES[:2]:
        model = ef.compile(case.target, construction=construction, dtype=dtype, **case.where)
        bound = Fraction(model.certificate.bound(dtype))
        inputs = torch.as_tensor(points(model.blueprint, 24)).to(dtype)
        values = model(inputs).double().reshape(len(inputs), -1)
        for point, row in zip(inputs.double().tolist(), values.tolist(), strict=True):
            exact = [p.at(point) for p in target]
            assert all(abs(Fraction(v) - e) <= bound for v, e in zip(row, exact, strict=True))
