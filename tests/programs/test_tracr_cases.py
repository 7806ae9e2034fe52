"""tracr's own test cases: all certified, without error by hard maxima, within the bound by softmax."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import torch

import exactformer as ef
from exactformer import rasp
from tests.cases import tracr
from tests.cases.programs import all_inputs


def ideal(model: ef.ProgramModel, values: list[Any]) -> list[list[Fraction]]:
    """Return what an output without any error is."""
    if model.program.numerical:
        return [[Fraction(value)] for value in values]
    return [[Fraction(value == other) for other in model.values] for value in values]


def test_they_are_all_here() -> None:
    tested = {**tracr.under_both(), **tracr.everywhere()}
    names = [name for row in tested.values() for name in row.cases]
    names += [f"{name}, causal" for row in tracr.causal().values() for name in row.cases]
    assert len(names) == len(set(names)) == 54
    assert len(tracr.contributed()) + len(tracr.refused()) == 11


@pytest.mark.spread(15)
@pytest.mark.parametrize("name", tracr.ROWS)
def test_a_case_of_tracr_has_no_error_by_hard_maxima_and_is_within_the_bound_by_softmax(
    name: str,
) -> None:
    row = tracr.ROWS[name]
    for realisation, dtype in (("hard", torch.float64), ("softmax", torch.float32)):
        model = ef.compile_program(
            row.program,
            vocabulary=row.vocabulary,
            max_length=row.max_length,
            causal=row.causal,
            realisation=realisation,
            dtype=dtype,
        )
        bound = model.certificate.bound()
        for xs, wanted in row.cases.values():
            assert rasp.evaluate(row.program, xs, row.causal) == wanted
            assert model.decode([list(xs)])[0] == wanted
            ids, right = model.encode(xs), ideal(model, wanted)
            if realisation == "hard":
                assert model.certificate.zero_error
                assert model.exact(ids) == right
            exact = torch.tensor([[float(v) for v in line] for line in right], dtype=torch.float64)
            away = model(ids).double() - exact
            assert away.abs().max() <= bound
        inputs = all_inputs(list(model.vocabulary), row.max_length, 40)
        assert model.decode(inputs) == [rasp.evaluate(row.program, xs, row.causal) for xs in inputs]
