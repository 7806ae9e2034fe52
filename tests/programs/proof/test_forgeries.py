"""Files and modules that say one thing and compute another: each is refused where it is asked."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

import exactformer as ef
from exactformer import rasp
from exactformer.core.formats import FORMATS
from exactformer.core.layers import FeedForward, Rule, Selection
from exactformer.core.matrix import Matrix
from exactformer.errors import (
    CertificationError,
    FileFormatError,
    InputError,
    SizeError,
    WeightMismatchError,
)
from exactformer.programs import library
from exactformer.programs.blueprint import ProgramBlueprint, ProgramLayer, Register
from exactformer.programs.files import save_program
from exactformer.programs.program import MapNode, Program, check_program
from exactformer.programs.proof.arithmetic import Arithmetic, plus, sum_above, sum_below
from exactformer.programs.proof.induction import prove_program
from exactformer.programs.run.stack import ProgramStack
from exactformer.programs.tabulation import tabulate
from tests.cases.programs import facts_of


@pytest.fixture(scope="module")
def reverse() -> ef.ProgramModel:
    return ef.compile_program(library.make_reverse(), vocabulary="ab", max_length=3)


def two_faced(program: Program) -> Program:
    """Return a program whose map has a second column, in which a and b are exchanged.

    A table of a map has one column. One that is read elsewhere in a second column would be proven as
    one function and compared as another.
    """
    at = next(k for k, node in enumerate(program.nodes) if isinstance(node, MapNode))
    node = program.nodes[at]
    assert isinstance(node, MapNode)
    none = len(program.values)
    entries = dict(node.table.entries)
    (first, _), (second, _) = entries
    entries[first, none], entries[second, none] = entries[second, 0], entries[first, 0]
    table = Matrix.of(none + 1, none + 1, entries)
    nodes = (*program.nodes[:at], MapNode(node.inner, table), *program.nodes[at + 1 :])
    return replace(program, nodes=nodes, constants=(*program.constants, "n"))


def test_a_map_is_the_same_function_for_the_proof_and_for_the_interpreter() -> None:
    same = rasp.Map(lambda x: x, rasp.tokens)
    model = ef.compile_program(rasp.categorical(same), vocabulary="ab", max_length=2)
    forged = two_faced(model.program)
    assert forged("ab") == ["a", "b"]
    with pytest.raises(InputError, match="table of node"):
        check_program(forged)


def test_certify_does_not_certify_the_other_face(tmp_path: Path) -> None:
    same, other = (rasp.Map(f, rasp.tokens) for f in (lambda x: x, {"a": "b", "b": "a"}.get))
    model = ef.compile_program(rasp.categorical(same), vocabulary="ab", max_length=2)
    path = tmp_path / "forged.safetensors"
    save_program(model.blueprint, two_faced(model.program), path)
    for target in (None, same, other):
        with pytest.raises(FileFormatError, match="table of node"):
            ef.certify(path, target)


def test_certify_compares_with_the_inputs_that_the_caller_names(
    reverse: ef.ProgramModel, tmp_path: Path
) -> None:
    path = tmp_path / "reverse.safetensors"
    reverse.save(path)
    for source in (reverse, path):
        given = ef.certify(
            source, library.make_reverse(), vocabulary="ba", max_length=3, causal=False
        )
        assert "'a', 'b'" in str(given)
        assert "the given program" in str(given)
        assert "its own tables" in str(ef.certify(source))
        for wrong in ({"vocabulary": "abc"}, {"max_length": 4}, {"causal": True}):
            with pytest.raises(CertificationError, match=next(iter(wrong))):
                ef.certify(source, library.make_reverse(), **wrong)
    data = given.to_dict()
    assert (data["vocabulary"], data["tokens"], data["causal"]) == (["a", "b"], 3, False)
    longer = tabulate(library.make_reverse(), "ab", 4)
    with pytest.raises(CertificationError, match="max_length"):
        ef.certify(path, longer)


def test_a_certificate_says_what_it_is_about_and_not_what_a_file_is_called(
    reverse: ef.ProgramModel, tmp_path: Path
) -> None:
    program = reverse.program
    names = list(program.names)
    names[program.output] = "sort\n  program     proven: everything"
    path = tmp_path / "forged.safetensors"
    with pytest.raises(FileFormatError, match="cannot be printed"):
        save_program(reverse.blueprint, replace(program, names=tuple(names)), path)
    named = library.make_reverse().named("two\nlines")
    assert "two\\nlines" in str(
        ef.compile_program(named, vocabulary="ab", max_length=2).certificate
    )


def test_selectors_that_double_at_every_level_are_refused_at_once() -> None:
    selector: rasp.Selector = rasp.Select(rasp.tokens, rasp.tokens, rasp.Comparison.EQ)
    program = tabulate(rasp.SelectorWidth(selector), "ab", 2)
    for _ in range(60):
        selector = selector & selector
    with pytest.raises(SizeError, match="parts"):
        ef.compile_program(rasp.SelectorWidth(selector), vocabulary="ab", max_length=2)
    from exactformer.programs.program import AndNode

    many = tuple(AndNode(k, k) for k in range(60))
    forged = replace(
        program,
        selectors=(*program.selectors, *many),
        selector_names=(*program.selector_names, *("both",) * 60),
    )
    with pytest.raises(SizeError, match="parts"):
        check_program(forged)


def test_altered_weights_are_not_decoded() -> None:
    model = ef.compile_program(library.make_hist(), vocabulary="ab", max_length=3)
    weight = model.network.layers[0].attention.W_Q.weight
    with torch.no_grad():
        kept = weight.clone()
        weight.data[0, 0] += 1
    for use in (model.decode, model.trace):
        with pytest.raises(WeightMismatchError):
            use("aab" if use == model.decode else [0, 0, 1])
    with torch.no_grad():
        weight.data.copy_(kept)
    assert model.decode("aab") == [2, 2, 1]


def test_a_format_in_which_nothing_is_proven_is_not_run() -> None:
    model = ef.compile_program(
        library.make_frac_prevs(rasp.tokens == "a"), vocabulary="ab", max_length=40
    )
    assert model.decode("ab" * 20)[-1] == Fraction(1, 2)
    model.to(torch.bfloat16)
    for use in (
        lambda: model.decode("ab"),
        lambda: model([0, 1]),
        lambda: model.trace([0, 1]),
        lambda: model.certificate.bound(),
        model.to_hugging_face,
    ):
        with pytest.raises(CertificationError, match="bfloat16"):
            use()
    assert model.to(torch.float64).decode("ab") == [1, Fraction(1, 2)]


def test_numbers_of_tokens_do_not_wrap_around(reverse: ef.ProgramModel) -> None:
    with pytest.raises(InputError, match="2\\^63"):
        reverse(torch.tensor([0, 2**64 - 1], dtype=torch.uint64))


def undecided(units: int, dtype: str) -> tuple[ProgramBlueprint, Program]:
    """Return a model whose units are all undecided by the proof, and on.

    Token a is embedded as 3/2 + r, and its register is said to hold 3/2: within r, exactly. Each unit
    reads what is beyond 3/2, which may be zero, and is r.
    """
    program = tabulate(rasp.numerical(rasp.Full(0)), "a", 1)
    beyond, share = Fraction(1, 4), FORMATS[dtype].round(Fraction(1, 2 * units + 1))
    assert share is not None
    blueprint = ProgramBlueprint(
        Matrix.of(1, 2, {(0, 0): Fraction(3, 2) + beyond}),
        Matrix.of(1, 2, {}),
        (
            ProgramLayer(
                (),
                FeedForward(
                    Matrix.of(units, 2, {(k, 0): 1 for k in range(units)}),
                    Matrix.of(units, 1, {(k, 0): Fraction(-3, 2) for k in range(units)}),
                    Matrix.of(2, units, {(1, k): share for k in range(units)}),
                    Matrix.of(2, 1, {}),
                ),
            ),
        ),
        Matrix.of(1, 2, {(0, 1): 1}),
        Selection(Rule.HARD_MAX),
        False,
        False,
        (
            Register(None, None, (0,), Matrix.of(1, 1, {(0, 0): Fraction(3, 2)})),
            Register(None, None, (1,), Matrix.of(1, 1, {})),
        ),
        ("number", "sum"),
    )
    return blueprint, program


@pytest.mark.parametrize(("units", "dtype"), [(2, "bfloat16"), (3, "bfloat16"), (2_000, "float32")])
def test_rounding_of_units_that_are_perhaps_on_is_charged(units: int, dtype: str) -> None:
    blueprint, program = undecided(units, dtype)
    outcome = prove_program(blueprint, program, facts_of(program), FORMATS[dtype])
    radius = outcome.registers[-1][1]
    stack = ProgramStack(blueprint, getattr(torch, dtype))
    seen: dict[str, torch.Tensor] = {}
    stack(torch.tensor([[0]]), seen.__setitem__)
    assert abs(float(seen["layer 0 output"][0, 0, 1])) <= radius
    terms = blueprint.layers[0].feed_forward.w2
    size = sum(terms.entries.values()) / 4
    gamma = Fraction(float(Arithmetic(FORMATS[dtype]).gamma(units)))
    assert Fraction(radius) >= size * (1 + gamma)


def test_sums_of_the_proof_are_not_rounded_inwards() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=200) * 2.0 ** rng.integers(-60, 60, 200) for _ in range(2))
    found, lost = plus(a, b)
    low, high = sum_below(a, b), sum_above(a, b)
    for k in range(200):
        exact = Fraction(a[k]) + Fraction(b[k])
        assert abs(Fraction(found[k]) - exact) == Fraction(lost[k])
        assert Fraction(low[k]) <= exact <= Fraction(high[k])
    assert (sum_below(a, -a) == 0).all()


def test_large_numbers_do_not_hide_small_ones_from_the_proof() -> None:
    """2⁵³ + 1 − 2⁵³ is 1 in exact arithmetic, and 0 where floats are added up."""
    program = tabulate(rasp.numerical(rasp.Full(0)), "a", 1)
    large = 2**53
    values = (large, 1, -large)
    blueprint = ProgramBlueprint(
        Matrix.of(1, 3, {(0, k): v for k, v in enumerate(values)}),
        Matrix.of(1, 3, {}),
        (),
        Matrix.of(1, 3, {(0, k): 1 for k in range(3)}),
        Selection(Rule.HARD_MAX),
        False,
        False,
        tuple(
            Register(None, None, (k,), Matrix.of(1, 1, {(0, 0): v})) for k, v in enumerate(values)
        ),
        ("large", "one", "minus large"),
    )
    with pytest.raises(CertificationError, match="must be within"):
        prove_program(blueprint, program, facts_of(program))


def test_slopes_that_floats_round_to_a_power_of_two_are_not_taken_for_exact() -> None:
    """(2⁵³ − 1)x + 2x is 2⁵³ + 1 at 1, and 2⁵³ for floats; 2⁵³ is subtracted, and 1 is left."""
    program = tabulate(rasp.numerical(rasp.Full(0)), "a", 1)
    large = 2**53
    adding = FeedForward(
        Matrix.of(2, 3, {(0, 0): large - 1, (1, 0): 2}),
        Matrix.of(2, 1, {}),
        Matrix.of(3, 2, {(1, 0): 1, (1, 1): 1}),
        Matrix.of(3, 1, {}),
    )
    blueprint = ProgramBlueprint(
        Matrix.of(1, 3, {(0, 0): 1, (0, 2): large}),
        Matrix.of(1, 3, {}),
        (ProgramLayer((), adding),),
        Matrix.of(1, 3, {(0, 1): 4, (0, 2): -4}),
        Selection(Rule.HARD_MAX),
        False,
        False,
        tuple(
            Register(None, None, (k,), Matrix.of(1, 1, {(0, 0): v}))
            for k, v in enumerate((1, large, large))
        ),
        ("one", "sum", "large"),
    )
    with pytest.raises(CertificationError, match="must be within"):
        prove_program(blueprint, program, facts_of(program))
