"""``ef.compile_sequence``: sequence maps in, modules with certificates out."""

import copy
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import exactformer as ef
from exactformer.core.integrity import check_against_blueprint
from exactformer.errors import (
    CertificationError,
    ExecutionError,
    FileFormatError,
    InputError,
    NotEquivariantError,
    OutsideDomainError,
    SizeError,
)
from exactformer.sequences.grid import Grid
from exactformer.sequences.sizes import check_sequence_size, predict_size
from tests.cases.sequences import FORMS

Array = NDArray[np.float64]


def centred(x: Array) -> Array:
    return x - x.mean(axis=0)


def compiled(form: str = "compact", **options: Any) -> ef.SequenceModel:
    arguments = {"tokens": 2, "dim": 1, "delta": Fraction(1, 8), "form": form, **options}
    return ef.compile_sequence(arguments.pop("f", centred), **arguments)


@pytest.mark.spread(1)
@pytest.mark.parametrize("form", FORMS)
def test_a_model_is_its_function_at_the_centres_of_the_cells(form: str) -> None:
    model = ef.compile_sequence(centred, tokens=2, dim=2, delta="1/4", form=form)
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(50, 2, 2, dtype=torch.float64, generator=generator)
    cells = (x * 4).floor()
    assert torch.equal(model.quantise(x), cells)
    for sequence, where, output in zip(x, cells, model(x), strict=True):
        if form != "four-layer" and torch.equal(where[0], where[1]):
            assert not output.any()
            continue
        assert torch.equal(output, torch.tensor(centred(((where + 0.5) / 4).numpy())))
        exact = [[float(v) for v in token] for token in model.exact(sequence.tolist())]
        assert exact == output.tolist()


def test_tokens_come_and_go_in_the_order_of_torch() -> None:
    model = compiled()
    one = model([[0.1], [0.9]])
    assert one.tolist() == [[-0.4375], [0.4375]]
    assert model([[[0.1], [0.9]], [[0.9], [0.1]]]).shape == (2, 2, 1)
    assert torch.equal(model([[0.9], [0.1]]), one.flip(0))
    assert model(np.zeros((5, 3, 2, 1), dtype=np.float32)).shape == (5, 3, 2, 1)


@pytest.mark.parametrize("executor", ["fused", "literal", "exact"])
def test_executors_agree(executor: str) -> None:
    rows = [[[0.1], [0.9]], [[0.3], [0.3]], [[0.3], [7.0]], [[-1e300], [1e300]], [[0.2], [1e300]]]
    x = torch.tensor(rows, dtype=torch.float64)
    expected = [[[-0.4375], [0.4375]], *[[[0.0], [0.0]]] * 4]
    assert compiled(executor=executor, outside="zero")(x).tolist() == expected


@pytest.mark.spread(3)
@pytest.mark.parametrize("executor", ["fused", "literal", "exact"])
@pytest.mark.parametrize("form", FORMS)
def test_with_positions_outside_is_zero_whatever_the_form(form: str, executor: str) -> None:
    """The paper's layers alone would take 1.125 for a token at the next position."""
    model = compiled(form, f=lambda x: x + 1, positional=True, executor=executor, outside="zero")
    outside = [[1.125], [-0.375]]
    assert not model(outside).any()
    assert model.exact(outside) == ((0,), (0,))
    assert model([[0.625], [0.125]]).all()


def test_the_stages_compose_to_the_model() -> None:
    model = compiled()
    x = torch.rand(20, 2, 1, dtype=torch.float64)
    codes = model.contextual_mapping(model.quantiser(x))
    assert torch.equal(codes, model.codes(x))
    assert torch.equal(model.value_map(codes), model(x))
    assert codes.shape == (20, 2)


