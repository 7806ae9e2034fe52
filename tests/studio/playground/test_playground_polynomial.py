"""What the playground shows of a polynomial is what the library says, number for number."""

from __future__ import annotations

import runpy
from base64 import b64decode
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import exactformer as ef
from exactformer.algebra.ridge import FAMILIES
from exactformer.core.formats import FORMATS
from exactformer.errors import ExactformerError, OutsideDomainError, SizeError
from exactformer.polynomials.constructions import APPROXIMATIONS
from exactformer.polynomials.constructions import CONSTRUCTIONS as EXACT
from exactformer.polynomials.constructions.paper import TheoremCounts
from exactformer.polynomials.files import digest
from exactformer.studio.playground import polynomial
from exactformer.studio.playground.frames import encode
from exactformer.studio.playground.panels import LONGEST, MOST, exact_text, values_panel
from exactformer.studio.playground.polynomial import (
    PolynomialRequest,
    compiled,
    describe,
    model_file,
    parse,
    read,
)
from exactformer.studio.playground.traces import MOST_HEADS, surface, trace

REQUESTS = [
    PolynomialRequest("x^3 - 3 x y^2"),
    PolynomialRequest("1/3 x^2 y - 0.1 y + 7", "5/2", "paper", "lattice"),
    PolynomialRequest("x^4 + y^4 - x y", "2", "doubling", "spread", "float32"),
    PolynomialRequest("x^5 - x", "1/3", "chebyshev"),
    PolynomialRequest("x^2 - y^2", "1", "softmax"),
    PolynomialRequest("x y", "1", "scaled", "tailored", "bfloat16"),
    PolynomialRequest("5/7", "1"),
]
FREE_OF_ROUNDING = [r for r in REQUESTS if r.dtype == "float64"]


def library(request: PolynomialRequest) -> ef.PolynomialModel:
    """The model as a reader of the script would make it."""
    return ef.compile(
        request.polynomial,
        radius=request.radius,
        construction=request.construction,
        directions=request.directions,
        dtype=getattr(torch, request.dtype),
    )


def dense(panel: dict) -> np.ndarray:
    array = np.zeros(panel["shape"])
    for i, j, value, *_ in panel["entries"]:
        array[i, j] = value
    return array


def point(request: PolynomialRequest) -> str:
    """A point inside, exact in every format."""
    return ",".join(["1/8", "-1/16"][: len(read(request.polynomial).variables)])


def test_the_choices_are_the_librarys() -> None:
    assert set(polynomial.CHOICES["construction"]) == {*EXACT, *APPROXIMATIONS}
    assert set(polynomial.CHOICES["directions"]) == set(FAMILIES)
    assert set(polynomial.CHOICES["dtype"]) == set(FORMATS)


@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_counts_certificate_and_digest_are_the_models(request_: PolynomialRequest) -> None:
    shown, model = describe(request_), library(request_)
    assert encode(shown)
    assert shown["certificate"]["numbers"] == model.certificate.to_dict()
    assert shown["certificate"]["text"] == str(model.certificate)
    assert shown["certificate"]["zero_error"] is model.certificate.zero_error
    assert shown["digest"] == digest(model.blueprint)
    counts = model.blueprint.counts()
    theorem = TheoremCounts(counts.tokens, len(model.blueprint.variables), model.blueprint.degree)
    rows = {row["name"]: row for row in shown["counts"]}
    assert rows["tokens n"]["model"] == f"{counts.tokens:,}"
    assert rows["non-zeros in all"]["model"] == f"{counts.total:,}"
    assert rows["free parameters"]["formula"] == f"{theorem.free:,}"
    assert rows["non-zeros in all"]["bound"] == f"{theorem.total_bound:,}"
    assert len(shown["blocks"]) == counts.depth


