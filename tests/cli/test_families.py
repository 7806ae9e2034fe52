"""``certify``, ``predict``, ``inspect`` and ``export`` take a file of any family."""

import numpy as np
import pytest
import torch

import exactformer as ef
from exactformer.targets import sine_family

ROWS = np.array([[0.1, 0.7], [0.9, 0.3], [0.5, 0.5]])


@pytest.fixture(scope="module")
def sort(tmp_path_factory):
    """A saved model that sorts two numbers, on four cells a side."""
    path = tmp_path_factory.mktemp("models") / "sort.safetensors"
    model = ef.compile_sequence(np.sort, tokens=2, dim=1, delta="1/4", positional=True)
    model.save(path)
    return path


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """A saved model of the identity on two tokens of two numbers."""
    path = tmp_path_factory.mktemp("models") / "pairs.safetensors"
    ef.compile_sequence(lambda x: x, tokens=2, dim=2, delta="1/2", positional=True).save(path)
    return path


@pytest.fixture(scope="module")
def coupling(tmp_path_factory):
    """A saved model of a coupling of two tokens."""
    path = tmp_path_factory.mktemp("models") / "coupling.safetensors"
    ef.compile_coupling(sine_family([1.0, 0.5], tau=2), head_dim=2, ff_width=64).save(path)
    return path


@pytest.fixture
def file(request):
    return request.getfixturevalue(request.param)


families = pytest.mark.parametrize("file", ["sort", "coupling"], indirect=True)


def table(rows, header=""):
    return header + "".join(",".join(map(str, row)) + "\n" for row in rows)


def read(text, header):
    first, *rows = text.splitlines()
    assert first == header
    return [[float(cell) for cell in row.split(",")] for row in rows]


@families
def test_a_row_is_a_sequence_and_the_output_has_a_header(call, file):
    answer = call("predict", file, stdin=table(ROWS))
    assert answer.code == 0
    model = ef.load(file)
    expected = model(ROWS[..., None] if "sort" in file.name else ROWS).reshape(3, 2)
    assert read(answer.out, "token 1,token 2") == expected.tolist()


def test_tokens_follow_one_another(call, pairs):
    row = [0.1, 0.6, 0.7, 0.2]
    answer = call("predict", pairs, stdin=table([row]))
    expected = ef.load(pairs)([[0.1, 0.6], [0.7, 0.2]]).flatten().tolist()
    assert read(answer.out, "token 1.1,token 1.2,token 2.1,token 2.2") == [expected]


@families
def test_what_predict_wrote_it_also_reads(call, file, tmp_path):
    for kind in ("csv", "npy"):
        once, twice = tmp_path / f"once.{kind}", tmp_path / f"twice.{kind}"
        call("predict", file, "-o", once, stdin=table(ROWS))
        assert call("predict", file, once, "-o", twice).code == 0
    assert np.load(tmp_path / "twice.npy").shape == (3, 2)


@families
def test_a_header_names_the_tokens_in_any_order(call, file):
    named = call("predict", file, stdin=table(ROWS[:, ::-1], "token 2,token 1\n"))
    assert named.out == call("predict", file, stdin=table(ROWS)).out
    other = call("predict", file, stdin=table(ROWS, "a,b\n"))
    assert other.code == 2
    assert "the header has a, b, the model needs token 1, token 2" in other.err


@families
def test_rows_off_the_domain_are_refused_by_line_or_marked(call, file):
    text = table([*ROWS, [0.25, 1.5]])
    answer = call("predict", file, stdin=text)
    assert answer.code == 2
    assert "line 4: token 2 is 1.5, outside [0, 1" in answer.err
    told = call("predict", file, "--outside", "nan", "--json", stdin=text).json
    assert told["values"][3] == [None, None]
    assert (told["sequences"], told["outside"]) == (4, 1)


def test_the_value_of_the_theorem_off_the_support_is_zero(call, sort):
    answer = call("predict", sort, "--outside", "zero", stdin=table([[0.25, 1.0]]))
    assert read(answer.out, "token 1,token 2") == [[0.0, 0.0]]


@pytest.mark.parametrize(
    ("family", "outside"), [("sort", "allow"), ("coupling", "allow"), ("coupling", "zero")]
)
def test_what_a_family_does_not_offer_outside_is_refused(call, request, family, outside):
    file = request.getfixturevalue(family)
    answer = call("predict", file, "--outside", outside, stdin=table(ROWS))
    assert answer.code == 2
    assert f"--outside {outside}: choose one of raise, nan" in answer.err


def test_a_bound_in_json_has_its_norm_and_its_kind(call, coupling, law):
    told = call("predict", coupling, "--json", stdin=table(ROWS)).json
    bound = ef.load(coupling).certificate.bound()
    assert (told["bound"], told["norm"], told["kind"]) == (bound.total, bound.norm, "stated")
    told = call("predict", law, "--json", stdin="1,1\n").json
    assert told["kind"] == "proven"


def test_formats_narrower_than_float64_are_for_models_that_have_them(call, sort, coupling):
    answer = call("predict", sort, "--dtype", "float32", stdin=table(ROWS))
    assert answer.code == 2
    assert "sequence models compute in float64" in answer.err
    rows = table(ROWS.astype(np.float32))
    answer = call("predict", coupling, "--dtype", "float32", stdin=rows)
    expected = ef.load(coupling, dtype=torch.float32)(ROWS.astype(np.float32))
    written = answer.out.splitlines()[1:]
    assert [list(map(np.float32, row.split(","))) for row in written] == expected.tolist()
    assert max(map(len, written)) <= 24