@pytest.mark.parametrize("form", FORMS)
def test_traces_show_every_stage_and_on_request_every_layer(form: str) -> None:
    model = compiled(form)
    x = [[0.1], [0.9]]
    trace = model.trace(x)
    names = [stage.name for stage in model.blueprint.stages]
    assert list(trace) == ["embedding", *names, "output"]
    assert trace["embedding"].shape == (2, model.blueprint.width)
    assert torch.allclose(trace["output"], model(x), atol=1e-9)
    every = model.trace(x, layers=True)
    layers = [name for name, _ in model.blueprint.layers()]
    assert [name for name in every if name in set(layers)] == layers
    with pytest.raises(InputError, match="one sequence"):
        model.trace([x, x])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("positional", [False, True])
def test_saved_models_come_back_with_their_proof(
    form: str, positional: bool, tmp_path: Path
) -> None:
    def f(x: Array) -> Array:
        return np.sort(x, axis=0) if positional else centred(x)

    model = compiled(form, f=f, positional=positional, delta="1/3", support=("-1", "1/2"))
    path = tmp_path / "map.safetensors"
    model.save(path)
    again = ef.load(path)
    assert isinstance(again, ef.SequenceModel)
    assert again.blueprint == model.blueprint
    assert again.table == model.table
    assert again.certificate == model.certificate
    x = torch.rand(30, 2, 1, dtype=torch.float64) * 1.5 - 1
    assert torch.equal(again(x), model(x))


def test_an_altered_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "map.safetensors"
    compiled().save(path)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(FileFormatError, match=r"weights .* are not those that were saved"):
        ef.load(path)
    path.write_bytes(bytes(content[:100]))
    with pytest.raises(FileFormatError):
        ef.load(path)


def test_polynomials_are_loaded_as_before(tmp_path: Path) -> None:
    path = tmp_path / "law.safetensors"
    ef.compile("x^2 + 1", radius=2).save(path)
    assert isinstance(ef.load(path), ef.PolynomialModel)


def test_a_map_that_is_not_equivariant_is_refused_with_two_inputs_that_show_it() -> None:
    with pytest.raises(NotEquivariantError, match="positional=True") as caught:
        compiled(f=lambda x: np.cumsum(x, axis=0))
    (x, moved_x), (y, moved_y) = caught.value.inputs, caught.value.outputs
    assert np.array_equal(np.sort(x, axis=0), np.sort(moved_x, axis=0))
    assert np.array_equal(np.cumsum(moved_x, axis=0), moved_y)
    assert not np.array_equal(np.sort(y, axis=0), np.sort(moved_y, axis=0))
    compiled(f=lambda x: np.cumsum(x, axis=0), positional=True)


def test_equal_columns_must_have_equal_values_where_they_are_kept() -> None:
    def biased(x: Array) -> Array:
        tie = float(x[0, 0] == x[1, 0])
        return x + tie * np.array([[0.0], [1.0]])

    compiled("compact", f=biased)  # equal columns are discarded
    with pytest.raises(NotEquivariantError):
        compiled("four-layer", f=biased)
    with pytest.raises(InputError, match="columns 1 and 2 are equal"):
        ef.compile_sequence(
            {(0, 0): [[1], [2]]}, tokens=2, dim=1, delta=Fraction(1, 2), form="four-layer"
        )


def test_rounding_in_another_order_is_no_asymmetry() -> None:
    def noisy(x: Array) -> Array:
        return x - (0.1 + sum(x[:, 0].tolist()) + 0.3)

    model, x = compiled(f=noisy, tokens=3), torch.tensor([[0.9], [0.1], [0.6]], dtype=torch.float64)
    assert torch.equal(model(x.flip(0)), model(x).flip(0))


def test_tables_are_taken_as_they_are() -> None:
    table = {(0, 2): [[Fraction(1, 3)], [2]], (1, 2): [["1/7"], [0.1]]}
    model = ef.compile_sequence(table, tokens=2, dim=1, delta=Fraction(1, 3))
    assert model.exact([[0.9], [0.1]]) == ((2,), (Fraction(1, 3),))
    assert model.exact([[0.5], [0.9]]) == ((Fraction(1, 7),), (Fraction(0.1),))
    assert model.exact([[0.1], [0.5]]) == ((0,), (0,))


