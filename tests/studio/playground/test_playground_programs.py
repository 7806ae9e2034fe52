"""Programs in the playground: every number is the library's, every example is the library's program."""

from __future__ import annotations

import runpy
from dataclasses import asdict, replace
from html import unescape
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import exactformer as ef
from exactformer import rasp
from exactformer.errors import ExactformerError
from exactformer.programs import library
from exactformer.programs.compile import REALISATIONS as LIBRARY_REALISATIONS
from exactformer.programs.grammar import LONGEST_TEXT, parse_program
from exactformer.studio.playground import programs
from exactformer.studio.playground.frames import encode
from exactformer.studio.playground.programs import (
    EXAMPLES,
    MOST_EXPRESSIONS,
    ProgramRequest,
    describe,
    follow,
    input_of,
    shown,
    vocabulary_of,
)
from exactformer.studio.web.markup import minus

API = "/api/v1/playground/programs"
INDUCTION = EXAMPLES["induction"].request


def of_the_library(name: str) -> rasp.SOp:
    return library.make_addition(2, 10) if name == "addition" else library.program_named(name)


def model_of(request: ProgramRequest) -> Any:
    return ef.compile_program(
        parse_program(request.program),
        vocabulary=vocabulary_of(request),
        max_length=request.max_length,
        causal=request.attention == "causal",
        realisation=request.realisation,
    )


def test_the_choices_are_the_librarys() -> None:
    assert tuple(LIBRARY_REALISATIONS) == programs.CHOICES["realisation"]
    assert programs.LONGEST_PROGRAM <= LONGEST_TEXT


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_the_librarys_program(name: str) -> None:
    request = EXAMPLES[name].request
    read, built, causal = (
        parse_program(request.program),
        of_the_library(name),
        request.attention == "causal",
    )
    tokens = vocabulary_of(request)[-3:]
    for n in range(1, 5):
        for xs in product(tokens, repeat=n):
            assert rasp.evaluate(read, xs, causal) == rasp.evaluate(built, xs, causal)


