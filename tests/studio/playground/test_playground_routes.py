"""The playground's routes: the same numbers as JSON, file and page; limits; state in the address."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import exactformer as ef
from exactformer.studio.errors import BusyError
from exactformer.studio.playground import couplings, sequences, traces
from exactformer.studio.playground.couplings import CouplingRequest
from exactformer.studio.playground.polynomial import (
    COST_NOTES,
    EXAMPLES,
    LONGEST_TEXT,
    PolynomialRequest,
    describe,
)
from exactformer.studio.playground.programs import LONGEST_PROGRAM
from exactformer.studio.playground.sequences import SequenceRequest
from exactformer.studio.security.rates import Rates
from exactformer.studio.settings import Rate

API = "/api/v1/playground"
SCRIPT = "programs/script.py"
ASKED = {
    "p": "x^2 - 1/3 x y",
    "radius": "3/2",
    "construction": "paper",
    "directions": "lattice",
    "dtype": "float32",
}
REQUEST = PolynomialRequest(*ASKED.values())


def plain(data: Any) -> Any:
    """Data as it is after a journey through JSON."""
    return json.loads(json.dumps(data))


class Controls(HTMLParser):
    """The controls of the form of a page, by name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.values: dict[str, str] = {}
        self._select = self._text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag == "input" and known.get("name"):
            self.values[str(known["name"])] = known.get("value") or ""
        elif tag == "textarea":
            self._text = known.get("name") or ""
            self.values[self._text] = ""
        elif tag == "select":
            self._select = known.get("name") or ""
        elif tag == "option" and "selected" in known:
            self.values[self._select] = known.get("value") or ""

    def handle_data(self, data: str) -> None:
        if self._text:
            self.values[self._text] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._text = ""


@contextmanager
def changed(studio: Any, **settings: Any) -> Iterator[None]:
    """Other settings for a while, and nothing counted so far."""
    state = studio.app.state
    before = state.settings, state.rates
    state.settings, state.rates = replace(state.settings, **settings), Rates()
    yield
    state.settings, state.rates = before


def test_a_polynomial_as_json_is_what_the_library_says(studio: Any) -> None:
    answer = studio.get(f"{API}/polynomial", params=ASKED)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == plain(describe(REQUEST))


def test_traces_and_surfaces_as_json_are_what_the_library_says(studio: Any) -> None:
    x = {"x": "0.5,-1/4"}
    shown = studio.get(f"{API}/polynomial/trace", params=ASKED | x).json()
    assert shown == plain(traces.trace(REQUEST, x["x"]))
    shown = studio.get(f"{API}/polynomial/surface", params=ASKED | x | {"axes": "y,x"}).json()
    assert shown == plain(traces.surface(REQUEST, x["x"], "y,x"))


def test_sequences_and_couplings_as_json_are_what_the_library_says(studio: Any) -> None:
    asked = SequenceRequest("reverse", 2, 1, 4, "four-layer", "yes", "0.1,0.9")
    shown = studio.get(f"{API}/sequences/journey", params=asdict(asked)).json()
    assert shown == plain(sequences.journey(asked))
    shown = studio.get(f"{API}/sequences", params=asdict(asked)).json()
    assert shown == plain(sequences.describe(asked))
    kernel = {"kernel": "gaussian", "parameter": 5, "m": 2}
    shown = studio.get(f"{API}/couplings", params=kernel).json()
    assert shown["singular_values"] == pytest.approx(
        couplings.decompose(CouplingRequest("gaussian", 5.0, head_dim=2))["singular_values"]
    )


def test_the_model_comes_as_a_file_that_loads(studio: Any, tmp_path: Path) -> None:
    answer = studio.get(f"{API}/polynomial/model.safetensors", params=ASKED)
    assert 'filename="model.safetensors"' in answer.headers["content-disposition"]
    path = tmp_path / "model.safetensors"
    path.write_bytes(answer.content)
    assert ef.load(path).certificate.blueprint_digest == describe(REQUEST)["digest"]


