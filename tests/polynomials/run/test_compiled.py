"""The compiled kernels: to the last bit what their order of operations says, tested as they read."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

import exactformer as ef
from exactformer.algebra import Target
from exactformer.core.domain import Ball
from exactformer.errors import ExecutionError, InputError
from exactformer.polynomials.model import BOUNDARY_SLACK, _edge
from exactformer.polynomials.run import compiled_run
from exactformer.polynomials.run.closed_form import RUN, TILE, Basis
from exactformer.polynomials.run.closed_form_module import FusedTransformer
from exactformer.polynomials.run.compiled_run import CompiledTerms
from exactformer.polynomials.run.horner_plan import Action, Scheme, scheme
from exactformer.polynomials.run.monomial_run import Expanded
from tests.examples import examples
from tests.polynomials.proof.test_horner_rounding import DENSE, tables
from tests.polynomials.run.test_closed_form_module import fused_form, points_of

pytest.importorskip("numba")

DTYPES = [torch.float64, torch.float32]


def rounded(value: Fraction, number: type) -> np.floating:
    """The nearest number of a format; these fractions are short enough for float64 to say."""
    return number(value.numerator) / number(value.denominator)


def horner(plan: Scheme, point: Sequence[float], number: type) -> list[np.floating]:
    """A scheme at one point, product by product and sum by sum, in NumPy's numbers."""
    centre = plan.centre or (Fraction(0),) * plan.dimension
    y = [number(x) - rounded(c, number) for x, c in zip(point, centre, strict=True)]
    S: dict[int, np.floating] = {}
    values = []
    for step in plan.steps:
        inner = rounded(step.constant, number)
        if step.action in (Action.BEGIN, Action.ADD):
            for j, c in step.leaves:
                inner = inner + rounded(c, number) * y[j]
        match step.action:
            case Action.BEGIN:
                S[step.level] = inner
            case Action.ADD:
                S[step.level] = S[step.level] + y[step.variable] * inner
            case Action.CHAIN:
                for _, c in step.leaves:
                    S[step.level] = rounded(c, number) + y[step.variable] * S[step.level]
            case Action.LEAVES:
                for j, c in step.leaves:
                    S[step.level] = S[step.level] + rounded(c, number) * y[j]
            case Action.FOLD:
                S[step.level] = S[step.level] + y[step.variable] * S[step.level + 1]
            case Action.OUT:
                assert step.variable == len(values)
                values.append(S[0])
    return values


def laid_out(x: NDArray[np.floating], layout: str) -> Tensor:
    """The same points with other strides."""
    points = torch.from_numpy(x)
    if layout == "columns":
        return points.T.contiguous().T
    if layout == "gaps":
        wide = torch.full((3 * len(x), 2 * x.shape[1]), torch.nan, dtype=points.dtype)
        wide[::3, ::2] = points
        return wide[::3, ::2]
    return points


@given(
    st.lists(tables, min_size=1, max_size=3),
    st.sampled_from(DTYPES),
    st.booleans(),
    st.sampled_from(["rows", "columns", "gaps"]),
    st.integers(1, 40),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=examples(60), deadline=None)
def test_terms_are_added_as_the_scheme_says(
    polynomials, dtype: torch.dtype, centred: bool, layout: str, count: int, seed: int
) -> None:
    centre = [Fraction(k + 1, 3) if centred else Fraction(0) for k in range(4)]
    plan = scheme(polynomials, 4, centre)
    if plan is None:
        assert all(sum(a) < 2 for table in polynomials for a in table)
        return
    number = np.float64 if dtype == torch.float64 else np.float32
    x = np.random.default_rng(seed).uniform(-2, 2, (count, 4)).astype(number)
    terms = CompiledTerms(plan, dtype)
    values = terms(laid_out(x, layout), dtype)
    assert values is not None
    expected = np.array([horner(plan, point, number) for point in x], number)
    assert np.array_equal(values.view(len(polynomials), -1).numpy(), expected.T)
    assert torch.equal(terms.stepwise(laid_out(x, layout), dtype).reshape(-1), values)


