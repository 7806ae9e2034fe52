from fractions import Fraction

import pytest

import exactformer as ef
from exactformer.polynomials.files import load_blueprint
from exactformer.polynomials.proof.certificate import PolynomialCertificate

F2 = "x1^5 + 3 x2^4 + 2 x3^3 + 5 x3 x4 + 3 x5^2 + 2 x6 x7 x8 + 2 x9"


def test_compile_shows_the_certificate_and_saves_the_model(call, tmp_path):
    file = tmp_path / "f2.safetensors"
    answer = call("compile", F2, "--radius", "4", "-o", file)
    assert answer.code == 0
    shown = " ".join(answer.out.replace("│", " ").split())
    for part in (
        "x1^5 + 3 x2^4",
        "‖x‖ ≤ 4 in 9 variables (x1, x2, …, x9)",
        "11 tokens of width 17, 4 blocks",
        "155 free, 259 non-zeros in all",
        "every token selects itself everywhere (margin ≥",
        "all 7 coefficients agree exactly, error zero",
        "rounding ≤ literal fused",
        "✓ float64",
        "✓ float32",
        "✓ bfloat16",
    ):
        assert part in shown
    assert ef.load(file).target == str(ef.Polynomial.parse(F2))


def test_compile_in_json_is_the_models_own_certificate(call):
    told = call("compile", "x^2 + 3 x y", "--radius", "1/3", "--json").json
    model = ef.compile("x^2 + 3 x y", radius=Fraction(1, 3))
    assert told["certificate"] == model.certificate.to_dict()
    assert PolynomialCertificate.from_dict(told["certificate"]) == model.certificate
    assert told["tokens"] == model.blueprint.tokens
    assert told["free_parameters"] == model.blueprint.counts().free
    assert told["saved"] == []


def test_compile_without_a_file_says_that_nothing_was_kept(call):
    assert "-o FILE keeps it" in call("compile", "x").out


@pytest.mark.parametrize(
    ("options", "attribute", "value"),
    [
        (["--variables", "z, y, x"], "variables", ("z", "y", "x")),
        (["--construction", "paper"], "construction", "paper"),
        (["--construction", "doubling"], "construction", "doubling"),
        (["--radius", "0.1"], "radius", Fraction(1, 10)),
        (["-r", "1e-3"], "radius", Fraction(1, 1000)),
    ],
)
def test_options_reach_the_blueprint(call, tmp_path, options, attribute, value):
    file = tmp_path / "law.safetensors"
    assert call("compile", "x y + y", *options, "-o", file).code == 0
    assert getattr(load_blueprint(file), attribute) == value


@pytest.mark.parametrize("directions", ["lattice", "spread", "tailored"])
def test_directions_can_be_chosen(call, directions):
    told = call("compile", "x y + y", "--directions", directions, "--json").json
    assert told["directions"] == directions


@pytest.mark.parametrize("text", ["-x^2 + y", "-3", "-(x + y)^2", "-x", "-.5x"])
def test_a_polynomial_may_begin_with_a_minus(call, text):
    told = call("compile", text, "--json", "--radius", "2").json
    assert told["target"] == str(ef.Polynomial.parse(text))


def test_after_two_dashes_anything_is_a_polynomial(call):
    assert call("compile", "--json", "--", "-o^2").json["target"] == "-o^2"


@pytest.mark.parametrize("text", ["0", "7", "x - x", "x", "1/3 x"])
def test_the_simplest_polynomials_have_certificates_too(call, text):
    answer = call("compile", text)
    assert answer.code == 0
    assert "✓ identity" in answer.out


def test_a_format_without_guarantee_is_shown_as_such(call):
    answer = call("compile", "x^9", "--radius", "1000")
    assert answer.code == 0
    assert "✗ float16     no guarantee" in answer.out


def test_certify_proves_a_file_anew(call, law):
    answer = call("certify", law)
    assert answer.code == 0
    assert "certified" in answer.out
    assert "error zero" in answer.out
    assert call("certify", law, "3y x + x^2 - 0.5 y").code == 0


def test_certify_in_json_is_the_certificate(call, law):
    told = call("certify", law, "--json").json
    assert told == {"file": str(law), "certificate": ef.certify(law).to_dict(), "saved": []}


def test_certify_reads_fewer_variables_over_the_models_own(call, tmp_path):
    file = tmp_path / "law.safetensors"
    call("compile", "y^2", "--variables", "x,y,z", "-o", file)
    assert call("certify", file, "y^2").code == 0


def test_text_may_be_latex_and_a_declared_name_is_one(call):
    told = call("compile", r"\frac{1}{2} x^{2} \cdot y", "--variables", "y,x", "--json").json
    assert (told["target"], told["variables"]) == ("1/2 y x^2", ["y", "x"])
    assert call("compile", "x + xy", "--variables", "x,xy", "--json").json["variables"] == [
        "x",
        "xy",
    ]
