"""ONNX graphs carry out the blueprint, operation by operation, under names one can read."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

import exactformer as ef
from exactformer.core.layers import IDENTITY, RELU, PiecewiseLinear, Rule
from exactformer.errors import RoundingError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.export import onnx_file
from exactformer.polynomials.run.literal import LiteralTransformer
from exactformer.polynomials.run.numpy_weights import literal_arrays
from tests.cases.blueprints import attention_block, hand_made
from tests.cases.exports import FUSED, MODELS, inner_points, model_of, session, worst_error

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from exactformer.polynomials.onnx import literal_graph, onnx_model  # noqa: E402

FORMATS = (torch.float64, torch.float32, torch.float16)


@pytest.mark.spread(8)
@pytest.mark.parametrize(
    ("name", "executor"),
    [*((name, "fused") for name in FUSED), *((name, "literal") for name in MODELS)],
)
def test_values_are_within_the_bound_in_every_format(name: str, executor: str) -> None:
    ran = 0
    for dtype in FORMATS:
        try:
            model = model_of(name, executor=executor, dtype=dtype)
            bound = model.certificate.bound(dtype, executor)
        except RoundingError:
            continue
        contents, x = onnx_file(model), inner_points(model, 40)
        onnx.checker.check_model(onnx.load_from_string(contents), full_check=True)
        for optimise in (True, False):
            (values,) = session(contents, optimise).run(None, {"x": x})
            assert values.dtype == x.dtype
            assert worst_error(model, x, values) <= bound
        ran += 1
    assert ran >= 2


@pytest.mark.parametrize("executor", ["fused", "literal"])
@pytest.mark.parametrize("name", ["f2", "vector"])
def test_any_batch_size_runs(name: str, executor: str) -> None:
    model = model_of(name, executor=executor)
    run = session(onnx_file(model)).run
    x = inner_points(model, 300)
    (whole,) = run(None, {"x": x})
    bound = 2 * model.certificate.bound("float64", executor)
    for count in (0, 1, 2, 299):
        (part,) = run(None, {"x": x[:count]})
        assert part.shape == whole[:count].shape
        assert np.abs(part - whole[:count]).max(initial=0) <= bound


def test_values_inside_are_those_of_the_trace_by_name() -> None:
    model = ef.compile("x^6 - 2 x y^2", radius=2, construction="doubling", executor="literal")
    graph = onnx.load_from_string(onnx_file(model))
    x = inner_points(model, 1)
    trace = model.trace(x[0])
    several = {
        b: len(block.attention.heads) > 1 for b, block in enumerate(model.blueprint.blocks, 1)
    }
    assert any(several.values())
    pairs = {"embedding/tokens": "tokens"}
    for b, block in enumerate(model.blueprint.blocks, 1):
        for h in range(1, len(block.attention.heads) + 1):
            head = f"head {h} " if several[b] else ""
            pairs[f"block_{b}/head_{h}/scores"] = f"block {b} {head}scores"
            pairs[f"block_{b}/head_{h}/selection"] = f"block {b} {head}selection"
        pairs[f"block_{b}/feed_forward/b2"] = f"block {b} output"
    for name in pairs:
        graph.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    found = session(graph.SerializeToString()).run(list(pairs), {"x": x})
    for value, name in zip(found, pairs.values(), strict=True):
        np.testing.assert_allclose(value[0], trace[name].numpy(), rtol=1e-12, atol=1e-12)


def run_literal(blueprint: Blueprint, x: np.ndarray) -> np.ndarray:
    arrays = literal_arrays(blueprint, torch.float64)
    model = onnx_model(*literal_graph(blueprint, arrays), blueprint, {}, None)
    onnx.checker.check_model(model, full_check=True)
    (values,) = session(model.SerializeToString()).run(None, {"x": x})
    assert isinstance(values, np.ndarray)
    return values


def test_the_first_of_equals_is_selected() -> None:
    """All scores are equal; the values 1, 2, 4 of the tokens tell which was taken."""
    score, value = {(0, 1): 1}, {(3, 2): 1}
    block = attention_block(4, [(1, score, score, value)])
    constant = {(i, 1): 1 for i in range(3)} | {(i, 2): 2**i for i in range(3)}
    blueprint = hand_made({(0, 0): 1}, 3, 1, 4, constant, [block], {(2, 3): 1})
    assert run_literal(blueprint, np.zeros((2, 1))).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("activation", [RELU, IDENTITY])
def test_every_rule_and_activation_is_that_of_the_module(
    rule: Rule, activation: PiecewiseLinear
) -> None:
    """Two tokens, ties where x = 0, a feed-forward layer whose units change sign."""
    block = attention_block(
        3,
        [(1, {(0, 0): 1}, {(0, 0): 2}, {(2, 0): 1, (2, 1): Fraction(1, 2)})] * 2,
        rule=rule,
        w1={(0, 2): 1, (1, 0): -1},
        b1={(1, 0): Fraction(1, 4)},
        w2={(0, 0): 1, (2, 1): 3},
        b2={(1, 0): -1},
        units=2,
        activation=activation,
    )
    beta = {(i, j): i - 2 * j + 1 for i in range(2) for j in range(3)}
    blueprint = hand_made(
        *({(0, 0): 1, (1, 0): -2}, 2, 1, 3), {(0, 1): 1, (1, 1): 1}, [block, block], beta, bias=3
    )
    x = np.linspace(-1, 1, 9)[:, None]
    expected = LiteralTransformer(blueprint)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(
        run_literal(blueprint, x), expected.reshape(9), rtol=1e-13, atol=1e-13
    )


def test_the_file_is_the_same_every_time() -> None:
    for executor in ("fused", "literal"):
        first, second = (onnx_file(model_of("vector", executor=executor)) for _ in range(2))
        assert first == second
