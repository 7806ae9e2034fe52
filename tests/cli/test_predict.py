import io
from fractions import Fraction

import numpy as np
import pytest
import torch

import exactformer as ef
from exactformer.core.domain import points_in_ball

POINTS = points_in_ball(500, 2, 2.0)


@pytest.fixture(scope="module")
def expected(law):
    return ef.load(law)(POINTS).numpy()


def csv_text(points, header=None, separator=","):
    lines = [] if header is None else [separator.join(header)]
    return "\n".join([*lines, *(separator.join(map(repr, p.tolist())) for p in points)]) + "\n"


def numbers(text):
    return np.array([float(line) for line in text.split()])


def test_csv_in_and_out_reads_back_to_the_same_floats(call, law, tmp_path, expected):
    source, target = tmp_path / "points.csv", tmp_path / "values.csv"
    source.write_text(csv_text(POINTS))
    answer = call("predict", law, source, "-o", target)
    assert answer.code == 0
    assert "500 values" in answer.out
    assert numbers(target.read_text()).tolist() == expected.tolist()


def test_npy_in_and_out_is_bit_for_bit(call, law, tmp_path, expected):
    source, target = tmp_path / "points.npy", tmp_path / "values.npy"
    np.save(source, POINTS)
    assert call("predict", law, source, "-o", target).code == 0
    values = np.load(target)
    assert values.dtype == np.float64
    assert values.tolist() == expected.tolist()


@pytest.mark.parametrize("argument", [[], ["-"]])
def test_a_pipe_in_and_a_pipe_out(call, law, expected, argument):
    answer = call("predict", law, *argument, stdin=csv_text(POINTS))
    assert numbers(answer.out).tolist() == expected.tolist()
    assert answer.err == ""


def test_arrays_come_through_pipes_too(call, law, expected):
    buffer = io.BytesIO()
    np.save(buffer, POINTS)
    answer = call("predict", law, stdin=buffer.getvalue())
    assert numbers(answer.out).tolist() == expected.tolist()


def test_a_header_in_any_order_is_answered_with_a_header(call, law, expected):
    answer = call("predict", law, stdin=csv_text(POINTS[:, ::-1], ["y", "x"]))
    header, _, values = answer.out.partition("\n")
    assert header == "value"
    assert numbers(values).tolist() == expected.tolist()


@pytest.mark.parametrize("separator", [",", ";", "\t", " ", ", ", "   "])
def test_usual_separators_are_understood(call, law, expected, separator):
    for header in (None, ["x", "y"]):
        answer = call("predict", law, stdin=csv_text(POINTS[:5], header, separator))
        assert numbers(answer.out.removeprefix("value\n")).tolist() == expected[:5].tolist()


@pytest.mark.parametrize(
    "text",
    ["1,1", "1,1\r\n", "\ufeff1,1\n", "\n\n1,1\n\n", '"1","1"\n', " 1 , 1 \n", "\ufeffx,y\n1,1\n"],
)
def test_what_spreadsheets_write_is_read(call, law, text):
    answer = call("predict", law, stdin=text)
    assert answer.code == 0
    assert numbers(answer.out.removeprefix("value\n")) == pytest.approx([3.5])


def test_other_columns_can_be_left_out(call, law):
    text = "name,y,when,x\nfirst,0,monday,1\nsecond,1,tuesday,0\n"
    answer = call("predict", law, "--ignore-extra", stdin=text)
    assert numbers(answer.out.removeprefix("value\n")) == pytest.approx([1, -0.5])


def test_a_table_without_rows_gives_no_values(call, law):
    assert call("predict", law, stdin="x,y\n").out == "value\n"


def test_batches_follow_one_another_in_order(call, law):
    points = points_in_ball(10_000, 2, 2.0, seed=1)
    answer = call("predict", law, stdin=csv_text(points))
    assert numbers(answer.out).tolist() == ef.load(law)(points).tolist()


def test_every_value_is_within_the_bound_of_the_polynomial(call, law):
    told = call("predict", law, "--json", stdin=csv_text(POINTS)).json
    polynomial = ef.Polynomial.parse("x^2 + 3 x y - y/2")
    for point, value in zip(POINTS.tolist(), told["values"], strict=True):
        assert abs(polynomial.at(point) - Fraction(value)) <= told["bound"]


def test_json_says_what_was_done(call, law, tmp_path, expected):
    told = call("predict", law, "--json", stdin=csv_text(POINTS)).json
    assert told["values"] == expected.tolist()
    assert told["points"] == 500
    assert told["outside"] == 0
    assert told["bound"] == ef.certify(law).bound("float64", "literal")
    saved = call("predict", law, "-o", tmp_path / "v.npy", "--json", stdin=csv_text(POINTS)).json
    assert "values" not in saved
    assert saved["saved"] == [str(tmp_path / "v.npy")]


def test_points_off_the_ball_can_be_marked_or_computed(call, law, tmp_path):
    text = "1,1\n30,40\n"
    marked = call("predict", law, "--outside", "nan", stdin=text)
    assert marked.out.splitlines()[1] == "nan"
    told = call("predict", law, "--outside", "nan", "--json", stdin=text).json
    assert told["values"][1] is None
    assert told["outside"] == 1
    allowed = call("predict", law, "--outside", "allow", "--json", stdin=text).json
    assert allowed["bound"] is None
    assert len(allowed["values"]) == 2
    out = tmp_path / "v.csv"
    assert "1 points lie off" in call("predict", law, "--outside", "nan", "-o", out, stdin=text).out


@pytest.mark.parametrize(("dtype", "kind"), [("float32", np.float32), ("bfloat16", np.float32)])
def test_lower_precision_stays_within_its_own_bound(call, law, tmp_path, dtype, kind):
    source, target = tmp_path / "points.npy", tmp_path / "values.npy"
    points = (POINTS * 0.9).astype(np.float32)
    points = points.view(np.uint32) & np.uint32(0xFFFF0000)  # what bfloat16 holds exactly
    np.save(source, points.view(np.float32))
    told = call("predict", law, source, "-o", target, "--dtype", dtype, "--json").json
    values = np.load(target)
    assert values.dtype == kind
    exact = ef.Polynomial.parse("x^2 + 3 x y - y/2").evaluate(np.load(source).astype(np.float64))
    assert np.abs(values - exact).max() <= told["bound"]


def test_float32_values_are_written_with_their_own_digits(call, law):
    answer = call("predict", law, "--dtype", "float32", stdin="0.1,0.2\n")
    assert len(answer.out.strip()) <= 12
    assert np.float32(answer.out) == ef.load(law, dtype=torch.float32)([0.1, 0.2])


def test_one_variable_needs_no_second_axis(call, tmp_path):
    file = tmp_path / "square.safetensors"
    call("compile", "x^2", "-o", file)
    np.save(tmp_path / "points.npy", np.array([0.5, 1.0]))
    assert numbers(call("predict", file, tmp_path / "points.npy").out) == pytest.approx([0.25, 1])
    assert numbers(call("predict", file, stdin="x\n0.5\n1\n").out[6:]) == pytest.approx([0.25, 1])


def test_every_matrix_can_be_carried_out_instead(call, law):
    told = call("predict", law, "--executor", "literal", "--json", stdin=csv_text(POINTS)).json
    assert told["values"] == ef.load(law, executor="literal")(POINTS).tolist()
    assert told["bound"] == ef.certify(law).bound("float64", "literal")
