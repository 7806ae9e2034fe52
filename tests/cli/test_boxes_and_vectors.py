"""Boxes, vectors, and constructions other than the default, from end to end."""

from fractions import Fraction

import numpy as np
import pytest
import torch

import exactformer as ef
from exactformer.core.domain import Box
from exactformer.polynomials.files import load_blueprint
from tests.test_stated import forged

PAIR = "x^2 + y^2; x y"
COMPONENTS = [ef.Polynomial.parse("x^2 + y^2"), ef.Polynomial.parse("x y")]
POINTS = np.random.default_rng(0).uniform([0, -0.5], [1, 3], (50, 2))
CONSTRUCTIONS = ("scaled", "paper", "doubling", "chebyshev", "softmax")


@pytest.fixture(scope="module", params=CONSTRUCTIONS)
def pair(request, tmp_path_factory):
    """A vector of two on a box, in every construction."""
    path = tmp_path_factory.mktemp("models") / f"{request.param}.safetensors"
    box = [(0, 1), ("-1/2", 3)]
    ef.compile(PAIR, domain=box, construction=request.param).save(path)
    return path


def rows(points, header=""):
    return header + "".join(",".join(map(repr, point)) + "\n" for point in points.tolist())


def test_a_box_is_read_exactly(call, tmp_path):
    file = tmp_path / "box.safetensors"
    assert call("compile", "x y", "--domain", "-1/3, 0.1; 0,1", "-o", file).code == 0
    sides = [(Fraction(-1, 3), Fraction(1, 10)), (Fraction(0), Fraction(1))]
    assert load_blueprint(file).domain == Box.of(sides)


def test_without_ball_or_box_the_domain_is_the_unit_ball(call):
    assert call("compile", "x y", "--json").json["domain"] == "‖x‖ ≤ 1"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--domain", "0,1; 0,1", "--radius", "1"], "not both"),
        (["--domain", "0,1"], "1 intervals for 2 variables (x, y)"),
        (["--domain", "0,1;"], "1 intervals for 2 variables"),
        (["--domain", "0 1; 0 1"], "lower and upper end with a comma"),
        (["--domain", "0,1,2; 0,1"], "lower and upper end with a comma"),
        (["--domain", ""], "lower and upper end with a comma"),
        (["--domain", "0,1;;0,1"], "lower and upper end with a comma"),
        (["--domain", ";0,1; 0,1"], "lower and upper end with a comma"),
        (["--domain", "1,0; 0,1"], "the interval of x is empty"),
        (["--domain", "0,one; 0,1"], "--domain is a list"),
        (["--domain", "0,1e99999999; 0,1"], "--domain is a list"),
        (["--domain", "0,inf; 0,1"], "--domain is a list"),
    ],
)
def test_what_is_no_box_is_refused(call, options, said):
    answer = call("compile", "x y", *options)
    assert answer.code == 2
    assert said in " ".join(answer.err.split())


@pytest.mark.spread(2)
def test_certify_proves_every_component(call, pair):
    assert call("certify", pair).code == 0
    assert call("certify", pair, "y^2 + x^2; y x").code == 0
    for wrong in ("x^2 + y^2; 2 x y", "x y; x^2 + y^2", "x^2 + y^2", "x^2 + y^2; x y; x"):
        assert call("certify", pair, wrong).code == 1


def test_a_vector_has_a_column_for_every_component(call, pair):
    answer = call("predict", pair, stdin=rows(POINTS, "x,y\n"))
    header, *lines = answer.out.splitlines()
    assert header == "value 1,value 2"
    bound = call("predict", pair, "--json", stdin=rows(POINTS)).json["bound"]
    for point, line in zip(POINTS.tolist(), lines, strict=True):
        for polynomial, cell in zip(COMPONENTS, line.split(","), strict=True):
            assert abs(polynomial.at(point) - Fraction(float(cell))) <= Fraction(bound)


@pytest.mark.spread(2)
def test_values_of_a_vector_read_back_to_the_same_floats(call, pair, tmp_path):
    expected = ef.load(pair)(torch.tensor(POINTS)).tolist()
    written = call("predict", pair, stdin=rows(POINTS)).out.splitlines()
    assert [[float(cell) for cell in line.split(",")] for line in written] == expected
    assert call("predict", pair, "--json", stdin=rows(POINTS)).json["values"] == expected
    call("predict", pair, "-o", tmp_path / "values.npy", stdin=rows(POINTS))
    assert np.load(tmp_path / "values.npy").tolist() == expected


def test_no_points_still_have_columns(call, pair, tmp_path):
    call("predict", pair, "-o", tmp_path / "values.npy", stdin="x,y\n")
    assert np.load(tmp_path / "values.npy").shape == (0, 2)


def test_the_point_off_the_box_is_named_by_line_and_coordinate(call, pair):
    text = "0.5,0\n1,3\n0.5,4\n"
    answer = call("predict", pair, stdin=text)
    assert answer.code == 2
    assert "line 3: the point has y = 4, outside [0, 1] × [-1/2, 3]" in answer.err
    told = call("predict", pair, "--outside", "nan", "--json", stdin=text).json
    assert told["outside"] == 1
    assert told["values"][2] == [None, None]


@pytest.mark.spread(2)
def test_inspect_shows_every_readout(call, pair):
    answer = call("inspect", pair)
    assert answer.code == 0
    assert "on [0, 1] × [-1/2, 3]" in answer.out
    assert "readout 2" in answer.out


def test_heads_alike_share_a_line(call, tmp_path):
    file = tmp_path / "x8.safetensors"
    ef.compile("x^8", construction="doubling").save(file)
    lines = [" ".join(line.split()) for line in call("inspect", file).out.splitlines()]
    (line,) = [line for line in lines if line.startswith("3 attention")]
    assert line.startswith("3 attention 1 … 4 ")
    assert "4 × (2 + 2 + 1)" in line
    assert line.endswith("power 5 … 8")


def test_inspect_says_what_the_file_states_of_a_function_and_its_polynomial(call, tmp_path):
    file = tmp_path / "exp.safetensors"
    model = ef.compile(np.exp, domain=[(0, 1)], tolerance=1e-6)
    model.save(file)
    said = " ".join(call("inspect", file).out.split())
    stated = ef.load(file).approximation
    assert "stated by the file" in str(stated)
    assert stated.error == model.approximation.error
    assert f"Approximates {stated}" in said
    forged(file, approximation="{")
    answer = call("inspect", file)
    assert answer.code == 2
    assert "corrupt" in answer.err


def test_help_names_every_construction(call):
    said = call("compile", "--help").out
    assert all(name in said for name in CONSTRUCTIONS)