def test_predict_says_what_was_written(call, sort, coupling, tmp_path):
    out = tmp_path / "v.csv"
    for file in (sort, coupling):
        words = " ".join(call("predict", file, "-o", out, "--force", stdin=table(ROWS)).out.split())
        assert words.startswith("3 sequences in")
    assert "stated: E Σ_t |H_t − Ĥ_t|" in words


def test_the_help_of_predict_says_how_sequences_are_written(call):
    assert "token after token" in " ".join(call("predict", "--help").out.split())


def test_inspect_shows_the_stages_and_dimensions_of_a_sequence_model(call, sort):
    answer = call("inspect", sort)
    assert answer.code == 0
    words = " ".join(answer.out.split())
    blueprint = ef.load(sort).blueprint
    layers = ", ".join(f"{stage.name} {len(stage)}" for stage in blueprint.stages)
    for part in (
        "2 tokens of dimension 1 in [0, 1)",
        "4 per side, δ = 1/4",
        layers,
        " | ".join(blueprint.dimensions),
        "✓ table",
    ):
        assert part in words
    told = call("inspect", sort, "--json").json
    assert told["family"] == "sequences"
    assert told["layers"] == {stage.name: len(stage) for stage in blueprint.stages}
    assert told["dimensions"] == list(blueprint.dimensions)
    assert told["certificate"]["blueprint_digest"] == ef.load(sort).certificate.blueprint_digest


def test_inspect_shows_the_networks_and_the_bound_of_a_coupling(call, coupling):
    answer = call("inspect", coupling)
    assert answer.code == 0
    words = " ".join(answer.out.split())
    for part in (
        "2 tokens, one number each, in [0, 1]",
        "one head of dimension 2, 1 value row, without positions",
        "1 → 128 → 65 → 5",
        "phi_1 … 2 | psi_1 … 2 | value_1",
        "stated by the file",
        "! error stated: E Σ_t |H_t − Ĥ_t|",
        "interpolation of the coupling",
    ):
        assert part in words
    told = call("inspect", coupling, "--json").json
    assert (told["family"], told["head_dim"], told["tokens"]) == ("couplings", 2, 2)
    assert told["certificate"]


def test_a_trained_coupling_is_shown_without_a_bound(call, tmp_path):
    file = tmp_path / "trained.safetensors"
    model = ef.compile_coupling(sine_family([1.0, 0.5], tau=2), head_dim=2, ff_width=16)
    with torch.no_grad():
        model.network.features.values += 0.01
    model.save(file)
    answer = call("inspect", file)
    assert answer.code == 0
    assert "✗ certificate none: these weights were trained" in " ".join(answer.out.split())
    told = call("inspect", file, "--json").json
    assert told["certificate"] is None
    assert "trained" in told["problem"]
    assert call("predict", file, "--json", stdin=table(ROWS)).json["bound"] is None


def test_inspect_shows_the_certificate_of_a_polynomial(call, law):
    assert "✓ identity" in call("inspect", law).out
    told = call("inspect", law, "--json").json
    assert told["certificate"] == ef.load(law).certificate.to_dict()


@pytest.mark.parametrize(
    ("name", "at", "x"),
    [("law", "0.5,-1", [0.5, -1.0]), ("sort", "0.6,0.1", [[0.6], [0.1]])],
)
def test_at_prints_the_trace_at_an_input(call, request, name, at, x):
    file = request.getfixturevalue(name)
    trace = ef.load(file).trace(x)
    told = call("inspect", file, "--at", at, "--json").json["trace"]
    assert told == {step: tensor.tolist() for step, tensor in trace.items()}
    shown = call("inspect", file, "--at", at).out
    assert all(step in shown for step in trace)


def test_at_needs_as_many_numbers_as_the_input_has(call, sort):
    answer = call("inspect", sort, "--at", "0.1,0.2,0.3")
    assert answer.code == 2
    assert "2 tokens of dimension 1 are 2 numbers, not 3" in answer.err


@families
@pytest.mark.parametrize(
    ("options", "shown"),
    [(["--matrices"], "polynomials"), (["--plot", "inside.png"], "programs")],
    ids=["--matrices", "--plot"],
)
def test_inspect_refuses_what_only_another_family_has(call, file, options, shown):
    answer = call("inspect", file, *options)
    assert answer.code == 2
    assert f"{options[0]} shows models of {shown}" in answer.err


@families
@pytest.mark.parametrize("format", ["onnx", "numpy", "torch"])
def test_export_says_which_models_it_does_not_take(call, file, format):
    kind = "sequence" if "sort" in file.name else "coupling"
    answer = call("export", file, "--format", format)
    assert answer.code == 2
    assert f"a {kind} model cannot be exported as {format}; " in answer.err
    assert list(file.parent.iterdir()) == [file]


@families
def test_an_expression_is_not_compared_with_what_is_no_polynomial(call, file):
    for arguments in (["x^2"], ["--variables", "x"]):
        answer = call("certify", file, *arguments)
        assert answer.code == 2
        assert "leave EXPR and --variables out" in answer.err


def test_certify_proves_the_file_of_a_sequence_map_anew(call, sort):
    answer = call("certify", sort)
    assert answer.code == 0
    assert "sort.safetensors is certified" in answer.out
    assert "4 per side" in answer.out
    told = call("certify", sort, "--json").json
    shown = call("inspect", sort, "--json").json["certificate"]
    assert told["certificate"] == {**shown, "executor": None}  # one holds for every executor


def test_certify_says_that_the_bound_of_a_coupling_is_stated(call, coupling):
    answer = call("certify", coupling)
    assert answer.code == 0
    words = " ".join(answer.out.split())
    assert "coupling.safetensors: stated" in words
    assert "stated by the file" in words
    told = call("certify", coupling, "--json").json
    assert told["file"] == str(coupling)