def test_the_law_comes_as_a_file_for_coq(studio: Any) -> None:
    answer = studio.get(f"{API}/polynomial/law.v", params=ASKED)
    assert 'filename="law.v"' in answer.headers["content-disposition"]
    assert f"{describe(REQUEST)['digest']}.\n" in answer.text
    assert answer.text.endswith("certify region. Qed.\n\nPrint Assumptions law.\n")


def test_scripts_come_as_files(studio: Any) -> None:
    answer = studio.get(f"{API}/polynomial/script.py", params=ASKED)
    assert answer.text == describe(REQUEST)["script"]
    assert "attachment" in answer.headers["content-disposition"]
    answer = studio.get(f"{API}/sequences/script.py", params={"tokens": 2, "cells": 4})
    assert "sequence_map('sort')" in answer.text


def test_reading_says_where_the_error_is(studio: Any) -> None:
    said = studio.get(f"{API}/polynomial/parse", params={"p": "x^2 + $ y"}).json()
    assert (said["ok"], said["column"]) == (False, 7)
    said = studio.get(f"{API}/polynomial/parse", params={"p": "1/2 (x+1)^2"}).json()
    assert said["latex"] == r"\frac{1}{2} x^{2} + x + \frac{1}{2}"


@pytest.mark.parametrize(
    ("path", "params", "words"),
    [
        ("polynomial", {"p": "x +"}, "should stand (character 4)"),
        ("polynomial", {"p": "x" * (LONGEST_TEXT + 1)}, "p: at most 2000 characters"),
        ("polynomial", {"p": "x\0"}, "NUL"),
        ("polynomial", {"construction": "literal"}, "construction"),
        ("polynomial", {"radius": "-1"}, "positive"),
        ("polynomial/trace", {"x": "2,2"}, "nothing is proven"),
        ("polynomial/trace", {"x": "1"}, "coordinates"),
        ("polynomial/surface", {"axes": "z"}, "no variable"),
        ("polynomial/model.safetensors", {"p": "sin(x)"}, "is a function"),
        ("sequences", {"map": "soort"}, "did you mean sort"),
        ("sequences", {"tokens": 99}, "tokens"),
        ("sequences/journey", {"input": "1,2"}, "finite numbers"),
        ("couplings", {"kernel": "drawn", "drawing": "1"}, "a drawing is"),
        ("couplings", {"parameter": "nan"}, "parameter"),
        (
            SCRIPT,
            {"program": "x = tokens\ny = x.f\ny"},
            "the name alone (line 2, character 5)",
        ),
        (
            SCRIPT,
            {"program": "x" * (LONGEST_PROGRAM + 1)},
            "program: at most",
        ),
        (SCRIPT, {"max_length": 11}, "max_length"),
        (
            SCRIPT,
            {"vocabulary": "abcdefghijklmnop"},
            "16 tokens; the playground's limit is 12",
        ),
        (SCRIPT, {"vocabulary": "aa"}, "twice"),
        (SCRIPT, {"vocabulary": " "}, "at least one token"),
        (SCRIPT, {"program": "tokens + 1"}, "+ takes numbers"),
        (SCRIPT, {"attention": "causal"}, "does not see the length"),
        (SCRIPT, {"input": "abd"}, "not in the vocabulary"),
        (SCRIPT, {"input": "abcabca"}, "proven up to 6"),
    ],
)
def test_wrong_input_is_refused_in_words(
    studio: Any, path: str, params: dict[str, Any], words: str
) -> None:
    answer = studio.get(f"{API}/{path}", params=params)
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["status"] == 422
    assert words in error["message"]


def test_new_constructions_are_counted_and_known_ones_are_free(studio: Any) -> None:
    with changed(studio, compile_rate=Rate(2, 3600), explore_rate=Rate(3, 3600)):
        ask = lambda p: studio.get(f"{API}/polynomial", params={"p": p}).status_code  # noqa: E731
        assert [ask("x^2 + 41"), ask("x^2 + 42"), ask("x^2 + 43")] == [200, 200, 429]
        assert [ask("x^2 + 41")] * 3 == [200] * 3
        look = lambda p, x: studio.get(  # noqa: E731
            f"{API}/polynomial/trace", params={"p": p, "x": x}
        )
        assert look("x^2 + 43", "0").status_code == 429  # its model would be new
        assert [look("x^2 + 42", f"0.{k}").status_code for k in range(3)] == [200, 200, 429]
        refused = look("x^2 + 42", "0.9")
        assert int(refused.headers["retry-after"]) >= 1