@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_every_matrix_is_there_with_its_exact_entries(request_: PolynomialRequest) -> None:
    shown = {panel["path"]: panel for panel in describe(request_)["matrices"]}
    matrices = {p: m for p, m in library(request_).blueprint.matrices() if m.rows * m.columns}
    assert shown.keys() == matrices.keys()
    for path, matrix in matrices.items():
        panel = shown[path]
        assert panel["shape"] == list(matrix.shape)
        assert [len(panel["rows"]), len(panel["columns"])] == list(matrix.shape)
        texts = {(i, j): text for i, j, _, text in panel["entries"]}
        assert texts == {place: exact_text(v) for place, v in matrix.entries.items()}
        short = {place: Fraction(t) for place, t in texts.items() if "…" not in t}
        assert short == {place: matrix.entries[place] for place in short}


@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_the_trace_is_the_librarys(request_: PolynomialRequest) -> None:
    shown, model = trace(request_, point(request_)), library(request_)
    x = torch.tensor(shown["x"], dtype=model.dtype)
    seen = model.trace(x)
    for stream in shown["streams"]:
        assert (dense(stream) == seen[stream["name"]].double().numpy()).all()
        assert stream["columns"] == list(model.blueprint.dimensions)
    for head in shown["attention"]:
        for part in ("scores", "selection"):
            assert (dense(head[part]) == seen[f"{head['name']} {part}"].double().numpy()).all()
    assert shown["output"] == float(model(x))
    assert shown["literal"] == float(seen["output"])
    exact = read(request_.polynomial).at(shown["x"])
    assert Fraction(shown["target_exact"]) == exact
    assert shown["difference"] == float(abs(Fraction(shown["output"]) - exact)) <= shown["bound"]
    assert shown["bound"] == model.certificate.bound(model.dtype, model.executor)
    names = [s["name"] for s in shown["streams"]]
    assert names[0] == "tokens"
    assert len(names) == 1 + 2 * model.blueprint.depth
    assert len(shown["attention"]) == min(shown["heads"], MOST_HEADS)


@pytest.mark.parametrize("request_", FREE_OF_ROUNDING, ids=str)
def test_surfaces_hold_the_models_values_inside_the_ball_only(request_: PolynomialRequest) -> None:
    shown, model = surface(request_), library(request_)
    radius, names = Fraction(request_.radius), model.blueprint.variables
    assert shown["axes"] == list(names[:2])
    places = {
        (i, j): [shown["line"][k] for k in (i, j)[: len(names)]]
        for i, row in enumerate(shown["model"])
        for j in range(len(row))
    }
    inside = [k for k, place in places.items() if sum(Fraction(c) ** 2 for c in place) <= radius**2]
    assert len(inside) == shown["points"]
    outside = places.keys() - set(inside)
    assert all(shown[grid][i][j] is None for grid in ("model", "target") for i, j in outside)
    if not inside:
        assert not names
        return
    values = model([places[k] for k in inside]).tolist()
    assert [shown["model"][i][j] for i, j in inside] == values
    for (i, j), value in zip(inside[::7], values[::7], strict=True):
        exact = read(request_.polynomial).at(places[i, j])
        assert shown["target"][i][j] == float(exact)
        assert shown["difference"][i][j] == float(Fraction(value) - exact)
    assert shown["largest_difference"] <= shown["bound"]


def test_a_slice_goes_through_x_along_the_axes_named() -> None:
    request = PolynomialRequest("a + 2 b c", "2")
    shown = surface(request, "1,1/2,-1/4", "c,a")
    assert shown["axes"] == ["c", "a"]
    i, j = 20, 9
    c, a = shown["line"][i], shown["line"][j]
    assert shown["model"][i][j] == pytest.approx(a + 2 * 0.5 * c, abs=1e-14)
    for axes in ("d", "a,b,c", "a,a"):
        with pytest.raises(ExactformerError, match="axes="):
            surface(request, "", axes)


def test_narrow_formats_stay_inside_the_ball() -> None:
    shown = surface(PolynomialRequest("x^2 + y^2", "1/3", dtype="bfloat16"))
    assert shown["points"] > 500
    assert shown["largest_difference"] <= shown["bound"]