def test_corners_may_be_sampled_instead_of_centres() -> None:
    model = ef.compile_sequence(
        lambda x: x, tokens=2, dim=1, delta="1/4", sample="corner", support=(-1, 1)
    )
    assert model([[-0.9], [0.9]]).tolist() == [[-1.0], [0.5]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tokens": 0}, "tokens must be a positive integer"),
        ({"dim": True}, "dim must be a positive integer"),
        ({"delta": 0.3}, "1/N"),
        ({"delta": "2/3"}, "1/N"),
        ({"delta": "x"}, "must be numbers"),
        ({"support": (1, 1)}, "interval"),
        ({"form": "short"}, "choose one of compact, paper, four-layer"),
        ({"executor": "quick"}, "choose one of fused, literal, exact"),
        ({"sample": "edge"}, "choose one of centre, corner"),
        ({"f": None}, "function or a table"),
        ({"f": 3}, "function or a table"),
        ({"f": lambda x: x[0]}, r"shape \(1,\).*\(tokens, dim\) = \(2, 1\), one row per token"),
        ({"f": lambda x: x / 0 * 0}, "finite"),
        ({"f": lambda x: 1 / 0}, "fails at"),
        ({"f": {(3, 1): [[0], [0]]}}, "no class of this grid"),
        ({"f": {(1, 1): [[0], [0]]}}, "no class of this grid"),
        ({"f": {(1, 3): [[0]]}}, "shape"),
        ({"f": {(1, 3): [[0, 0]]}}, r"\(tokens, dim\) = \(2, 1\), one row per token"),
        ({"f": lambda x: x.T}, r"\(tokens, dim\) = \(2, 1\), one row per token"),
        ({"f": {(1, 3): [[0], [float("nan")]]}}, "finite"),
        ({"tokens": 9}, "no 9 different columns"),
        ({"form": "paper", "tokens": 1}, "at least two tokens"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_wrong_arguments_say_what_is_wrong(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        compiled(**options)


@pytest.mark.parametrize(
    ("x", "words"),
    [
        ([[0.1, 0.2]], r"shape \(batch, 2, 1\)"),
        ([0.1], r"shape \(batch, 2, 1\)"),
        ([[float("nan")], [0.0]], "finite"),
        (torch.zeros(2, 1, dtype=torch.complex64), "real"),
        ("sequence", "numbers"),
    ],
)
def test_wrong_inputs_say_what_is_wrong(x: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        compiled()(x)


def test_keys_beyond_float64_are_an_error_with_a_way_out() -> None:
    arguments: dict[str, Any] = {
        "tokens": 6,
        "dim": 1,
        "delta": Fraction(1, 15),
        "form": "compact",
    }
    with pytest.raises(SizeError, match="float64 has 53") as caught:
        ef.compile_sequence({}, **arguments)
    assert "form='four-layer'" in str(caught.value)
    assert "delta=Fraction(1, 12)" in str(caught.value)
    assert "executor='exact'" in str(caught.value)
    ef.compile_sequence({}, **{**arguments, "delta": Fraction(1, 12)})


def test_exact_execution_goes_on_where_floats_end() -> None:
    table = {(0, 1, 2, 3, 4, 5, 6, 7): [[Fraction(k, 3)] for k in range(8)]}
    model = ef.compile_sequence(
        table, tokens=8, dim=1, delta="1/9", form="compact", executor="exact"
    )
    assert model.blueprint.key_bits > 53
    x = [[(k + 0.5) / 9] for k in range(8)]
    assert model.exact(x) == tuple((Fraction(k, 3),) for k in range(8))
    assert torch.equal(model(x), torch.arange(8, dtype=torch.float64)[:, None] / 3)
    with pytest.raises(ExecutionError, match="not exact in float64"):
        model.codes(x)


@pytest.mark.parametrize(("tokens", "executor"), [(50, "exact"), (40, "exact"), (26, "fused")])
def test_a_finite_field_that_would_not_fit_is_refused(tokens: int, executor: str) -> None:
    """Few keys, and a field of 2^tokens elements to number the columns."""
    with pytest.raises(SizeError, match="finite field"):
        ef.compile_sequence(
            {}, tokens=tokens, dim=1, delta="1/2", form="four-layer", executor=executor
        )


def test_values_that_push_the_papers_keys_beyond_float64_are_refused() -> None:
    with pytest.raises(SizeError, match="executor='exact'"):
        compiled("paper", f=lambda x: 1e15 * x)


@pytest.mark.parametrize(
    ("size", "form", "depth"),
    [
        ((1, 2, 64), "paper", 4164),
        ((1, 3, 32), "paper", 14_948),
        ((2, 2, 8), "paper", 4118),
        ((2, 3, 4), "paper", 1710),
        ((1, 3, 32), "compact", 14_946),
        ((2, 3, 4), "four-layer", 4),
    ],
)
def test_sizes_are_predicted(size: tuple[int, int, int], form: str, depth: int) -> None:
    d, n, N = size
    predicted = predict_size(Grid(n, d, N, repeats=form == "four-layer"), form)
    assert predicted.depth == depth


@pytest.mark.spread(6)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("positional", [False, True])
@pytest.mark.parametrize("size", [(1, 2, 4), (2, 2, 2), (1, 3, 3)], ids=str)
def test_predictions_come_true(size: tuple[int, int, int], form: str, positional: bool) -> None:
    d, n, N = size
    model = ef.compile_sequence(
        {}, tokens=n, dim=d, delta=f"1/{N}", form=form, positional=positional
    )
    predicted = predict_size(model.table.grid, form)
    counts = model.blueprint.counts()
    assert predicted.layers == counts.layers
    assert counts.key_bits <= predicted.key_bits
    assert predicted.keys == model.table.grid.keys
    assert sum(1 for _ in model.blueprint.layers()) == counts.depth


def test_the_curse_of_dimension_is_refused_in_figures() -> None:
    with pytest.raises(SizeError, match=r"7(\.\d)?e\+34 keys"):
        check_sequence_size(Grid(8, 8, 4), "paper")


def test_cells_that_floats_cannot_tell_apart_are_refused() -> None:
    with pytest.raises(CertificationError, match="too far from 0"):
        compiled(f=lambda x: x, support=(10**17, 10**17 + 1))
    compiled(f=lambda x: x, support=(10**6, 10**6 + 1))


def test_models_compute_in_float64_only() -> None:
    model = compiled().to(torch.float32)
    with pytest.raises(ExecutionError, match="float64"):
        model([[0.1], [0.9]])


def test_models_are_copied_but_not_pickled() -> None:
    model = compiled()
    twin = copy.deepcopy(model)
    assert torch.equal(twin([[0.1], [0.9]]), model([[0.1], [0.9]]))
    with pytest.raises(ExecutionError, match="save"):
        model.__getstate__()


@pytest.mark.slow
def test_thirty_two_cells_of_three_tokens_are_the_literal_layers() -> None:
    """About 15,000 layers' worth, every class of the grid."""
    model = ef.compile_sequence(centred, tokens=3, dim=1, delta="1/32", form="compact")
    literal = ef.SequenceModel(model.blueprint, model.table, model.certificate, "literal")
    points = [[model.table.grid.centre(k) for k in ids] for ids in model.table.values]
    x = torch.tensor([[[float(v) for v in c] for c in p] for p in points], dtype=torch.float64)
    assert torch.equal(model(x), literal(x))


def test_one_token_in_one_cell_has_the_key_zero() -> None:
    model = ef.compile_sequence(lambda x: x, tokens=1, dim=1, delta=1, form="compact")
    assert model.blueprint.largest_key == 0
    assert model([[0.3]]).tolist() == [[0.5]]


def test_equal_columns_that_differ_by_rounding_have_one_value() -> None:
    def nearly(x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The identity; the last token is summed in another order, so to say."""
        return np.vstack([x[:-1], np.nextafter(x[-1:], 2)])

    model = ef.compile_sequence(nearly, tokens=2, dim=1, delta="1/2", form="four-layer")
    first, second = model.table.values[1, 1]
    assert first == second
    assert model([[0.6], [0.7]]).tolist() == [[0.75], [0.75]]


def test_equal_tokens_are_kept_unless_another_form_is_asked_for() -> None:
    default = ef.compile_sequence(lambda x: x, tokens=2, dim=1, delta="1/2")
    assert default.blueprint.form == "four-layer"
    assert default([[0.6], [0.7]]).tolist() == [[0.75], [0.75]]
    assert not compiled(f=lambda x: x)([[0.6], [0.6]]).any()


@pytest.mark.spread(3)
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("executor", ["fused", "literal", "exact"])
def test_what_lies_outside_raises_is_marked_or_is_the_theorems_zero(
    executor: str, soft: bool
) -> None:
    if soft and executor == "exact":
        pytest.skip("softmax is not rational")
    rows = [[[0.1], [0.9]], [[0.1], [1.0]], [[-1e-300], [0.9]]]
    for outside in ("raise", "nan", "zero"):
        model = compiled("four-layer", executor=executor, outside=outside)
        model = model.softened(executor=executor) if soft else model
        assert model.outside == outside
        inside = model(rows[0])
        assert inside.flatten().tolist() == pytest.approx([-0.4375, 0.4375])
        if outside == "raise":
            with pytest.raises(OutsideDomainError, match=r"2 of 3 .* \[0, 1\).*outside='zero'"):
                model(rows)
            with pytest.raises(OutsideDomainError):
                model.trace(rows[1])
            continue
        values = model(rows)
        assert torch.equal(values[0], inside)
        assert (values[1:].isnan() if outside == "nan" else values[1:] == 0).all()
    model.outside = "raise"
    with pytest.raises(InputError, match="outside='zero'"):
        model.outside = "allow"
    model.check_unchanged()
    assert copy.deepcopy(model).outside == "raise"


def test_exact_arithmetic_knows_the_support_too() -> None:
    model = compiled("four-layer")
    edge = [[Fraction(1)], [Fraction(1, 3)]]
    with pytest.raises(OutsideDomainError):
        model.exact(edge)
    model.outside = "zero"
    assert model.exact(edge) == ((0,), (0,))


def test_a_model_has_the_face_of_every_model() -> None:
    model = compiled("four-layer").bounded(1)
    assert model.target is model.table
    assert model.dtype == torch.float64
    assert model.certificate.dtype == "float64"
    assert model.certificate.executor == "fused"
    assert [claim.name for claim in model.certificate.claims] == [
        "table",
        "rest",
        "keys",
        "distance",
    ]
    assert "2 tokens of dimension 1 in [0, 1), 8 cells per side" in repr(model)
    soft = model.softened(0.01)
    assert {"softmax", "ramps"} <= {claim.name for claim in soft.certificate.claims}
    assert soft.certificate.bound() >= model.certificate.bound()
    for deed in (model.to_numpy, soft.to_transformer_lens, lambda: model.to_onnx("nowhere")):
        with pytest.raises(ExecutionError, match="cannot"):
            deed()
    check_against_blueprint(soft)


def test_probes_ask_a_softmax_model_in_floats() -> None:
    soft = compiled("four-layer").softened()
    found = ef.check_equivariance(soft, 2, 1, trials=10)
    assert found
    assert not found.exact
    assert ef.check_equivariance(compiled("four-layer"), 2, 1, trials=10).exact
    centres = (np.arange(8) + 0.5) / 8
    inputs = np.array([[[a], [b]] for a in centres for b in centres if a < b])
    assert not ef.is_contextual_mapping(soft, inputs).exact
