"""Theorems about programs and sequence maps: what Coq accepts, what it refuses, and what is said."""

import re
from fractions import Fraction
from itertools import product

import pytest

import exactformer as ef
from exactformer import rasp
from exactformer.coq.check import check_law
from exactformer.coq.prove import checked, law_of
from exactformer.core.certificate import Kind
from exactformer.errors import CertificationError, InputError, SizeError
from exactformer.programs.library import make_hist, make_reverse, make_sort
from tests.coq.hard_campaign import campaign, program_verdicts, sequence_verdicts

CLOSED = "Closed under the global context"


def reverse(longest: int = 3, vocabulary: str = "ab") -> ef.ProgramModel:
    return ef.compile_program(make_reverse(), vocabulary=vocabulary, max_length=longest)


def centred(cells: int = 4) -> ef.SequenceModel:
    return ef.compile_sequence(
        lambda x: x - x.mean(), tokens=2, dim=1, delta=Fraction(1, cells), support=(-1, 1)
    )


@pytest.mark.parametrize("make", [reverse, centred])
def test_a_model_is_proved_without_axioms_and_lists_the_check(coq, make, tmp_path):
    model = make()
    law = ef.prove(model, tmp_path / "law.v", check=True)
    assert law.checked.assumptions == CLOSED
    claim = model.certificate.claims[-1]
    assert (claim.name, claim.kind) == ("coq", Kind.PROVEN)
    assert law.digest in claim.text
    assert claim in law.certificate.claims
    assert law.certificate == ef.certify(model)
    assert law.theorem in (tmp_path / "law.v").read_text()


def test_a_file_is_proved_as_its_model_is(tmp_path):
    for model in (reverse(), centred()):
        model.save(tmp_path / "model.safetensors")
        assert law_of(tmp_path / "model.safetensors").text == law_of(model).text


WRONG_PROGRAMS = [
    ("1 |-> -32; 8 |-> 32", "1 |-> -32; 8 |-> 16"),
    ('Text "c"].', 'Text "c"; Text "d"].'),
    ("(Compare Equal)", "(Compare Less)"),
    ("length input <= 3", "length input <= 4"),
    ("(Number 1, Number 0)", "(Number 1, Number 1)"),
    ("beginning := true", "beginning := false"),
    ("looks_back := false", "looks_back := true"),
    ("result := ", "result := 1"),
    ('Directions [Text "a"; Text "b"', 'Directions [Text "b"; Text "a"'),
    ("diagonal 0 3 1", "diagonal 0 3 2"),
]
OTHER_ORDERS = [("(1, true)", "(1, false)"), ("Relus; ", ""), ("[Heads", "[Values; Heads")]


def test_altered_laws_of_programs_are_refused(coq):
    text = law_of(reverse(3, "abc")).text
    altered = [_altered(text, *pair) for pair in WRONG_PROGRAMS]
    assert program_verdicts(coq, altered) == ["WrongOn"] * len(altered)


def test_other_orders_of_the_steps_prove_the_same(coq):
    """An order is a hint: where it does not serve, inputs are compared one by one."""
    text = law_of(reverse(3, "abc")).text
    altered = [_altered(text, *pair) for pair in OTHER_ORDERS]
    assert program_verdicts(coq, altered) == ["Proved"] * len(altered)


WRONG_SEQUENCES = [
    ("[0 |-> 2]", "[0 |-> 3]", "WrongCell"),
    ("(3 # 4)", "(1 # 4)", "WrongCell"),
    ("(-1) <= q < 1", "(-1) <= q < 2", "NoGrid"),
    ("Grid (-1) (1 # 2) 4", "Grid (-1) 1 2", "WrongCell"),
    ("length x = 2%nat", "length x = 3%nat", "WrongCell"),
    ("length t = 1%nat", "length t = 2%nat", "NoGrid"),
    ("1 false", "1 true", "WrongCell"),
]


def test_altered_laws_of_sequence_maps_are_refused(coq):
    text = law_of(centred()).text
    altered = [_altered(text, old, new) for old, new, _ in WRONG_SEQUENCES]
    assert sequence_verdicts(coq, altered) == [verdict for _, _, verdict in WRONG_SEQUENCES]