def test_points_are_read_exactly_and_outside_ones_refused() -> None:
    request = PolynomialRequest("x^2 + y", "1")
    assert trace(request, " 1/2 , -0.25 ")["x"] == [0.5, -0.25]
    assert trace(request)["x"] == [0.0, 0.0]
    with pytest.raises(OutsideDomainError, match="where nothing is proven"):
        trace(request, "1,1")
    for wrong in ("1", "1,2,3", "a,b", "1,nan", f"0,{'1' * 100}", "1e999999999,0", "-1e999,0"):
        with pytest.raises(ExactformerError):
            trace(request, wrong)


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("x^2 + $ y", 7, "unexpected character"),
        ("x +", 4, "the text ends"),
        ("(x + y", 1, "never closed"),
        ("sin(x)", 1, "is a function"),
        ("3xy + z", 2, "write x y"),
        ("y = x^2", 3, "give one side"),
        ("x^1000", None, "degree"),
        ("(x + y + z)^40", None, "limit"),
        (" + ".join(f"x{k}" for k in range(30)), None, "variables"),
        ("x" * 3000, None, "3,000 characters"),
        ("", 1, "the text ends"),
    ],
)
def test_what_is_no_polynomial_is_answered_with_the_place(
    text: str, column: int | None, words: str
) -> None:
    said = parse(text)
    assert not said["ok"]
    assert said["column"] == column
    assert words in said["problem"]
    with pytest.raises(ExactformerError):
        compiled(PolynomialRequest(text))


@given(st.text(alphabet="xyz0123456789+-*/^(). ²·", max_size=40))
def test_any_text_gets_an_answer(text: str) -> None:
    said = parse(text)
    if said["ok"]:
        assert ef.Polynomial.parse(said["text"], said["variables"]) == read(text)
    else:
        assert said["problem"]
    assert encode(said)


@pytest.mark.spread(3)
@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_the_script_rebuilds_the_same_model(
    request_: PolynomialRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = describe(request_)
    script = tmp_path / "polynomial.py"
    script.write_text(shown["script"])
    monkeypatch.chdir(tmp_path)
    made = runpy.run_path(str(script))["model"]
    assert digest(made.blueprint) == shown["digest"]
    again = ef.load(tmp_path / "model.safetensors", dtype=made.dtype)
    assert digest(again.blueprint) == shown["digest"]


def test_the_file_is_the_saved_model(tmp_path: Path) -> None:
    request = REQUESTS[1]
    path = tmp_path / "model.safetensors"
    path.write_bytes(b64decode(model_file(request)["file"]))
    assert digest(ef.load(path).blueprint) == describe(request)["digest"]


@pytest.mark.parametrize(
    "request_",
    [
        PolynomialRequest("(x1 + x2 + x3 + x4 + x5 + x6)^6", directions="lattice"),
        PolynomialRequest("x", "1e400"),
        PolynomialRequest("x", "0"),
        PolynomialRequest("x", "one"),
    ],
    ids=str,
)
def test_what_is_too_large_or_senseless_is_refused(request_: PolynomialRequest) -> None:
    with pytest.raises(ExactformerError):
        describe(request_)


def test_requests_are_bounded() -> None:
    with pytest.raises(SizeError, match="60 characters"):
        PolynomialRequest(radius="1" * 61)
    for name in ("construction", "directions", "dtype"):
        with pytest.raises(ExactformerError, match="choose one of"):
            PolynomialRequest(**{name: "other"})


def test_large_matrices_are_drawn_in_blocks_and_say_so() -> None:
    values = np.zeros((100, 3))
    values[99, 2] = -4.0
    panel = values_panel(values, [f"token {k + 1}" for k in range(100)], ["a", "b", "c"])
    assert panel["shape"] == [100, 3]
    assert panel["blocks"] == [MOST, 3]
    assert panel["entries"] == [[MOST - 1, 2, -4.0]]
    assert panel["rows"][-1].endswith("token 100")
    assert panel["columns"] == ["a", "b", "c"]


def test_long_rationals_are_shortened_with_their_digits() -> None:
    assert exact_text(Fraction(-22, 7)) == "-22/7"
    text = exact_text(Fraction(10**500 + 1, 3))
    assert len(text) <= LONGEST
    assert text.endswith("(502 digits)")
