"""The module of a program: tokens and ids, padding, names, files without code, proofs of files."""

from __future__ import annotations

import copy
from fractions import Fraction
from pathlib import Path

import pytest
import torch

import exactformer as ef
from exactformer import rasp
from exactformer.errors import (
    CertificationError,
    FileFormatError,
    InputError,
    OutsideDomainError,
    WeightMismatchError,
)
from exactformer.programs import library
from exactformer.programs.files import load_program


@pytest.fixture(scope="module")
def reverse() -> ef.ProgramModel:
    return ef.compile_program(library.make_reverse(), vocabulary="abc", max_length=5)


@pytest.fixture(scope="module")
def induction() -> ef.ProgramModel:
    return ef.compile_program(
        library.make_induction(), vocabulary="abc", max_length=8, causal=True, realisation="softmax"
    )


def test_decode_takes_one_sequence_or_several_of_any_length(reverse: ef.ProgramModel) -> None:
    assert reverse.decode(["a", "b"]) == ["b", "a"]
    assert reverse.decode("abc") == ["c", "b", "a"]
    assert reverse.decode([["a"], ["b", "c", "a"], list("ab")]) == [["a"], list("acb"), list("ba")]
    assert reverse.decode(["ab", "c"]) == [list("ba"), ["c"]]
    assert reverse.decode([]) == []
    with pytest.raises(OutsideDomainError, match="vocabulary"):
        reverse.decode(["a", "z"])
    with pytest.raises(OutsideDomainError, match="up to 5"):
        reverse.decode("aaaaaa")
    with pytest.raises(InputError):
        reverse.decode([["a"], []])
    with pytest.raises(InputError):
        reverse.decode(3)


def test_padding_changes_nothing(reverse: ef.ProgramModel, induction: ef.ProgramModel) -> None:
    for model in (reverse, induction):
        alone = model([0, 2])
        padded = model(torch.tensor([[0, 2, -1, -1], [1, 1, 1, 0]]))
        assert torch.allclose(padded[0, :2], alone, atol=1e-12)
        assert (padded[0, 2:] == 0).all()
        with pytest.raises(OutsideDomainError, match="after the end"):
            model([[0, -1, 1]])


@pytest.mark.parametrize("padding", [0, 1, 3])
def test_padding_is_no_token_in_rational_arithmetic_either(padding: int) -> None:
    """Tokens after the end were once counted."""
    hist = ef.compile_program(library.make_hist(), vocabulary="ab", max_length=5)
    ids = [0, 0, *[-1] * padding]
    assert hist.exact(ids) == [list(map(Fraction, row)) for row in hist(ids).tolist()]


def test_exact_reads_tokens_as_a_call_does(reverse: ef.ProgramModel) -> None:
    wanted = reverse.exact([0, 2])
    for same in (torch.tensor([0, 2]), (0.0, Fraction(2)), torch.tensor([0, 2]).numpy()):
        assert reverse.exact(same) == wanted
    for wrong in ([0.4, 1.9], ["0", "2"], [[0, 2]], [True, False], torch.tensor([True])):
        with pytest.raises(InputError):
            reverse.exact(wrong)


