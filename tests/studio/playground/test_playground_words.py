"""The words of the playground: refusals with remedies, and the walk of a point in its own numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exactformer.errors import ExactformerError, SizeError
from exactformer.studio.playground import polynomial, traces
from exactformer.studio.playground.jobs import JOBS
from exactformer.studio.playground.polynomial import EXPLAINED, PolynomialRequest
from exactformer.studio.playground.refusals import plain, worded
from exactformer.studio.playground.sequences import SequenceRequest
from exactformer.studio.playground.worker import answer

PYTHON = ("memory_limit", "outside=", "Fraction", "Python", "directions=", "variables=", "delta=")


def refusal(job: str, request: Any, **more: str) -> dict[str, Any]:
    """What a worker answers to a request that it refuses."""
    asked = json.dumps([job, vars(request) | more]).encode()
    found: dict[str, Any] = json.loads(answer(JOBS, asked))
    assert found["error"] == "input"
    assert not any(word in found["message"] for word in PYTHON)
    return found


def accepted(job: str, request: Any, remedy: dict[str, Any], **more: str) -> None:
    """Apply a remedy, as the button does; the request must then be answered."""
    changed = {"polynomial" if k == "p" else k: v for k, v in remedy["set"].items()}
    asked = vars(request) | more | changed
    asked = {k: int(v) if k in ("cells", "tokens") else v for k, v in asked.items()}
    assert "result" in json.loads(answer(JOBS, json.dumps([job, asked]).encode()))


def test_a_run_of_letters_is_a_product_after_one_press() -> None:
    said = polynomial.parse("3xy + z")
    assert said["ok"] is False
    assert not any(word in said["problem"] for word in PYTHON)
    mended = polynomial.parse(said["remedy"]["set"]["p"])
    assert mended["text"] == polynomial.parse("3 x y + z")["text"]
    found = refusal("polynomial", PolynomialRequest("3xy + z"))
    accepted("polynomial", PolynomialRequest("3xy + z"), found["remedy"])


def test_a_function_is_refused_without_words_of_python() -> None:
    said = polynomial.parse("sin(x)")
    assert said["problem"] == "sin is a function, and text holds polynomials only"
    assert not any(word in said["problem"] for word in PYTHON)


def test_one_of_anything_is_told_as_one() -> None:
    too_large = worded(SizeError(""), {"polynomial": "x^60", "directions": "auto"})
    assert "Degree 60 in 1 variable needs" in str(too_large)


def test_a_point_outside_can_be_moved_inside() -> None:
    request = PolynomialRequest("x^2 + y", "1/3")
    found = refusal("trace", request, x="1,-2")
    assert "nothing is proven" in found["message"]
    assert "point 0" not in found["message"]
    accepted("trace", request, found["remedy"], x="1,-2")


def test_a_transformer_that_is_too_large_has_a_way_out() -> None:
    found = refusal("polynomial", PolynomialRequest("x^5 y^5 z^5 w^5"))
    assert "32 MiB" in found["message"]
    assert found["remedy"] is None
    few = PolynomialRequest("x1^9 + x2 + x3 + x4 + x5 + x6", directions="lattice")
    accepted("polynomial", few, refusal("polynomial", few)["remedy"])


@pytest.mark.parametrize("asked", [(5, 32), (4, 32), (5, 12)])
def test_a_grid_that_is_too_fine_is_made_coarser(asked: tuple[int, int]) -> None:
    request = SequenceRequest(tokens=asked[0], cells=asked[1])
    found = refusal("sequence", request)
    assert "6,000" in found["message"]
    assert 1 < int(found["remedy"]["set"]["cells"]) < asked[1]
    accepted("sequence", request, found["remedy"])


def test_plain_words_stay_as_they_are() -> None:
    assert plain("the kernel is zero") == "the kernel is zero"
    assert plain("raise memory_limit=") == "raise memory_limit="  # better than nothing


@pytest.mark.parametrize("choice", EXPLAINED)
def test_every_choice_is_explained(choice: str) -> None:
    assert tuple(EXPLAINED[choice]) == polynomial.CHOICES[choice]


@pytest.mark.parametrize("dimension", [1, 2, 3, 9, 24])
@pytest.mark.parametrize("radius", ["1", "1/3", "4"])
def test_the_first_point_lies_inside_and_tells_something(dimension: int, radius: str) -> None:
    from fractions import Fraction

    point = [float(c) for c in polynomial.telling_point(dimension, Fraction(radius)).split(",")]
    assert len(point) == dimension
    assert all(point)
    assert (
        0.5 * float(Fraction(radius)) < sum(c * c for c in point) ** 0.5 < float(Fraction(radius))
    )


def walk_of(text: str, x: str, **choices: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = traces.trace(PolynomialRequest(text, **choices), x)["walk"]
    return found


def test_the_walk_says_what_the_theorem_says() -> None:
    """One direction at x = 1/2: 0.5, then 0.5² + 3, then 0.25, then its weight times that."""
    tokens, block, readout = walk_of("8 x^2", "0.5")
    assert "1·0.5 = 0.5" in tokens["words"]
    assert "3.25" in block["words"]
    assert "3.25 − 3 = 0.25, stored as power 2" in block["words"]
    assert "That is 0.5 · 0.5: feature squared." in block["words"]
    assert "8·0.25 = 2, the transformer's answer" in readout["words"]
    assert [step["part"] for step in (tokens, block, readout)] == [
        "embedding",
        "block-1",
        "readout",
    ]


@pytest.mark.parametrize("construction", polynomial.CHOICES["construction"])
def test_every_construction_can_be_walked_through(construction: str) -> None:
    steps = walk_of("x^3 - 3 x y^2 + 1", "0.6,0.4", construction=construction)
    assert [steps[0]["title"], steps[-1]["title"]] == ["Tokens", "Readout"]
    for step in steps[1:-1]:
        assert len(step["scores"]) == len(step["features"])
        assert step["words"].startswith(("Token", "This block"))
        assert "power" in step["words"] or "Chebyshev" in step["words"]
    assert "0.928" in steps[-1]["words"]


@pytest.mark.parametrize(("text", "x"), [("3", ""), ("x", "0.5"), ("0 x", "0.25")])
def test_small_models_can_be_walked_through(text: str, x: str) -> None:
    try:
        steps = walk_of(text, x)
    except ExactformerError as error:
        pytest.fail(str(error))
    assert steps[-1]["title"] == "Readout"


def test_the_disk_reaches_the_rim_and_lies_in_the_ball() -> None:
    found = traces.surface(PolynomialRequest("x^2 + y^2 + z", "3/2"), "0,0,0.9")
    places = found["disk"]["places"]
    sizes = [(u * u + v * v) ** 0.5 for u, v in places]
    assert max(sizes) == pytest.approx(1.2, rel=1e-5)
    assert sizes[0] == 0
    assert len(found["disk"]["model"]) == len(places)
    assert max(map(abs, found["disk"]["difference"])) <= found["bound"]
    assert traces.surface(PolynomialRequest("x^2"), "0.5")["disk"] is None
