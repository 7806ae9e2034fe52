"""The second theorem of a law: the fused form in float64 and float32, in any order of summation."""

import re
import subprocess
from pathlib import Path

import pytest

import exactformer as ef
from exactformer.coq import installation
from exactformer.coq.check import check_law, compiled
from exactformer.coq.installation import LIBRARY, ROUNDING, Coq, built_rounding, sources
from exactformer.coq.prove import checked, law_of
from exactformer.core.formats import FORMATS
from exactformer.errors import CertificationError, InputError
from exactformer.polynomials.proof.certify import SLACK
from exactformer.polynomials.proof.closed_form_rounding import fused_bound
from exactformer.polynomials.proof.symbolic import run_symbolic
from exactformer.polynomials.run.closed_form import fuse

FOLDER = Path(__file__).parent
ASSUMPTIONS, MORE = (
    (FOLDER / f"assumptions{kind}.txt").read_text().strip() for kind in ("", "_softmax")
)
F2 = "x1^5 + 3 x2^4 + 2 x3^3 + 5 x3 x4 + 3 x5^2 + 2 x6 x7 x8 + 2 x9"


@pytest.fixture(scope="module")
def model():
    return ef.compile("x^2 + 3 x y", radius=2, directions="tailored")


@pytest.fixture(scope="module")
def chebyshev_model():
    return ef.compile("x^2 y - 2/3 x", radius=2, construction="chebyshev")


def stated_error(theorem: str) -> float:
    top, bottom = re.search(r"<= (\d+) / (\d+)\.", theorem).groups()
    return int(top) / int(bottom)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["model", "chebyshev_model"])
def test_the_theorem_states_the_error_of_the_closed_form(name, dtype, request):
    model = request.getfixturevalue(name)
    theorem = law_of(model, dtype).theorem
    kind = f"binary{dtype[-2:]}"
    assert f"computes {kind} closed_form [x; y] result largest ->" in theorem
    assert f"largest < too_large {kind}" in theorem
    run = run_symbolic(model.blueprint, model.blueprint.domain.enlarged(SLACK))
    form = fuse(run)
    every_order = form.features.rows - 1
    bound = fused_bound(form, run.sizes.reach, run.domain, FORMATS[dtype], every_order).value
    assert 2 * bound <= stated_error(theorem) <= 2.2 * bound
    assert stated_error(theorem) < 3 * model.certificate.fused[dtype].value


def test_the_bound_is_not_broken_over_two_lines():
    for d in range(1, 5):
        long = " + ".join(f"{10**k} x{i}^{k}" for i in range(1, d + 1) for k in (1, 2, 3))
        theorem = law_of(ef.compile(long, radius=1), "float64").theorem
        assert re.search(r" <= \d+ / 10+\.$", theorem)


def test_the_closed_form_is_that_of_the_module(model):
    """The numbers of the theorem are those that torch multiplies with."""
    text = law_of(model, "float64").text
    assert "([(1 # 2); 0]%Q" in text
    assert "Print Assumptions law.\n\nPrint Assumptions rounded.\n" in text


@pytest.mark.parametrize("name", ROUNDING)
def test_nothing_is_assumed(name):
    code = re.sub(r"\(\*.*?\*\)", "", sources()[f"rounding/{name}.v"], flags=re.DOTALL)
    assert not re.search(r"\b(Admitted|admit|Axioms?|Parameters?|Conjecture|Abort)\b", code)


def test_what_is_not_covered_is_refused(model):
    with pytest.raises(InputError, match="float64 and float32"):
        law_of(model, "bfloat16")
    with pytest.raises(CertificationError, match="no bound in float32"):
        law_of(ef.compile("x^40", radius=100, construction="chebyshev"), "float32")
    with pytest.raises(InputError, match="no fused form"):
        law_of(ef.compile("x^2", radius=1, construction="softmax", tolerance=1), "float64")


def test_without_flocq_the_refusal_says_how_to_get_it(monkeypatch, tmp_path):
    told = "Error: Cannot find a physical path bound to logical path matching suffix Flocq."
    answer = subprocess.CompletedProcess([], 1, "", told)
    monkeypatch.setattr(Coq, "compile", lambda *args, **options: answer)
    monkeypatch.setattr(installation, "built_library", lambda coq: tmp_path)
    monkeypatch.setenv("EXACTFORMER_CACHE", str(tmp_path))
    with pytest.raises(InputError, match="apt-get install libcoq-flocq"):
        built_rounding(Coq("coqc", "8.16.1"))


def test_the_library_without_rounding_does_not_need_flocq():
    assert not [name for name in LIBRARY if "Flocq" in sources()[f"{name}.v"]]