@pytest.mark.parametrize("expression", [library.make_reverse(), library.make_hist() / 2])
def test_nothing_is_decoded_from_what_is_not_a_number(expression: rasp.SOp) -> None:
    model = ef.compile_program(expression, vocabulary="ab", max_length=3, outside="nan")
    with pytest.raises(OutsideDomainError, match="NaN stands for no value"):
        model.decode_output(model([[0, 1], [0, 7]]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_trace_has_the_format_of_the_model(dtype: torch.dtype) -> None:
    """What may not be attended to is far below all scores, as far as half formats go."""
    before = library.make_frac_prevs(rasp.tokens == "a")
    model = ef.compile_program(before, vocabulary="ab", max_length=3, causal=True, dtype=dtype)
    trace = model.trace([0, 1])
    assert {tensor.dtype for tensor in trace.values()} == {dtype}
    assert all(bool(tensor.isfinite().all()) for tensor in trace.values())


def test_trace_and_circuit_name_expressions(induction: ef.ProgramModel) -> None:
    trace = induction.trace(induction.encode("abab"))
    assert {"embedding", "output", "previous token", "rank", "total", "induction"} <= set(trace)
    assert any(name.startswith("layer 0, head 0: 1 before") for name in trace)
    circuit = induction.circuit()
    heads = [c for c in circuit.components if c.kind == "head"]
    assert [set(c.computes) for c in heads] == [
        {"previous token"},
        {"rank"},
        {"total"},
        {"induction"},
    ]
    assert circuit.heads == ((0, 0), (1, 0), (1, 1), (2, 0))
    reads = {(e.source, e.through) for e in circuit.edges if e.target == "layer 2, head 0"}
    assert ("embedding", "value") in reads
    assert any(through == "key" and "rank" in source for source, through in reads)
    assert "previous token" in str(circuit)
    assert circuit.to_dict()["edges"]


def test_expressions_have_their_values_by_name(reverse: ef.ProgramModel) -> None:
    values = reverse.expressions("abc")
    assert values["opposite index"] == [2, 1, 0]
    assert values["reverse"] == ["c", "b", "a"]


def test_a_file_holds_tables_and_no_code(reverse: ef.ProgramModel, tmp_path: Path) -> None:
    path = tmp_path / "reverse.safetensors"
    reverse.save(path)
    blueprint, program = load_program(path)
    assert program == reverse.program
    assert blueprint == reverse.blueprint
    assert program("ab") == ["b", "a"]
    loaded = ef.load(path, dtype=torch.float32)
    assert loaded.decode("abc") == ["c", "b", "a"]
    content = path.read_bytes()
    path.write_bytes(content[:-40] + bytes(40))
    with pytest.raises(FileFormatError):
        ef.load(path)


def test_certify_compares_with_a_program(reverse: ef.ProgramModel, tmp_path: Path) -> None:
    path = tmp_path / "reverse.safetensors"
    reverse.save(path)
    assert ef.certify(path, library.make_reverse()).zero_error
    otherwise = rasp.Aggregate(
        rasp.Select(rasp.length - rasp.indices, rasp.indices + 1, rasp.Comparison.EQ), rasp.tokens
    )
    assert ef.certify(reverse, otherwise).zero_error  # written differently, equal on all 363 inputs
    with pytest.raises(CertificationError, match="gives"):
        ef.certify(path, library.make_copy())
    with pytest.raises(InputError, match="expression"):
        ef.certify(path, "reverse")


def test_changed_weights_are_noticed_and_copies_may_be_changed() -> None:
    model = ef.compile_program(library.make_hist(), vocabulary="ab", max_length=3)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.network.layers[0].attention.W_Q.weight[0, 0] += 1
    assert model.decode("aab") == [2, 2, 1]
    with pytest.raises(WeightMismatchError):
        _ = twin.certificate


def test_a_program_that_counts_needs_a_beginning_token_and_others_do_not() -> None:
    with pytest.raises(InputError, match="beginning=True"):
        ef.compile_program(library.make_hist(), vocabulary="ab", max_length=3, beginning=False)
    with pytest.raises(InputError, match="may select nothing"):
        ef.compile_program(library.shift_by(1), vocabulary="ab", max_length=3, beginning=False)
    for realisation in ("hard", "softmax"):
        model = ef.compile_program(
            library.make_frac_prevs(rasp.tokens == "a"),
            vocabulary="ab",
            max_length=4,
            beginning=False,
            realisation=realisation,
        )
        assert model.blueprint.tokens.rows == 2
        assert model.decode([["a", "b"], ["b"]]) == [[1, Fraction(1, 2)], [0]]


def test_options_that_make_no_sense_are_refused() -> None:
    def compile(**options: object) -> None:
        given = {"vocabulary": "ab", "max_length": 3, **options}
        ef.compile_program(rasp.tokens, **given)

    for options in (
        {"vocabulary": "aa"},
        {"vocabulary": ""},
        {"vocabulary": 3},
        {"max_length": 0},
        {"max_length": 2.5},
        {"realisation": "soft"},
        {"sharpness": 3},
        {"realisation": "softmax", "sharpness": -1},
        {"realisation": "softmax", "sharpness": "sharp"},
        {"executor": "fused"},
        {"outside": "allow"},
    ):
        with pytest.raises(InputError):
            compile(**options)
    with pytest.raises(InputError, match="selector"):
        ef.compile_program(
            rasp.Select(rasp.tokens, rasp.tokens, rasp.Comparison.EQ), vocabulary="ab", max_length=2
        )


def test_a_sharpness_that_is_too_small_is_refused_with_the_expression() -> None:
    with pytest.raises(CertificationError, match="hist"):
        ef.compile_program(
            library.make_hist(), vocabulary="ab", max_length=8, realisation="softmax", sharpness=1
        )
    model = ef.compile_program(
        library.make_hist(), vocabulary="ab", max_length=8, realisation="softmax", sharpness=8
    )
    assert model.decode("aab") == [2, 2, 1]


def test_what_tracr_gets_wrong_is_right() -> None:
    """Widths from ten on, means in maps, flags as keys, None at the first position, shared means."""
    fraction = library.make_frac_prevs(rasp.tokens == "a")
    often = rasp.Map(lambda x: x > Fraction(3, 5), fraction)
    some = rasp.Map(lambda x: x > Fraction(2, 5), fraction)
    same = rasp.SelectorWidth(rasp.Select(some, some, rasp.Comparison.EQ))
    cases = [
        (library.make_length(), "ab", 12, "aaaaaaaaaaaa", [12] * 12),
        (library.make_reverse(), "ab", 10, "aaaaabbbbb", list("bbbbbaaaaa")),
        (often, "ab", 3, "aba", [1, 0, 1]),
        (same, "ab", 3, "bba", [3, 3, 3]),
        (library.shift_by(1), "ab", 2, "bb", [None, "b"]),
    ]
    for expression, vocabulary, length, xs, wanted in cases:
        model = ef.compile_program(
            expression,
            vocabulary=vocabulary,
            max_length=length,
            realisation="softmax",
            dtype=torch.float32,
        )
        assert model.decode(xs) == wanted == rasp.evaluate(expression, xs)