@pytest.mark.parametrize("place", [f"{API}/couplings", "/playground/couplings"])
def test_a_kernel_is_looked_at_and_never_compiled_and_a_known_one_is_free(
    studio: Any, place: str
) -> None:
    kernel = 0.31 if place.startswith(API) else 0.32
    ask = lambda k: studio.get(place, params={"parameter": kernel + k}).status_code  # noqa: E731
    with changed(studio, compile_rate=Rate(1, 3600), explore_rate=Rate(3, 3600)):
        assert [ask(1), ask(2), ask(3), ask(4)] == [200, 200, 200, 429]
        assert [ask(1), ask(2), ask(3)] == [200, 200, 200]


def test_a_studio_without_a_free_worker_says_when_to_come_back(
    studio: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(job: str, asked: Any, asker: str) -> bytes:
        raise BusyError("all workers are taken")

    monkeypatch.setattr(studio.app.state.playground, "answer", busy)
    answer = studio.get(f"{API}/polynomial", params={"p": "x^2 + 99"})
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    page = studio.get("/playground/polynomial", params={"p": "x^2 + 99"})
    assert page.status_code == 503
    assert "all workers are taken" in page.text


@pytest.mark.parametrize(
    ("path", "state"),
    [
        (
            "polynomial",
            ASKED
            | {
                "x": "0.5,-1/4",
                "axes": "y,x",
                "part": "block-2",
                "head": "3",
                "show": "difference",
            },
        ),
        (
            "sequences",
            {
                "map": "reverse",
                "tokens": "2",
                "dim": "1",
                "cells": "4",
                "form": "four-layer",
                "positional": "yes",
                "input": "0.1,0.9",
                "step": "3",
            },
        ),
        (
            "couplings",
            {
                "kernel": "drawn",
                "formula": "u - v",
                "drawing": "0,1;1,0.5",
                "m": "1",
                "parameter": "2.5",
            },
        ),
        ("couplings", {"kernel": "gaussian", "parameter": "7", "m": "6"}),
        (
            "programs",
            {
                "program": "x = tokens == '<b>'\nx & (indices < 2)",
                "vocabulary": "a, <b>",
                "max_length": "3",
                "attention": "causal",
                "realisation": "softmax",
                "input": "a, <b>",
                "step": "1",
            },
        ),
    ],
)
def test_the_form_of_a_page_holds_what_its_address_says(
    studio: Any, path: str, state: dict[str, str]
) -> None:
    page = studio.get(f"/playground/{path}", params=state)
    assert page.status_code == 200
    controls = Controls(page.text).values
    assert {name: controls[name] for name in state} == state
    again = studio.get(f"/playground/{path}", params=controls)
    assert Controls(again.text).values == controls


def test_a_page_says_the_numbers_before_any_script_runs(studio: Any) -> None:
    page = studio.get("/playground/polynomial", params=ASKED | {"x": "0.5,-1/4"}).text
    shown = describe(REQUEST)
    assert shown["digest"] in page
    for row in shown["counts"]:
        assert f">{row['model']}</td>" in page
    assert str(traces.trace(REQUEST, "0.5,-1/4")["output"]) in page
    page = studio.get("/playground/couplings?kernel=minimum&m=2").text
    assert "0.04503" in page  # 1 / (1.5 π)²


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_a_bound_is_never_printed_below_itself(studio: Any, dtype: str) -> None:
    asked = {"p": "x^2 + 3 x y", "construction": "softmax", "dtype": dtype, "x": "0.6,0.4"}
    page = studio.get("/playground/polynomial", params=asked).text
    found = describe(PolynomialRequest(asked["p"], "1", "softmax", "auto", dtype))
    total = re.findall(r"error ≤ ([\d.e+−]+), proven", page)
    there = re.findall(r"≤ ([\d.e+−]+), the certified bound", page)
    for (printed,) in (total, there):
        assert float(printed.replace("−", "-")) >= found["certificate"]["bound"]


def test_one_is_not_many_and_a_fraction_is_a_decimal(studio: Any) -> None:
    page = re.sub(r"<[^>]+>", "", studio.get("/playground/polynomial?p=3").text)
    assert "1 non-zero weight\n" in page
    assert "1 token of 3 dimensions from 0 variables" in page
    asked = {"p": "x^2 - 3 x y", "dtype": "float16", "x": "0.6,0.4"}
    page = studio.get("/playground/polynomial", params=asked).text
    assert '<dd title="exactly -377303/1048576">-0.35982418060302734</dd>' in page


@pytest.mark.parametrize("construction", COST_NOTES)
def test_what_it_costs_is_said_of_the_construction_at_hand(studio: Any, construction: str) -> None:
    page = studio.get("/playground/polynomial", params={"p": "x^2", "construction": construction})
    said = unescape(page.text)
    assert [note for note in COST_NOTES.values() if note in said] == [COST_NOTES[construction]]


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("polynomial?construction=literal", "choose one of scaled"),
        ("polynomial?radius=" + "1" * 70, "60 characters"),
        ("polynomial?radius=-1", "positive"),
        ("sequences?tokens=50", "tokens is 1 to 5"),
        ("sequences?cells=many", "is no number"),
        ("couplings?m=99", "0 to 32 dimensions"),
        ("couplings?kernel=minimum&parameter=nan", "finite number"),
        ("couplings?kernel=sinc", "choose one of"),
        ("programs?attention=sideways", "choose one of everywhere"),
        ("programs?max_length=50", "has 1 to 10 tokens"),
        ("programs?program=import os", "(line 1, character 1)"),
        ("programs?input=xyz", "not in the vocabulary"),
    ],
)
def test_what_is_wrong_stands_on_the_page_above_its_form(
    studio: Any, address: str, words: str
) -> None:
    page = studio.get(f"/playground/{address}")
    assert page.status_code == 422
    assert words in page.text.replace("&#39;", "'")
    assert 'id="controls"' in page.text