def test_coq_accepts_the_rounding(flocq, model, tmp_path):
    law = ef.prove(model, tmp_path / "law.v", check=True, rounding="float64")
    assert law.checked.assumptions.split() == f"{ASSUMPTIONS}\n{MORE}".split()
    assert law.claim in model.certificate.claims


def test_coq_accepts_the_rounding_of_chebyshev_polynomials(flocq, chebyshev_model):
    text = law_of(chebyshev_model, "float64").text
    assert "in_basis := Chebyshev" in text
    assert check_law(text).assumptions.split() == f"{ASSUMPTIONS}\n{MORE}".split()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"<= (\d+) / (\d+)\.", r"<= \1 / 100\2."),
        (r"offset := 0", "offset := 1"),
        (r"in_basis := Chebyshev", "in_basis := Powers"),
        (r"(ridges_of(?:.|\n)*?)2102131835", r"\g<1>2102131837"),
        (r"(ridges_of(?:.|\n)*?)512 # 1145", r"\g<1>512 # 1147"),
        (r"about := \[0; 0\]", "about := [1; 0]"),
        (r"domain := Ball \[0; 0\] 2", "domain := Ball [0; 0] 200"),
        (r"result - \(x \^ 2", "result - (x ^ 3"),
    ],
)
def test_altered_laws_of_chebyshev_polynomials_are_refused(flocq, chebyshev_model, old, new):
    text = law_of(chebyshev_model, "float64").text
    altered = re.sub(old, new, text, count=1)
    assert altered != text
    with pytest.raises(CertificationError, match=r"rounding error|select"):
        check_law(altered)


@pytest.mark.slow
def test_chebyshev_polynomials_beyond_one_are_covered(flocq, chebyshev_model):
    """A region a little larger than that on which |t| ≤ 1: they grow, and so does the error."""
    text = law_of(chebyshev_model, "float64").text
    head, middle, rest = text.partition("Definition closed_form")
    for radius in ("(9 # 4)", "(5 # 2)"):
        larger = head[: head.index("Theorem law")].replace("Ball [0; 0] 2", f"Ball [0; 0] {radius}")
        number = radius.strip("()").replace("#", "/")
        ending = rest.replace("<= 2 ^ 2", f"<= ({number}) ^ 2")
        ending = ending.replace("Print Assumptions law.\n", "")
        wide = re.sub(r"<= (\d+) / (\d+)0\.", r"<= \1 / \2.", ending)
        assert compiled(flocq, larger + middle + wide).returncode == 0
        assert compiled(flocq, larger + middle + ending).returncode != 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"<= (\d+) / (\d+)\.", r"<= \1 / 1000\2."),
        (r"offset := 0", "offset := 1"),
        (r"\(\[\(1 # 2\); 0\]%Q", "([(1 # 3); 0]%Q"),
        (r"about := \[0; 0\]", "about := [1; 0]"),
        (r"domain := Ball \[0; 0\] 2", "domain := Ball [0; 0] 200"),
        (r"result - \(x \^ 2", "result - (x ^ 3"),
    ],
)
def test_altered_laws_are_refused(flocq, model, old, new, tmp_path):
    text = law_of(model, "float64").text
    altered = re.sub(old, new, text, count=1)
    assert altered != text
    with pytest.raises(CertificationError, match=r"rounding error|select"):
        check_law(altered)
    (tmp_path / "law.v").write_text(altered)
    with pytest.raises(CertificationError, match="is not the law of this model"):
        checked(law_of(model, "float64"), tmp_path / "law.v", model)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("target", "options"),
    [
        (F2, {"radius": 4}),
        (F2, {"radius": 4, "construction": "paper"}),
        ("x^3/7 + 3 x y - 1/3", {"domain": [(0, 1), (-1, 3)]}),
        (F2, {"radius": 4, "construction": "chebyshev"}),
        ("x^30 - x", {"radius": 2, "construction": "chebyshev"}),
        ("x^3/7 + 3 x y - 1/3", {"domain": [(0, 1), (-1, 3)], "construction": "chebyshev"}),
        ("x^2 - y^2; x y; 3", {"radius": "1/3", "construction": "chebyshev"}),
        ("x^2 - y^2; x y; 3", {"radius": "1/3"}),
        ("-9/7", {"radius": 1, "variables": ["x"]}),
        (
            "result^2 + largest Rabs - binary64 closed_form",
            {"radius": 1, "variables": ["Rabs", "binary64", "closed_form", "largest", "result"]},
        ),
    ],
)
def test_boxes_vectors_constructions(flocq, target, options, dtype):
    check_law(law_of(ef.compile(target, **options), dtype).text)
