"""What workers answer is what the API's description says, field by field."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from exactformer.studio.playground import jobs, models, polynomial
from exactformer.studio.playground.couplings import CouplingRequest
from exactformer.studio.playground.polynomial import PolynomialRequest
from exactformer.studio.playground.programs import ProgramRequest
from exactformer.studio.playground.sequences import SequenceRequest

PLAIN = asdict(PolynomialRequest())
SOFTMAX = asdict(PolynomialRequest("x1^2", "1", "softmax"))
SEQUENCE = asdict(SequenceRequest())
PROGRAM = asdict(ProgramRequest())


@pytest.mark.parametrize(
    ("job", "asked", "model"),
    [
        ("polynomial", PLAIN, models.PolynomialOut),
        ("polynomial", SOFTMAX, models.PolynomialOut),
        ("trace", PLAIN | {"x": ""}, models.TraceOut),
        ("surface", PLAIN | {"x": "", "axes": ""}, models.SurfaceOut),
        ("surface", SOFTMAX | {"x": "", "axes": ""}, models.SurfaceOut),
        ("sequence", SEQUENCE | {"input": ""}, models.SequenceOut),
        ("journey", SEQUENCE, models.JourneyOut),
        ("coupling", asdict(CouplingRequest()), models.CouplingOut),
        ("program", PROGRAM | {"input": ""}, models.ProgramOut),
        ("run", PROGRAM, models.ProgramRunOut),
    ],
)
def test_an_answer_has_exactly_the_fields_of_its_model(
    job: str, asked: dict[str, Any], model: Any
) -> None:
    answer = json.loads(json.dumps(jobs.JOBS[job](asked)))
    assert model.model_validate(answer).model_dump(mode="json", exclude_unset=True) == answer


@pytest.mark.parametrize("text", ["x^2 + 3 x y", "x^2 + (", "", "x^2 + 3xy", "1/0"])
def test_a_parsed_text_is_described(text: str) -> None:
    found = polynomial.parse(text)
    model: Any = models.ParsedOut if found["ok"] else models.NotParsedOut
    assert model.model_validate(found).model_dump(exclude_unset=True) == found
