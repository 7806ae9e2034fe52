"""The compiled model as users meet it: a module that is right, or says why it cannot be."""

import copy
import pickle
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import sympy
import torch

import exactformer as ef
from exactformer.errors import (
    ExecutionError,
    InputError,
    OutsideDomainError,
    RoundingError,
    SizeError,
    UnknownVariableError,
)

F2 = "x1^5 + 3 x2^4 + 2 x3^3 + 5 x3 x4 + 3 x5^2 + 2 x6 x7 x8 + 2 x9"


@pytest.fixture(scope="module")
def f2() -> ef.PolynomialModel:
    return ef.compile(F2, radius=4)


def test_f2_takes_eleven_tokens(f2: ef.PolynomialModel) -> None:
    assert f2.blueprint.tokens == 11
    assert f2.blueprint.depth == 4
    assert f2.certificate.zero_error


@pytest.mark.parametrize("shape", [(9,), (1, 9), (5, 9), (2, 3, 9), (0, 9)])
def test_shapes_follow_the_input(f2: ef.PolynomialModel, shape: tuple[int, ...]) -> None:
    assert f2(torch.zeros(shape, dtype=torch.float64)).shape == shape[:-1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("construction", ["scaled", "paper"])
@pytest.mark.parametrize("executor", ["fused", "literal"])
def test_values_are_within_the_certificate(
    executor: str, construction: str, dtype: torch.dtype
) -> None:
    polynomial = ef.Polynomial.parse("2 x^3 - x y + 1/3")
    radius = 1 if dtype is torch.bfloat16 else 3
    options = {"construction": construction, "dtype": dtype, "executor": executor}
    if construction == "paper" and dtype is torch.bfloat16 and executor == "literal":
        with pytest.raises(RoundingError, match="bfloat16"):
            ef.compile(polynomial, radius, **options)  # type: ignore[arg-type]
        return
    model = ef.compile(polynomial, radius, **options)  # type: ignore[arg-type]
    points = torch.randn(500, 2, generator=torch.Generator().manual_seed(0)).to(dtype)
    points = points[points.double().norm(dim=1) <= radius]
    values = [float(polynomial.at(p)) for p in points.double().tolist()]
    exact = torch.tensor(values, dtype=torch.float64)
    error = (model(points).double() - exact).abs().max()
    assert 0 < float(error) <= model.certificate.bound(dtype, executor)


@pytest.mark.spread(12)
@pytest.mark.parametrize(
    ("target", "variables", "point", "value"),
    [
        ("7/2", [], [], Fraction(7, 2)),
        ("7/2", ["x"], [0.5], Fraction(7, 2)),
        ("0", ["x", "y"], [1.0, 0.5], 0),
        ("x", ["x"], [-0.75], Fraction(-3, 4)),
        ("x - 1", ["y", "x"], [1.0, 0.5], Fraction(-1, 2)),
        ("x^8", ["x"], [0.5], Fraction(1, 256)),
    ],
)
@pytest.mark.parametrize("construction", ["scaled", "paper"])
@pytest.mark.parametrize("radius", [2, Fraction(5, 4), 10**6])
def test_corner_cases_compile(
    target: str,
    variables: list[str],
    point: list[float],
    value: Fraction,
    construction: str,
    radius: Fraction,
) -> None:
    model = ef.compile(target, radius, variables=variables, construction=construction)
    assert abs(float(model(point)) - value) <= model.certificate.bound("float64")


def test_a_tiny_ball_is_as_accurate_as_a_large_one() -> None:
    tiny = ef.compile("x^3 + x y", radius="1e-6").certificate
    large = ef.compile("x^3 + x y", radius="1e6").certificate
    for certificate in (tiny, large):
        assert certificate.bound("float64") / certificate.scale < 1e-13


def test_sympy_and_polynomials_compile_alike() -> None:
    x, y = sympy.symbols("x y")
    models = [
        ef.compile(t) for t in ("(x+y)^2/3", (x + y) ** 2 / 3, ef.Polynomial.parse("(x+y)^2/3"))
    ]
    assert models[0].blueprint == models[1].blueprint == models[2].blueprint


def test_the_module_is_differentiable() -> None:
    model = ef.compile("x^3 + 2 x y^2", radius=4)
    x = torch.tensor([1.5, -0.5], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(model(x), x)
    assert torch.allclose(gradient, torch.tensor([7.25, -3.0], dtype=torch.float64), atol=1e-12)
    assert torch.autograd.gradcheck(model, (x,))


@pytest.mark.parametrize(
    ("executor", "free"),
    [("literal", {"features", "beta", "bias"}), ("fused", {"features", "coefficients", "bias"})],
)
def test_free_parameters_are_frozen_until_asked(executor: str, free: set[str]) -> None:
    model = ef.compile("x^2", radius=1, executor=executor)
    assert [n for n, p in model.named_parameters() if p.requires_grad] == []
    model.requires_grad_()
    model(torch.tensor([0.5], dtype=torch.float64)).backward()
    trained = {n.split(".")[-1] for n, p in model.named_parameters() if p.grad is not None}
    assert trained == free


def test_fused_and_literal_agree_in_value_and_gradient() -> None:
    x = torch.linspace(-1, 1, 18, dtype=torch.float64).reshape(2, 9).requires_grad_()
    values, gradients = [], []
    for executor in ("fused", "literal"):
        model = ef.compile(F2, radius=4, executor=executor)
        values.append(model(x))
        gradients.append(torch.autograd.grad(values[-1].sum(), x)[0])
    bound = sum(model.certificate.bound("float64", e) for e in ("fused", "literal"))
    assert float((values[0] - values[1]).detach().abs().max()) <= bound
    assert torch.allclose(gradients[0], gradients[1], rtol=1e-12, atol=1e-12)


def test_functional_transforms_see_through_the_fused_model() -> None:
    model = ef.compile("x^3 + 2 x y^2", radius=4, outside="allow")
    points = torch.tensor([[1.5, -0.5], [0.25, 2.0]], dtype=torch.float64)
    jacobian = torch.func.vmap(torch.func.jacrev(model))(points)
    expected = torch.stack(
        [3 * points[:, 0] ** 2 + 2 * points[:, 1] ** 2, 4 * points[:, 0] * points[:, 1]], dim=1
    )
    assert torch.allclose(jacobian, expected, rtol=0, atol=1e-12)


def test_state_dict_and_deepcopy_carry_every_weight(f2: ef.PolynomialModel) -> None:
    twin = copy.deepcopy(f2)
    for (name, a), (other, b) in zip(
        f2.state_dict().items(), twin.state_dict().items(), strict=True
    ):
        assert name == other
        assert torch.equal(a, b)
        assert a is not b


def test_models_are_not_pickled(f2: ef.PolynomialModel) -> None:
    with pytest.raises(ExecutionError, match=r"model\.save"):
        pickle.dumps(f2)


def test_trace_takes_points_of_a_narrower_format(f2: ef.PolynomialModel) -> None:
    point = torch.full((len(f2.variables),), 0.25, dtype=torch.float32)
    assert torch.equal(f2.trace(point)["output"], f2.trace(point.double())["output"])


def test_trace_shows_powers_and_diagonal_selections(f2: ef.PolynomialModel) -> None:
    point = torch.linspace(-1, 1, 9, dtype=torch.float64)
    trace = f2.trace(point)
    feature = trace["tokens"][:, trace.dimensions.index("feature")]
    for s, block in enumerate(range(1, 5), start=2):
        selection = trace[f"block {block} selection"]
        assert torch.equal(selection, torch.diag(selection.diag()))
        stored = trace[f"block {block} output"][:, trace.dimensions.index(f"power {s}")]
        assert torch.allclose(stored, feature**s, rtol=0, atol=1e-14)
    assert trace["output"] == ef.compile(F2, radius=4, executor="literal")(point)
    assert "block 2 scores" in trace
    with pytest.raises(InputError, match="block 9"):
        trace["block 9 scores"]


def test_saving_and_loading_give_the_same_bits(f2: ef.PolynomialModel, tmp_path: Path) -> None:
    f2.save(tmp_path / "law.safetensors")
    again = ef.load(tmp_path / "law.safetensors")
    x = torch.rand(7, 9, dtype=torch.float64)
    assert torch.equal(again(x), f2(x))
    assert again.certificate == f2.certificate
    half = ef.load(tmp_path / "law.safetensors", dtype=torch.float32)
    assert half(x.float()).dtype is torch.float32


def test_points_outside_the_ball_raise_by_default(f2: ef.PolynomialModel) -> None:
    x = torch.zeros(3, 9, dtype=torch.float64)
    x[1, 0] = 4.5
    with pytest.raises(OutsideDomainError, match=r"1 of 3 points .* point 1, 1\.125 times"):
        f2(x)
    marked = ef.compile(F2, radius=4, outside="nan")(x)
    assert marked.isnan().tolist() == [False, True, False]
    assert torch.isfinite(ef.compile(F2, radius=4, outside="allow")(x)).all()


def test_the_boundary_itself_is_inside() -> None:
    model = ef.compile("x^2 + y^2", radius="0.1")
    angles = np.linspace(0, 2 * np.pi, 1000)
    circle = 0.1 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert torch.isfinite(model(circle)).all()


@pytest.mark.parametrize(
    ("points", "problem"),
    [
        ([float("nan")] * 9, "point 0 is not finite"),
        ([float("inf")] * 9, "point 0 is not finite"),
        ([0.0] * 8, r"9 coordinates .* shape is \(8,\)"),
        (1.0, "9 coordinates"),
        ("x", "must be numbers"),
        (torch.zeros(9, dtype=torch.complex64), "real numbers"),
        (torch.zeros(9, dtype=torch.bool), "real numbers"),
    ],
)
def test_bad_points_are_explained(f2: ef.PolynomialModel, points: object, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        f2(points)


def test_points_are_never_rounded_silently() -> None:
    model = ef.compile("x", dtype=torch.float32)
    assert model(torch.tensor([0.5], dtype=torch.float64)) == 0.5
    with pytest.raises(InputError, match="not covered by the certificate"):
        model(torch.tensor([0.1], dtype=torch.float64))


@pytest.mark.parametrize("outside", ["raise", "nan", "allow"])
def test_reduced_precision_products_are_refused(outside: str) -> None:
    model = ef.compile("x^2", dtype=torch.float32, outside=outside)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with pytest.raises(ExecutionError, match="reduced precision"):
            model([0.5])
    finally:
        torch.set_float32_matmul_precision(before)


def test_an_unknown_precision_counts_as_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    def mixed() -> str:
        raise RuntimeError("the backends disagree")

    model = ef.compile("x^2", dtype=torch.float32)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", mixed)
    with pytest.raises(ExecutionError, match="reduced precision"):
        model([0.5])


def test_a_model_moved_to_a_format_without_a_bound_does_not_run() -> None:
    model = ef.compile("x^2 + 100000", radius=1)
    with pytest.raises(RoundingError, match=r"no bound for literal in torch\.float16"):
        model.to(torch.float16)([0.5])


@pytest.mark.parametrize(
    "radius",
    [
        *(0, -1, float("nan"), float("inf"), "abc", [], True, "1/0"),
        *("1e999999999", Decimal("1e999999999"), Decimal("NaN"), "1" * 20_000),
    ],
)
def test_bad_radii_are_refused(radius: object) -> None:
    with pytest.raises(InputError, match="radius must be a positive finite number"):
        ef.compile("x", radius)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"construction": "magic"}, "choose one of scaled, paper"),
        ({"directions": "all"}, "choose one of auto"),
        ({"executor": "quantum"}, "choose one of literal, fused"),
        ({"outside": "ignore"}, "choose one of raise"),
        ({"dtype": torch.int64}, "not one of float64"),
        ({"variables": "xy"}, "list of names"),
        ({"variables": ["x", "x"]}, "named once"),
        ({"radius": "1e200"}, "rescale"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        ef.compile("x", **options)  # type: ignore[arg-type]


def test_unknown_variables_are_pointed_at() -> None:
    with pytest.raises(UnknownVariableError, match=r"unknown variable 'z'.*column 5"):
        ef.compile("x + z", variables=["x", "y"])


@pytest.mark.parametrize(
    "target", ["x^5000 y", "(a^2+b^2+c^2+d^2+e^2+f^2+g^2+h^2+i^2+j^2+k^2+l^2+1)^7", "x^1000000"]
)
def test_what_would_not_fit_is_refused_with_figures(target: str) -> None:
    with pytest.raises(SizeError, match=r"n = [\d,]+ tokens.*entries.*GiB.*limit"):
        ef.compile(target)


def test_values_beyond_the_format_are_refused() -> None:
    with pytest.raises(RoundingError, match=r"beyond float64|leaves float64"):
        ef.compile("x^100", radius=10**6)
    with pytest.raises(RoundingError, match="construction='scaled'"):
        ef.compile(*("x^10", 10**9), construction="paper", dtype=torch.float32, executor="literal")


def test_the_order_of_variables_is_part_of_every_print() -> None:
    model = ef.compile("x^5 + 5 z w")
    assert model.variables == ("w", "x", "z")
    assert "variables   w, x, z" in str(model.certificate)
    assert "variables w, x, z; on ‖x‖ ≤ 1" in str(model)
    given = ef.compile("x + y", variables=["y", "x", "u"])
    assert given.variables == ("y", "x", "u")
    assert "variables y, x, u" in str(given)


def test_a_printed_model_says_what_it_is() -> None:
    assert str(ef.compile("x^2 - 1/3", radius=2, executor="fused")).splitlines() == [
        "PolynomialModel(",
        "  x^2 - 1/3",
        "  variables x; on ‖x‖ ≤ 2",
        "  scaled: 1 token, 1 block, run as its proven closed form (fused)",
        "  (transformer): FusedTransformer()",
        ")",
    ]
    assert "run as every matrix (literal)" in str(ef.compile("x^2"))
    wave = ef.compile(np.sin, domain=[(0, 1)], tolerance=1e-6)
    assert wave.variables == ("x",)
    assert "sin by a polynomial of degree" in str(wave)