def test_a_text_that_is_no_polynomial_has_its_error_under_the_character(studio: Any) -> None:
    page = studio.get("/playground/polynomial", params={"p": "x^2 + $ y <b>"})
    assert page.status_code == 422
    assert f'aria-hidden="true">{" " * 6}^</pre>' in page.text
    assert page.text.count("(character 7)") == 1
    assert "<b>" not in page.text


def test_limits_on_the_page_are_those_of_the_settings(studio: Any) -> None:
    with changed(studio, compile_seconds=7.5, compile_bytes=3 << 29, compile_rate=Rate(11, 60)):
        for path in ("", "/polynomial", "/sequences", "/couplings", "/programs"):
            page = studio.get(f"/playground{path}").text
            assert "7.5 seconds" in page
            assert "1.5 GiB" in " ".join(page.split())
            assert "11 in 60 seconds" in page


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_built(studio: Any, name: str) -> None:
    asked = asdict(EXAMPLES[name])
    page = studio.get("/playground/polynomial", params={"p": asked.pop("polynomial"), **asked})
    assert page.status_code == 200
    assert "proven" in page.text


@pytest.mark.parametrize("x", ["nan,0", "0,inf", "-inf,nan", "one,two", ","])
def test_what_is_no_point_is_told_and_the_page_begins_elsewhere(studio: Any, x: str) -> None:
    page = studio.get("/playground/polynomial", params={"p": "x y", "x": x})
    assert page.status_code == 422
    problem = re.search(r'id="problem-words">([^<]*)', page.text)
    assert problem is not None
    words = unescape(problem[1])
    assert "is not a finite number" in words
    assert "outside of the ball" not in page.text
    assert Controls(page.text).values["x"] == describe(PolynomialRequest("x y"))["start"]


def test_a_point_of_another_polynomial_gives_way_to_one_of_this(studio: Any) -> None:
    page = studio.get("/playground/polynomial", params={"p": "x^3", "x": "0.6,0.4"})
    assert page.status_code == 200
    assert Controls(page.text).values["x"] == describe(PolynomialRequest("x^3"))["start"]