def test_leaves_of_every_number_are_added_in_their_order() -> None:
    """One to eleven leaves in every place that has them: passes of four, and what is left."""
    for d in range(1, 12):
        dense = Target.coerce(f"(1 + {' + '.join(f'x{j}/{j + 2}' for j in range(d))})^3")
        plan = scheme([p.terms() for p in dense], d, [Fraction(0)] * d)
        assert plan is not None
        x = np.random.default_rng(d).uniform(-1, 1, (9, d)).astype(np.float32)
        values = CompiledTerms(plan, torch.float32)(torch.from_numpy(x), torch.float32)
        assert values is not None
        assert values.tolist() == [float(horner(plan, row, np.float32)[0]) for row in x]


def test_blocks_and_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target.coerce(DENSE)
    plan = scheme([p.terms() for p in target], 3, [Fraction(0)] * 3)
    assert plan is not None
    x = torch.rand(1000, 3, dtype=torch.float64)
    one = CompiledTerms(plan, torch.float64)
    expected = one(x, torch.float64)
    assert expected is not None
    monkeypatch.setattr(compiled_run, "_MOST", 32)
    monkeypatch.setattr(compiled_run, "_FEWEST", 32)
    monkeypatch.setattr(compiled_run, "_WORTH_THREADS", 1)
    before = torch.get_num_threads()
    small = CompiledTerms(plan, torch.float64)
    assert small.block == 32 < one.block
    module = FusedTransformer(fused_form(40, 3, 4, 2))
    quietly = module(x)
    try:
        torch.set_num_threads(3)
        for count in (1, 31, 32, 33, 1000):
            values = small(x[:count], torch.float64)
            assert values is not None
            assert torch.equal(values, expected[:count])
            assert torch.equal(module(x[:count]), quietly[:count])
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def tokens(module: FusedTransformer, point: Tensor, number: type) -> list[np.floating]:
    """A fused form at one point, in the order of the compiled kernel."""
    F, C = module.features.numpy(), module.coefficients.numpy()
    y = [number(x) for x in point.tolist()]
    if module.centre is not None:
        y = [a - c for a, c in zip(y, module.centre.numpy(), strict=True)]
    values = []
    for c, bias in zip(C, module.bias.numpy(), strict=True):
        total = number(0)
        for first in range(0, len(F), RUN * RUN * TILE):
            stretch = number(0)
            for second in range(first, min(first + RUN * RUN * TILE, len(F)), RUN * TILE):
                lanes = [number(0)] * TILE
                for i in range(second, min(second + RUN * TILE, len(F))):
                    t = F[i, 0] * y[0]
                    for j in range(1, len(y)):
                        t = t + F[i, j] * y[j]
                    value, before = c[-1, i], number(0)
                    for s in range(len(c) - 2, -1, -1):
                        if module.basis is Basis.POWER:
                            value = c[s, i] + t * value
                        else:
                            value, before = (t + t) * value + (c[s, i] - before), value
                    lanes[(i - second) % TILE] += t * value - before
                stretch = stretch + sum(lanes[1:], start=lanes[0])
            total = total + stretch
        values.append(total + bias)
    return values


@given(
    st.integers(1, RUN * RUN * TILE + 20),
    st.integers(1, 6),
    st.integers(1, 9),
    st.integers(1, 2),
    st.sampled_from(list(Basis)),
    st.sampled_from(DTYPES),
    st.booleans(),
)
@settings(max_examples=examples(30), deadline=None)
def test_tokens_are_added_in_the_order_of_the_kernel(
    n: int, d: int, q: int, m: int, basis: Basis, dtype: torch.dtype, centred: bool
) -> None:
    form = fused_form(n, d, q, m, basis, centred)
    module = FusedTransformer(form, dtype)
    x = points_of(form, 3, dtype)
    number = np.float64 if dtype == torch.float64 else np.float32
    expected = [tokens(module, point, number) for point in x]
    assert module(x).reshape(3, m).tolist() == [[float(v) for v in row] for row in expected]


@pytest.fixture(scope="module")
def ball() -> ef.PolynomialModel:
    return ef.compile(DENSE, radius=Fraction(7, 3))