@pytest.mark.spread(6)
@pytest.mark.parametrize("realisation", programs.CHOICES["realisation"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_output_stream_and_patterns_are_the_models(name: str, realisation: str) -> None:
    request = replace(EXAMPLES[name].request, realisation=realisation)
    way, tokens = follow(request), input_of(request)
    assert encode(way)
    assert way["output"] == way["program"]
    model = model_of(request)
    assert way["output"] == [shown(value) for value in model.decode([tokens])[0]]
    values = model.expressions(tokens)
    last = way["steps"][-1]["stream"]
    assert len(last) >= 1
    for held in last:
        assert held["values"] == [shown(value) for value in values[held["name"]]]
    trace = model.trace(model.encode(tokens))
    heads = [step for step in way["steps"] if step["kind"] == "head"]
    assert tuple((step["layer"], step["head"]) for step in heads) == model.circuit().heads
    for step in heads:
        weights = trace[f"{step['name']}: {step['selector']}"].tolist()
        for row, exact in zip(step["pattern"], weights, strict=True):
            assert row == pytest.approx(exact, abs=1e-6)
            assert len(row) == len(way["positions"])


@pytest.mark.spread(5)
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_model_is_described_by_its_own_certificate_and_circuit(name: str) -> None:
    request = EXAMPLES[name].request
    described, model = describe(request), model_of(request)
    assert encode(described)
    assert described["digest"] == model.certificate.blueprint_digest
    assert described["sizes"] == model.blueprint.sizes
    assert [proof["claim"] for proof in described["certificate"]["proofs"]] == [
        claim.text for claim in model.certificate.claims
    ]
    circuit = model.circuit()
    assert [part["name"] for part in described["circuit"]] == [c.name for c in circuit.components]
    reads = [read for part in described["circuit"] for read in part["reads"]]
    targets = {component.name for component in circuit.components}
    assert {(r["source"], r["through"]) for r in reads} == {
        (e.source, e.through) for e in circuit.edges if e.target in targets
    }


def test_a_heads_step_names_its_selector_and_what_it_writes() -> None:
    steps = {step["name"]: step for step in follow(INDUCTION)["steps"]}
    head = steps["layer 2, head 0"]
    assert head["selector"] == "(follows) and (last)"
    assert "Writes induction." in head["words"]
    assert {held["name"] for held in head["stream"] if held["is_new"]} == {"induction"}


def test_tokens_are_characters_words_or_numbers() -> None:
    def read(vocabulary: str, text: str) -> tuple[list[Any], list[Any]]:
        request = ProgramRequest(vocabulary=vocabulary, input=text)
        return vocabulary_of(request), input_of(request)

    assert read("ab1", "1a") == (["a", "b", "1"], ["1", "a"])
    assert read("0, 1, -2", "10") == ([0, 1, -2], [1, 0])
    assert read("0, 1, -2", "-2, 0") == ([0, 1, -2], [-2, 0])
    assert read("red, green", "red") == (["red", "green"], ["red"])
    assert read("red, green", "green red") == (["red", "green"], ["green", "red"])
    assert read("abc", "") == (["a", "b", "c"], ["a", "b", "c", "a"])
    assert read(" ", "") == ([], [])


def test_the_script_rebuilds_the_same_model(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(follow(INDUCTION)["script"])
    made = runpy.run_path(str(script))
    assert made["model"].certificate.blueprint_digest == describe(INDUCTION)["digest"]
    assert [shown(value) for value in made["output"]] == follow(INDUCTION)["output"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"program": "tokens.x"}, "line 1, column 1"),
        ({"program": "tokens +"}, "line 1"),
        ({"program": "tokens" + " + 1" * 500}, "the playground's limit is 2,000"),
        ({"max_length": 0}, "1 to 10 tokens"),
        ({"vocabulary": "a" * 201}, "200 characters"),
        ({"vocabulary": "abcdefghijklm"}, "13 tokens"),
        ({"vocabulary": "a,,b"}, "no token between two commas"),
        ({"attention": "up"}, "choose one of"),
        ({"realisation": "soft"}, "choose one of"),
        ({"input": "abz"}, "not in the vocabulary"),
        ({"input": ","}, "at least one token"),
        ({"program": "Aggregate(Select(tokens, tokens, TRUE), tokens)"}, "different values"),
    ],
)
def test_what_cannot_be_is_refused_in_words(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ExactformerError, match=words):
        follow(ProgramRequest(**changes))


def test_too_many_expressions_are_refused_before_anything_is_compiled() -> None:
    lines = ["x0 = indices", *(f"x{k} = x{k - 1} + 1" for k in range(1, MOST_EXPRESSIONS + 2))]
    with pytest.raises(ExactformerError, match="expressions; the playground's limit is 80"):
        follow(ProgramRequest("\n".join(lines)))


def test_the_script_is_what_the_library_says(studio: Any) -> None:
    script = studio.get(f"{API}/script.py", params=asdict(INDUCTION))
    assert script.text == follow(INDUCTION)["script"]
    assert 'filename="program.py"' in script.headers["content-disposition"]


@pytest.mark.spread(5)
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_has_its_page(studio: Any, name: str) -> None:
    page = studio.get("/playground/programs", params={"library": name})
    assert page.status_code == 200
    text = " ".join(unescape(page.text).split())
    for claim in describe(EXAMPLES[name].request)["certificate"]["proofs"]:
        assert minus(claim["claim"]) in text
    assert EXAMPLES[name].statement in text
    assert text.count('class="card stack pg-step-card"') == len(
        follow(EXAMPLES[name].request)["steps"]
    )


def test_a_text_wins_over_a_name_and_markup_stays_text(studio: Any) -> None:
    asked = {"library": "sort", "program": "Full('<script>')", "vocabulary": "a"}
    page = studio.get("/playground/programs", params=asked)
    assert page.status_code == 200
    assert "&lt;script&gt;" in page.text
    assert "'<script>'" not in page.text


def test_a_wrong_program_has_its_reason_and_its_place_on_the_page(studio: Any) -> None:
    page = studio.get("/playground/programs", params={"program": "x = tokens[0]\nx"})
    assert page.status_code == 422
    assert "subscript is not of the language" in page.text
    assert "(line 1, character 5)" in page.text
    assert "x = tokens[0]\nx</textarea>" in page.text
