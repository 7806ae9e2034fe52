"""The fused module keeps to its bound, in every format and with its gradients."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from exactformer.core.domain import Ball
from exactformer.core.formats import FORMATS
from exactformer.core.matrix import Matrix
from exactformer.polynomials.proof.closed_form_rounding import arithmetic_format, fused_bound
from exactformer.polynomials.run.closed_form import Basis, FusedForm
from exactformer.polynomials.run.closed_form_module import FusedTransformer

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
BASES = list(Basis)


def fused_form(
    n: int, d: int, q: int, m: int = 1, basis: Basis = Basis.POWER, centred: bool = True
) -> FusedForm:
    """A form with features of norm at most 1 and coefficients that no format holds exactly."""
    rng = np.random.default_rng(n + 10 * d + 100 * q + 1000 * m)

    def matrix(rows: int, columns: int, scale: int) -> Matrix:
        numbers = rng.integers(-1000, 1001, size=(rows, columns))
        entries = {place: Fraction(int(v), scale) for place, v in np.ndenumerate(numbers)}
        return Matrix.of(rows, columns, entries)

    return FusedForm(
        matrix(n, d, 1003 * d),
        () if centred else tuple(Fraction(k + 1, 7) for k in range(d)),
        tuple(matrix(n, q, 999) for _ in range(m)),
        tuple(Fraction(k + 1, 3) for k in range(m)),
        basis,
        m > 1,
    )


def points_of(form: FusedForm, count: int, dtype: torch.dtype) -> Tensor:
    """Points of the unit ball round the centre, exact in the format."""
    d = form.features.columns
    rng = np.random.default_rng(count)
    offsets = rng.normal(size=(count, d))
    offsets *= 0.98 * rng.uniform(size=(count, 1)) / np.linalg.norm(offsets, axis=1, keepdims=True)
    return torch.from_numpy(offsets + np.array([float(c) for c in form.centre or [0] * d])).to(
        dtype
    )


def exactly(form: FusedForm, point: list[float]) -> list[Fraction]:
    """The form's values in rational arithmetic."""
    y = [Fraction(v) for v in point]
    y = [v - c for v, c in zip(y, form.centre or [Fraction(0)] * len(y), strict=True)]
    values = list(form.biases)
    for i in range(form.features.rows):
        t = sum((value * y[j] for j, value in form.features.by_row.get(i, [])), Fraction(0))
        basis = [Fraction(1), t]
        while len(basis) <= form.coefficients[0].columns:
            basis.append(
                t * basis[-1] if form.basis is Basis.POWER else 2 * t * basis[-1] - basis[-2]
            )
        for k, coefficients in enumerate(form.coefficients):
            row = coefficients.by_row.get(i, [])
            values[k] += sum((value * basis[s + 1] for s, value in row), Fraction(0))
    return values


def bound_of(form: FusedForm, dtype: torch.dtype) -> float:
    domain = Ball(Fraction(1), form.centre)
    reach = [domain.reach(form.features.by_row.get(i, [])) for i in range(form.features.rows)]
    bound = fused_bound(form, reach, domain, FORMATS[str(dtype).removeprefix("torch.")])
    assert bound.value is not None, bound.reason
    return bound.value


@pytest.mark.spread(16)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize(
    ("n", "d", "q", "m", "centred"),
    [(1, 1, 1, 1, True), (11, 3, 5, 1, True), (133, 2, 4, 3, False), (300, 2, 2, 1, True)],
)
def test_values_keep_to_the_bound(
    n: int, d: int, q: int, m: int, centred: bool, basis: Basis, dtype: torch.dtype
) -> None:
    form = fused_form(n, d, q, m, basis, centred)
    x = points_of(form, 23, dtype)
    computed = FusedTransformer(form, dtype)(x)
    assert computed.dtype == dtype
    assert computed.shape == ((23, m) if form.vector else (23,))
    bound = bound_of(form, dtype)
    for point, values in list(zip(x.tolist(), computed.reshape(23, m).tolist(), strict=True))[::4]:
        for value, exact in zip(values, exactly(form, point), strict=True):
            assert abs(Fraction(value) - exact) <= bound


@pytest.mark.parametrize(("basis", "factor"), [(Basis.POWER, 300), (Basis.CHEBYSHEV, 1000)])
def test_the_bound_is_not_vacuous(basis: Basis, factor: int) -> None:
    """200 tokens with some 100 roundings each: the square root of that is chance, not the bound's
    fault; for Chebyshev polynomials it also allows all |b_s| to be as large as they could be.
    """
    form = fused_form(200, 2, 4, basis=basis)
    x = points_of(form, 200, torch.float32)
    module = FusedTransformer(form, torch.float32)
    observed = (module(x).double() - FusedTransformer(form)(x.double())).abs().max()
    assert bound_of(form, torch.float32) < factor * float(observed)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("basis", BASES)
