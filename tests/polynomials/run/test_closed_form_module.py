"""The fused module: quick ways of evaluating it agree with the formula, and keep to its bound."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from exactformer.core.domain import Ball
from exactformer.core.formats import FORMATS
from exactformer.core.matrix import Matrix
from exactformer.polynomials.proof.closed_form_rounding import arithmetic_format, fused_bound
from exactformer.polynomials.run import closed_form_cpu as fused_blocks
from exactformer.polynomials.run import compiled_run
from exactformer.polynomials.run.closed_form import GROUP, Basis, FusedForm
from exactformer.polynomials.run.closed_form_module import FusedTransformer, formula, is_plain
from tests.examples import examples

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
    assert bound.executed is not None, bound.reason
    return bound.executed


def weights_of(module: FusedTransformer) -> tuple[Tensor | None, Tensor, Tensor, Tensor, Basis]:
    return module.centre, module.features, module.coefficients, module.bias, module.basis


@pytest.fixture(params=["compiled", "not compiled"])
def small_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few points, so that small cases have several, and a shorter one at the end."""
    monkeypatch.setattr(fused_blocks, "_BYTES", 2**13)
    monkeypatch.setattr(compiled_run, "_MOST", 8)
    monkeypatch.setattr(compiled_run, "_FEWEST", 8)
    if request.param == "not compiled":
        monkeypatch.setattr(compiled_run, "kernels", lambda: None)


@pytest.mark.spread(16)
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize(
    ("n", "d", "q", "m", "centred"),
    [(1, 1, 1, 1, True), (11, 3, 5, 1, True), (GROUP + 5, 2, 4, 3, False), (300, 2, 2, 1, True)],
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


@pytest.mark.usefixtures("small_blocks")
@given(
    n=st.integers(1, 2 * GROUP + 3),
    q=st.integers(1, 6),
    count=st.integers(1, 40),
    basis=st.sampled_from(BASES),
    centred=st.booleans(),
)
@settings(max_examples=examples(25))
def test_blocks_agree_with_the_formula(
    n: int, q: int, count: int, basis: Basis, centred: bool
) -> None:
    form = fused_form(n, 2, q, 2, basis, centred)
    weights = weights_of(FusedTransformer(form))
    x = points_of(form, count, torch.float64)
    blocks = fused_blocks.evaluate(x, *weights, torch.float64)
    assert float((blocks - formula(x, *weights)).abs().max()) <= 2 * bound_of(form, torch.float64)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("basis", BASES)
def test_half_formats_compute_in_float32_and_round_once(basis: Basis, dtype: torch.dtype) -> None:
    form = fused_form(40, 3, 4, 2, basis, centred=False)
    half = FusedTransformer(form, dtype)
    single = FusedTransformer(form, dtype).float()
    x = points_of(form, 50, dtype)
    assert torch.equal(half(x), single(x.float()).to(dtype))
    weights = weights_of(half)
    assert torch.equal(formula(x, *weights), formula(x.float(), *weights_of(single)).to(dtype))


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
    assert found.executed is None
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
def test_gradients_are_the_formulas(basis: Basis, monkeypatch: pytest.MonkeyPatch) -> None:
    """First and second, in points and weights; a few points at a time."""
    monkeypatch.setattr("exactformer.polynomials.run.closed_form_module._ENTRIES", 2 * 3)
    module = FusedTransformer(fused_form(3, 2, 3, 2, basis, centred=False)).requires_grad_()
    x = torch.rand(5, 2, dtype=torch.float64, requires_grad=True)
    inputs = (x, module.features, module.coefficients, module.bias, module.centre)

    def value(*_: Tensor) -> Tensor:
        return module(x)

    assert torch.autograd.gradcheck(value, inputs)
    assert torch.autograd.gradgradcheck(value, inputs)
    values = module(x)
    ours = torch.autograd.grad(values.square().sum(), inputs)
    plain = formula(x, *weights_of(module))
    theirs = torch.autograd.grad(plain.square().sum(), inputs)
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, rtol=1e-12)


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


def test_the_number_of_threads_is_left_as_it_was() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        module = FusedTransformer(fused_form(20, 2, 3))
        values = module(points_of(fused_form(20, 2, 3), 100, torch.float64))
        assert torch.get_num_threads() == 3
        torch.set_num_threads(1)
        assert torch.equal(values, module(points_of(fused_form(20, 2, 3), 100, torch.float64)))
    finally:
        torch.set_num_threads(before)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # torch's own
def test_transforms_are_noticed() -> None:
    x = torch.rand(3, 2)
    seen: list[bool] = []

    def look(point: Tensor) -> Tensor:
        seen.append(is_plain(point))
        return point.sum()

    assert is_plain(x)
    torch.func.vmap(look)(x)
    torch.func.grad(look)(x[0])
    torch.func.jvp(look, (x,), (x,))
    with torch.autograd.forward_ad.dual_level():
        look(torch.autograd.forward_ad.make_dual(x, x))
    assert seen == [False] * 4


def additions_of_the_kernel(n: int) -> Iterator[int]:
    """How many additions each token's term goes through, loop by loop as the kernel has them."""
    from exactformer.polynomials.run.closed_form import RUN, TILE

    stretch, run = RUN * RUN * TILE, RUN * TILE
    depth = [0] * n
    total: list[int] = []
    for first in range(0, n, stretch):
        inner: list[int] = []
        for second in range(first, min(first + stretch, n), run):
            lanes: list[list[int]] = [[] for _ in range(TILE)]
            for third in range(second, min(second + run, n), TILE):
                for lane in range(min(TILE, n - third)):
                    _add(lanes[lane], [third + lane], depth)
            terms: list[int] = []
            for lane_terms in lanes:
                _add(terms, lane_terms, depth)
            _add(inner, terms, depth)
        _add(total, inner, depth)
    yield from depth


def _add(total: list[int], terms: list[int], depth: list[int]) -> None:
    """total += terms: an addition for each, but none for a sum that was zero."""
    if total and terms:
        for token in (*total, *terms):
            depth[token] += 1
    total += terms


@given(st.integers(1, 3000))
@settings(max_examples=examples(25))
def test_additions_count_every_way_of_summing(n: int) -> None:
    features = Matrix.of(n, 1, {})
    claimed = FusedForm(features, (), (features,), (Fraction(0),)).additions()
    assert max(additions_of_the_kernel(n)) <= claimed
    halvings, rows = 0, n  # a small batch takes all tokens as one group
    while rows > 8:
        rows, halvings = rows - rows // 2, halvings + 1
    assert halvings + rows - 1 <= claimed
    assert claimed <= 15 + n / GROUP