@pytest.mark.parametrize(
    ("make", "old", "new", "words"),
    [
        (reverse, "(Compare Equal)", "(Compare Less)", "the program's output on [Text"),
        (centred, "(3 # 4)", "(1 # 4)", "the table's value in the cells [["),
    ],
)
def test_a_refusal_names_the_input(coq, make, old, new, words, tmp_path):
    model = make()
    altered = _altered(law_of(model).text, old, new)
    with pytest.raises(CertificationError) as caught:
        check_law(altered)
    assert words in str(caught.value)
    (tmp_path / "law.v").write_text(altered)
    with pytest.raises(CertificationError, match="is not the law of this model"):
        checked(law_of(model), tmp_path / "law.v", model)
    assert not model.certificate.checks


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "old", "new"),
    [
        (reverse, "1 <= length input", "0 <= length input"),
        (reverse, "Some output /\\", "Some output \\/"),
        (reverse, "In x input -> ", ""),
        (reverse, "Proof. certify_program order. Qed.", "Admitted."),
        (centred, "(-1) <= q < 1", "(-1) <= q <= 1"),
        (centred, "In q t -> ", ""),
        (centred, "Proof. by_cells. Qed.", "Admitted."),
    ],
)
def test_other_statements_are_refused(coq, make, old, new):
    with pytest.raises(CertificationError):
        check_law(_altered(law_of(make()).text, old, new))


def _altered(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


def test_where_states_do_not_suffice_few_inputs_are_compared_and_many_refused(coq):
    """That ranks differ does not follow from what each position can hold."""
    few, many = (
        law_of(ef.compile_program(make_sort(), vocabulary="ab", max_length=n)).text for n in (3, 14)
    )
    assert program_verdicts(coq, [few, many]) == ["Proved", "NotFollowed"]


@pytest.mark.slow
def test_reversal_of_twelve_million_inputs_is_proved(coq):
    check_law(law_of(reverse(10, "abcde")).text)


def test_programs_with_and_without_a_beginning_token(coq):
    same = rasp.Aggregate(rasp.Select(rasp.indices, rasp.indices, rasp.Comparison.EQ), rasp.tokens)
    texts = []
    for causal, beginning in product([False, True], repeat=2):
        model = ef.compile_program(
            same, vocabulary=["ä", "(*", '"'], max_length=5, causal=causal, beginning=beginning
        )
        texts.append(law_of(model).text)
    assert program_verdicts(coq, texts) == ["Proved"] * 4


def test_softmax_is_refused_with_what_to_do():
    soft = ef.compile_program(make_hist(), vocabulary="ab", max_length=3, realisation="softmax")
    with pytest.raises(InputError, match="realisation='hard'"):
        law_of(soft)
    with pytest.raises(InputError, match="before it is softened"):
        law_of(centred(2).softened(Fraction(1, 10)))


def test_a_grid_with_too_many_cells_is_refused_before_anything_is_written(tmp_path):
    model = ef.compile_sequence(lambda x: x, tokens=3, dim=1, delta=Fraction(1, 16))
    with pytest.raises(SizeError, match="larger delta or fewer tokens"):
        ef.prove(model, tmp_path / "law.v")
    assert not (tmp_path / "law.v").exists()


@pytest.mark.parametrize("token", ["a\n", "a\u202eb", "a\u200b", "a\u00a0b"])
def test_texts_that_do_not_print_as_they_are_are_refused(token):
    """A mark that turns the order of letters, or one that nobody sees, misleads readers."""
    model = ef.compile_program(make_reverse(), vocabulary=[token, "b"], max_length=2)
    with pytest.raises(CertificationError, match="do not print"):
        law_of(model)


def test_no_line_is_broken_inside_a_text():
    """Such a text would be another one, and two of them might become one."""
    tokens = [f"a{' ' * k}long token {'b ' * k}" for k in range(1, 12)]
    model = ef.compile_program(make_reverse(), vocabulary=tokens, max_length=2)
    text = law_of(model).text
    vocabulary = text[text.index("Definition vocabulary") : text.index("Definition outputs")]
    assert sorted(re.findall(r'Text "(.*?)"', vocabulary, re.DOTALL)) == sorted(tokens)
    assert set(re.findall(r'Text "(.*?)"', text, re.DOTALL)) == set(tokens)


def test_coq_agrees_with_exact_runs_of_random_models(coq):
    assert campaign(coq, 4, seed=1) == []


@pytest.mark.slow
def test_coq_agrees_with_exact_runs_of_a_hundred_random_models(coq):
    assert campaign(coq, 100, seed=2) == []