@pytest.fixture(scope="module")
def box() -> ef.PolynomialModel:
    return ef.compile("x^3 y - 2 x y^2 + y/3", domain=[(Fraction(1, 3), 2), (100, "100.1")])


def quick(model: ef.PolynomialModel, x: Tensor) -> Tensor | None:
    transformer = model.transformer
    assert isinstance(transformer, FusedTransformer)
    return transformer.values(x, model._edge)


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_no_point_outside_passes_the_quick_test(ball, box, data) -> None:
    """Whatever passes also passes the test that decides; whatever is well inside passes both."""
    model = data.draw(st.sampled_from([ball, box]))
    d = len(model.blueprint.variables)
    domain = model.blueprint.domain
    near = data.draw(st.sampled_from([0.0, 0.5, 1 - 2**-40, 1.0, 1 + 2**-40, 1 + 2**-32, 1.5]))
    direction = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=d, max_size=d)), float)
    order = 2 if model is ball else np.inf
    direction /= max(np.linalg.norm(direction, ord=order), 1e-9)
    away = near * direction
    x = [float(domain.offset(j)) + float(domain.extent(j)) * away[j] for j in range(d)]
    inner = [float(domain.offset(j)) for j in range(d)]
    points = torch.tensor([inner] * data.draw(st.integers(0, 600)) + [x], dtype=torch.float64)
    inside = model._distances(points) <= BOUNDARY_SLACK
    if quick(model, points) is not None:
        assert bool(inside.all())
    elif near < 1 - 2**-20:
        raise AssertionError("a point well inside did not pass")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 1e300])
@pytest.mark.parametrize("place", [0, 1, 511, 512, 999])
def test_a_bad_coordinate_is_noticed_wherever_it_is(ball, box, place: int, bad: float) -> None:
    for model in (ball, box):
        d = len(model.blueprint.variables)
        centre = [float(model.blueprint.domain.offset(j)) for j in range(d)]
        x = torch.tensor([centre] * 1000, dtype=torch.float64)
        assert quick(model, x) is not None
        for j in range(d):
            altered = x.clone()
            altered[place, j] = bad
            assert quick(model, altered) is None
            with pytest.raises(InputError, match="not finite" if bad != 1e300 else "outside"):
                model(altered)


@pytest.mark.parametrize("extent", [0.0, 1e-300, 1e300, float("inf")])
def test_domains_at_the_ends_of_float64_are_left_to_the_usual_test(extent: float) -> None:
    assert _edge(Ball(Fraction(1)), [[0.0], [0.0], [extent]]) is None
    assert _edge(Ball(Fraction(1)), []) is None