def test_half_formats_compute_in_float32_and_round_once(basis: Basis, dtype: torch.dtype) -> None:
    form = fused_form(40, 3, 4, 2, basis, centred=False)
    half = FusedTransformer(form, dtype)
    single = FusedTransformer(form, dtype).float()
    x = points_of(form, 50, dtype)
    assert torch.equal(half(x), single(x.float()).to(dtype))


def test_half_formats_have_far_better_bounds_than_half_arithmetic() -> None:
    """A sum of 300 terms in bfloat16 would leave no digit; one rounding and the weights' do."""
    form = fused_form(300, 2, 4)
    exact, coarse = bound_of(form, torch.float32), bound_of(form, torch.bfloat16)
    size = sum(
        abs(value) * Fraction(1) for _, _, value in form.coefficients[0]
    )  # Σ |c|, and |t| ≤ 1
    assert exact < coarse < float(size) / 20
    assert arithmetic_format(FORMATS["float16"]) is FORMATS["float32"]
    assert arithmetic_format(FORMATS["float64"]) is FORMATS["float64"]


def test_float16_holds_large_intermediates_but_not_large_values() -> None:
    """Arithmetic has float32's range, values float16's."""
    large = Matrix.of(1, 2, {(0, 0): Fraction(60000), (0, 1): Fraction(-60000)})
    form = FusedForm(Matrix.of(1, 1, {(0, 0): Fraction(1)}), (), (large,), (Fraction(0),))
    found = fused_bound(form, [Fraction(1)], Ball(Fraction(1)), FORMATS["float16"])
    assert found.value is None
    assert "float16" in found.reason


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_last_rounding_counts(dtype: torch.dtype) -> None:
    """x + 1 with exact weights: float32 is exact, the value's own rounding is all there is."""
    one = Matrix.of(1, 1, {(0, 0): Fraction(1)})
    form = FusedForm(one, (), (one,), (Fraction(1),))
    unit = torch.finfo(dtype).eps / 2
    x = torch.tensor([[0.5 + unit]], dtype=dtype)
    error = abs(float(FusedTransformer(form, dtype)(x)) - (1.5 + unit))
    assert error == unit <= bound_of(form, dtype) < 5 * unit


@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16])
def test_narrower_points_are_read_exactly(narrow: torch.dtype) -> None:
    form = fused_form(20, 3, 4, centred=False)
    module = FusedTransformer(form, torch.float32)
    x = points_of(form, 30, narrow)
    assert torch.equal(module(x), module(x.float()))
    assert module(x).dtype == torch.float32


@pytest.mark.parametrize("basis", BASES)
def test_gradients_are_the_formulas(basis: Basis) -> None:
    """First and second, in points and weights."""
    module = FusedTransformer(fused_form(3, 2, 3, 2, basis, centred=False)).requires_grad_()
    x = torch.rand(5, 2, dtype=torch.float64, requires_grad=True)
    inputs = (x, module.features, module.coefficients, module.bias, module.centre)

    def value(*_: Tensor) -> Tensor:
        return module(x)

    assert torch.autograd.gradcheck(value, inputs)
    assert torch.autograd.gradgradcheck(value, inputs)


def test_only_what_needs_a_gradient_gets_one() -> None:
    module = FusedTransformer(fused_form(7, 2, 3))
    x = torch.rand(5, 2, dtype=torch.float64)
    assert not module(x).requires_grad
    module.coefficients.requires_grad_()
    module(x).sum().backward()
    assert module.coefficients.grad is not None
    assert module.features.grad is None


@pytest.mark.parametrize("count", [0, 1, 5])
def test_no_points_and_constants_are_evaluated_too(count: int) -> None:
    x = torch.zeros(count, 2, dtype=torch.float64)
    assert FusedTransformer(fused_form(3, 2, 2, 2))(x).shape == (count, 2)
    constant = FusedForm(Matrix.of(1, 2, {}), (), (Matrix.of(1, 0, {}),), (Fraction(1, 2),))
    assert torch.equal(FusedTransformer(constant)(x), torch.full((count,), 0.5).double())


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # torch's own
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("basis", BASES)
def test_eager_traced_vectorised_and_exported_calls_keep_to_one_bound(
    basis: Basis, dtype: torch.dtype
) -> None:
    form = fused_form(133, 2, 4, 2, basis, centred=False)
    module, x = FusedTransformer(form, dtype), points_of(form, 9, dtype)
    batch = torch.export.Dim("batch")
    exported = torch.export.export(module, (x,), dynamic_shapes=({0: batch},)).module()
    found = {
        "eager": module(x),
        "with a gradient": module(x.clone().requires_grad_()).detach(),
        "one at a time": torch.cat([module(point[None]) for point in x]),
        "vmap": torch.vmap(lambda point: module(point[None])[0])(x),
        "jvp": torch.func.jvp(module, (x,), (x,))[0],
        "traced by the compiler": torch.compile(module, backend="eager")(x),
        "exported": exported(x),
    }
    bound = bound_of(form, dtype)
    for name, values in found.items():
        for point, row in zip(x.tolist(), values.tolist(), strict=True):
            for value, exact in zip(row, exactly(form, point), strict=True):
                assert abs(Fraction(value) - exact) <= bound, name
