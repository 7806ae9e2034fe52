"""What Coq accepts, what it refuses, and what is said then."""

import hashlib
from fractions import Fraction
from pathlib import Path

import pytest

import exactformer as ef
from exactformer.coq.check import check_law
from exactformer.coq.installation import Coq, find_coq
from exactformer.coq.prove import checked, law_of
from exactformer.core.certificate import Kind
from exactformer.core.domain import Ball
from exactformer.errors import CertificationError

F2 = "x1^5 + 3 x2^4 + 2 x3^3 + 5 x3 x4 + 3 x5^2 + 2 x6 x7 x8 + 2 x9"
ASSUMPTIONS = (Path(__file__).parent / "assumptions.txt").read_text().strip()


@pytest.mark.spread(2)
@pytest.mark.parametrize("construction", ["scaled", "paper", "doubling", "chebyshev"])
def test_the_running_example_is_proved_in_every_construction(coq, construction, tmp_path):
    model = ef.compile(F2, radius=4, construction=construction)
    law = ef.prove(model, tmp_path / "law.v", check=True)
    assert law.checked.assumptions.split() == ASSUMPTIONS.split()
    claim = model.certificate.claims[-1]
    version = ".".join(coq.version.split(".")[:2])
    assert claim.text == f"checked by Coq {version} (file with SHA-256 {law.digest})"
    assert claim.kind is Kind.PROVEN
    assert claim in law.certificate.claims
    assert law.certificate == ef.certify(model)
    assert type(law.certificate).from_dict(law.certificate.to_dict()).checks == (claim,)


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("x^3/7 + 3 x y - 1/3", {"domain": [(0, 1), (-1, 3)]}),
        ("x^2 - y^2; x y; 3", {"radius": "1/3"}),
        ("x^2 y", {"domain": Ball(Fraction(1, 2), (Fraction(1, 3), Fraction(-2)))}),
        ("x^4", {"domain": Ball(Fraction(2), (Fraction(5),)), "construction": "paper"}),
        ("7", {"variables": []}),
        ("0", {"variables": ["x"]}),
        ("run^2 + at fun", {"radius": 3, "variables": ["at", "fun", "run"]}),
        (
            "O^2 + S nat - IZR H region + β",
            {"radius": 1, "variables": ["H", "IZR", "O", "S", "nat", "region", "β"]},
        ),
        ("x^17", {"construction": "chebyshev"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_boxes_balls_vectors_and_names(coq, target, options):
    check_law(law_of(ef.compile(target, **options)).text)


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "diagonal 1 3 3",
            "diagonal 1 3 (1 # 2)",
            "block 1, head 1: token 1 is not shown to select",
        ),
        ("[4 |-> -3]", "[4 |-> -2]", "output 1 is not the polynomial"),
        ("Ball [0; 0] 2", "Ball [0; 0] 5", "block 1, head 1: token 1 is not shown to select"),
        ("3 * x * y", "4 * x * y", "output 1 is not the polynomial"),
        ("<= 2 ^ 2", "<= 3 ^ 2", "the weights pass, but the statement does not follow"),
        ("[x ^ 2 + 3 * x * y]", "[x ^ 2 + 3 * x * y; x]", "one polynomial per output"),
        ("[(1 # 2); 0]", "[(1 # 2)]", "token 2: its row of F"),
        ("Relu []", "Relu [[0 |-> 1]]", "token 1: the ReLU of unit 1"),
        ("Proof. intros. certify region. Qed.", "Admitted.", "rests on other axioms: law"),
    ],
)
def test_altered_laws_are_refused_in_our_own_words(coq, old, new, words, tmp_path):
    model = ef.compile("x^2 + 3 x y", radius=2, directions="tailored")
    text = law_of(model).text
    assert old in text
    altered = text.replace(old, new)
    with pytest.raises(CertificationError, match=words):
        check_law(altered)
    (tmp_path / "law.v").write_text(altered)
    with pytest.raises(CertificationError, match=r"is not the law of this model: (line|it has)"):
        checked(law_of(model), tmp_path / "law.v", model)
    assert not model.certificate.checks


def test_another_spelling_of_line_ends_is_another_file(tmp_path):
    """The claim names the digest of the file as it is on the disk."""
    model = ef.compile("x^2", radius=1)
    law = law_of(model)
    (tmp_path / "law.v").write_bytes(law.text.replace("\n", "\r\n").encode())
    with pytest.raises(CertificationError, match="is not the law of this model"):
        checked(law, tmp_path / "law.v", model)


def test_the_digest_is_that_of_the_file(tmp_path):
    law = ef.prove(ef.compile("x^2", radius=1), tmp_path / "law.v")
    assert law.digest == hashlib.sha256((tmp_path / "law.v").read_bytes()).hexdigest()


def test_a_check_without_coq_says_how_to_get_it(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ef.ExactformerError, match="apt-get install coq"):
        check_law("")


def test_the_command_writes_nothing_where_it_cannot_check(call, monkeypatch, tmp_path):
    ef.compile("x^2", radius=1).save(tmp_path / "m.safetensors")
    monkeypatch.setenv("PATH", "")
    answer = call("prove", str(tmp_path / "m.safetensors"), "--check")
    assert answer.code == 2
    assert "apt-get install coq" in answer.err
    assert not (tmp_path / "m.v").exists()


def test_the_command_checks_a_file_that_is_there(coq, call, tmp_path):
    ef.compile("x^2", radius=1).save(tmp_path / "m.safetensors")
    words = ["prove", str(tmp_path / "m.safetensors"), "-o", str(tmp_path / "m.v"), "--check"]
    for saved in ("Saved", "Theorem"):
        answer = call(*words)
        assert answer.code == 0, answer.err
        assert answer.out.startswith(saved)
        assert " ".join(ASSUMPTIONS.split()) in " ".join(answer.out.split())
    (tmp_path / "m.v").write_text("(* something else *)")
    answer = call(*words)
    assert answer.code == 2
    assert "--force" in answer.err


@pytest.mark.parametrize(("name", "first"), [("coqc", "-q"), ("rocq", "compile")])
def test_rocq_is_recognised_by_its_version(name, first, monkeypatch, tmp_path):
    """Rocq's own command compiles by a word of its own."""
    program = tmp_path / name
    program.write_text('#!/bin/sh\necho "The Rocq Prover, version 9.2, $1"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find_coq()
    assert found == Coq(str(program), "9.2")
    answer = found.compile(tmp_path / "law.v", tmp_path)
    assert answer.stdout.strip().endswith(first)