def test_points_on_the_boundary_pass_at_once(ball, box) -> None:
    edge = torch.tensor([[7 / 3, 0, 0], [0, -7 / 3, 0]], dtype=torch.float64)
    assert quick(ball, edge) is not None
    assert quick(box, torch.tensor([[1 / 3, 100.0], [2, 100.1]], dtype=torch.float64)) is not None


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bfloat16, torch.float16])
def test_the_compiled_way_is_within_the_bound_of_the_other(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "(x + 2 y - z)^4 - 5 x y z + 1/3"
    compiled = ef.compile(text, dtype=dtype)
    generator = torch.Generator().manual_seed(0)
    x = (torch.rand(300, 3, generator=generator) - 0.5).to(dtype)
    values = compiled(x)
    monkeypatch.setattr(compiled_run, "is_installed", lambda: False)
    monkeypatch.setattr(compiled_run, "kernels", lambda: None)
    plain = ef.compile(text, dtype=dtype)
    assert isinstance(compiled.transformer._expanded, CompiledTerms)
    assert isinstance(plain.transformer._expanded, Expanded)
    bounds = compiled.certificate.bound(), plain.certificate.bound()
    for point, *both in zip(x.tolist(), values.tolist(), plain(x).tolist(), strict=True):
        exact = Target.coerce(text).polynomials[0].at(point)
        for value, bound in zip(both, bounds, strict=True):
            assert abs(Fraction(value) - exact) <= bound


def test_a_compiler_that_cannot_be_loaded_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model with a scheme takes the same steps with torch then: its bound speaks of them."""
    model = ef.compile(DENSE, directions="lattice")
    x = torch.rand(100, 3, dtype=torch.float64) / 2
    values = model(x)
    assert isinstance(model.transformer._expanded, CompiledTerms)
    monkeypatch.setattr(compiled_run, "kernels", lambda: None)
    assert torch.equal(model(x), values)
    assert torch.equal(model(x.clone().requires_grad_()).detach(), values)


def test_every_shape_and_type_of_points_has_the_same_values(ball: ef.PolynomialModel) -> None:
    x = torch.rand(4, 5, 3, dtype=torch.float64) / 2
    values = ball(x)
    assert values.shape == (4, 5)
    assert torch.equal(ball(x.reshape(-1, 3)), values.reshape(-1))
    assert torch.equal(ball(x.numpy()), values)
    assert torch.equal(ball(x[:, :, [2, 1, 0]].flip(-1)), values)
    assert torch.equal(ball(x.tolist()), values)
    assert torch.equal(ball(x[1, 2]), values[1, 2])
    assert torch.equal(ball(x[1, 2].expand(7, 3)), values[1, 2].expand(7))
    assert torch.equal(ball(torch._neg_view(-x)), values)
    assert torch.equal(ball(x.half()), ball(x.half().double()))
    assert ball(x[:0]).shape == (0, 5)
    assert torch.equal(ball([[1, 0, 0]]), ball([[1.0, 0, 0]]))
    for wrong in (x[..., :2], x.to(torch.complex128), x.to(torch.float8_e5m2), x.to_sparse()):
        with pytest.raises(InputError):
            ball(wrong)


def test_hooks_and_gradients_take_the_usual_way() -> None:
    model = ef.compile(DENSE)
    x = torch.rand(5, 3, dtype=torch.float64) / 2
    values, seen = model(x), []
    handle = model.transformer.register_forward_hook(lambda *_: seen.append(1))
    assert torch.equal(model(x), values)
    handle.remove()
    assert seen == [1]
    model.transformer.forward = lambda points: points.sum(dim=1)  # type: ignore[method-assign]
    assert torch.equal(model(x), x.sum(dim=1))
    del model.transformer.forward
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(leaf).sum(), leaf)
    marked = ef.compile(DENSE, outside="nan")
    rows = torch.func.vmap(torch.func.grad(marked))(x)
    assert torch.allclose(gradient, rows, rtol=1e-12)
    assert torch.equal(torch.func.vmap(marked)(x).isnan(), torch.zeros(5, dtype=torch.bool))


def test_other_weights_are_used_as_they_are() -> None:
    """In whatever memory they are, and never the proven terms instead."""
    model = ef.compile(DENSE)
    transformer = model.transformer
    assert isinstance(transformer, FusedTransformer)
    x = torch.rand(6, 3, dtype=torch.float64) / 2
    values = model(x)
    kept = transformer.coefficients
    for change in (
        lambda c: torch._neg_view(c.clone()),
        lambda c: (2 * c).transpose(1, 2).contiguous().transpose(1, 2),
        lambda c: c.flip(1),
    ):
        transformer.coefficients = torch.nn.Parameter(change(kept), requires_grad=False)
        with torch.no_grad():
            plain = transformer.coefficients.resolve_neg().contiguous().clone()
        altered = model(x)
        assert not torch.equal(altered, values)
        transformer.coefficients = torch.nn.Parameter(plain, requires_grad=False)
        assert float((model(x) - altered).abs().max()) <= 1e-9
    transformer.coefficients = kept
    assert torch.equal(model(x), values)
    transformer.centre = torch.nn.Parameter(torch.ones(3).double() / 8, requires_grad=False)
    assert torch.allclose(model(x), ef.compile(DENSE, radius=2)(x - 1 / 8), rtol=1e-9)


def test_reduced_products_are_refused_as_before() -> None:
    model = ef.compile(DENSE, dtype=torch.float32)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        with pytest.raises(ExecutionError, match="reduced precision"):
            model(torch.zeros(1, 3))
    finally:
        torch.set_float32_matmul_precision(before)
