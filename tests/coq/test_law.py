"""The file of a law: what is written, and that nothing but numbers and names gets into it."""

import re
from dataclasses import replace
from fractions import Fraction

import pytest

import exactformer as ef
from exactformer.algebra import Polynomial, Target
from exactformer.coq.law import law
from exactformer.coq.prove import law_of
from exactformer.coq.text import matrix, names, polynomial, rational
from exactformer.core.matrix import Matrix
from exactformer.errors import IdentityError, InputError
from exactformer.polynomials.files import save_blueprint


def test_words_of_coq_do_not_name_variables():
    assert names(["x", "fun", "run", "R", "fun_", "β"]) == [
        "x",
        "fun__",
        "run_",
        "R_",
        "fun_",
        "x6",
    ]


def test_names_stay_distinct():
    assert len(set(names(["x2", "β", "γ", "x3", "at", "at_"]))) == 6


@pytest.mark.parametrize(
    ("options", "rounding"),
    [({}, "float64"), ({}, "float32"), ({"construction": "softmax", "tolerance": 1}, None)],
)
def test_no_word_of_a_theorem_names_a_variable(options, rounding):
    """A variable called Rabs would hide the absolute value that the theorem speaks of."""
    model = ef.compile("x^2; x", radius=1, **options)
    words = set(re.findall(r"[A-Za-z]\w*", law_of(model, rounding).theorem))
    words = sorted(words - {"x", "Theorem", "law", "rounded_1", "rounded_2"})
    assert not set(words) & set(names(words))


def test_numbers_are_exact():
    assert rational(Fraction("-0.1")) == "(-1 # 10)"


def test_a_polynomial_is_written_as_people_do():
    text = polynomial(Polynomial.parse("-x^3 + x y/2 - 5"), ["a", "b"])
    assert text == "- a ^ 3 + 1 / 2 * a * b - 5"
    assert polynomial(Polynomial.parse("0", ["x"]), ["x"]) == "0"


def test_matrices_are_written_briefly():
    entries = {(i, i): Fraction(3) for i in range(1, 5)}
    assert matrix(Matrix.of(6, 6, entries), 0) == "([[]] ++ diagonal 1 4 3)"
    assert matrix(Matrix.of(3, 3, {}), 0) == "[]"
    assert matrix(Matrix.of(3, 3, {}), 0, whole=True) == "(blank 3)"


def test_labels_are_not_written():
    model = ef.compile("x^2", radius=1)
    evil = "*) Axiom false : False. (*"
    labelled = replace(model.blueprint, construction=evil, metadata={"target": evil, "note": evil})
    target = law_of(model).certificate.target
    assert "Axiom" not in law(labelled, Target.coerce(target))


def test_the_law_is_last_and_in_plain_notation(tmp_path):
    ef.prove(ef.compile("x^2 + 3 x y", radius=2), tmp_path / "law.v")
    text = (tmp_path / "law.v").read_text()
    assert text.endswith(
        "Theorem law : forall x y : R,\n"
        "  x ^ 2 + y ^ 2 <= 2 ^ 2 ->\n"
        "  run model [x; y] =\n"
        "  [x ^ 2 + 3 * x * y].\n"
        "Proof. intros. certify region. Qed.\n\n"
        "Print Assumptions law.\n"
    )


def test_domains_are_written_as_inequalities():
    box = law_of(ef.compile("x y", domain=[(0, 1), (Fraction(-1, 2), 3)]))
    assert "0 <= x <= 1 ->\n  -1 / 2 <= y <= 3 ->" in box.theorem


def test_other_models_are_refused():
    with pytest.raises(InputError, match="a model or the path"):
        law_of(3)


def test_python_proves_first(tmp_path):
    blueprint = ef.compile("x^2", radius=1).blueprint
    wrong = replace(blueprint, metadata={**blueprint.metadata, "target": "x^3"})
    save_blueprint(wrong, tmp_path / "a.safetensors")
    with pytest.raises(IdentityError, match="does not compute the target"):
        ef.prove(tmp_path / "a.safetensors", tmp_path / "a.v")
    assert not (tmp_path / "a.v").exists()
