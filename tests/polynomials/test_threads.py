"""Points in pieces: nothing depends on how they are cut."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import pytest
import torch
from torch import Tensor

import exactformer as ef
from exactformer.core.domain import Ball
from exactformer.errors import InputError, OutsideDomainError
from exactformer.polynomials import model as compiled
from exactformer.polynomials.proof.certify import Proof

PIECE, TOKENS = 7, 3


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pieces of a few points, and more threads than this test process has."""
    monkeypatch.setattr(compiled, "_ENTRIES", PIECE * TOKENS)
    monkeypatch.setattr(compiled, "_CHECKED", 3)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model() -> ef.PolynomialModel:
    model = ef.compile("x^3 - 2 x y + y^2; x y; x - 1/3", radius=2, executor="fused")
    assert model.blueprint.tokens == TOKENS
    return model


def points(count: int) -> Tensor:
    generator = torch.Generator().manual_seed(count)
    directions = torch.randn(count, 2, generator=generator, dtype=torch.float64)
    return 1.9 * directions / directions.norm(dim=1, keepdim=True)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("count", [0, 1, PIECE, PIECE + 1, 10 * PIECE + 3])
def test_values_do_not_depend_on_the_number_of_threads(
    model: ef.PolynomialModel, count: int
) -> None:
    x = points(count)
    shared = model(x)
    assert torch.get_num_threads() == 3
    assert shared.shape == (count, 3)
    torch.set_num_threads(1)
    assert torch.equal(model(x), shared)
    with torch.inference_mode():
        assert torch.equal(model(x), shared)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("differentiable", [False, True])
def test_no_piece_is_larger_than_allowed(
    model: ef.PolynomialModel, monkeypatch: pytest.MonkeyPatch, differentiable: bool
) -> None:
    """So that memory does not grow with the number of points."""
    sizes: list[int] = []
    forward = model.transformer.forward

    def watched(x: Tensor) -> Tensor:
        sizes.append(len(x))
        return forward(x)

    monkeypatch.setattr(model.transformer, "forward", watched)
    x = points(10 * PIECE + 3).requires_grad_(differentiable)
    assert model(x).requires_grad == differentiable
    assert max(sizes) == PIECE
    assert sum(sizes) == len(x)


@pytest.mark.usefixtures("small_pieces")
def test_gradients_go_through_all_pieces(model: ef.PolynomialModel) -> None:
    x = points(3 * PIECE).requires_grad_()
    (gradient,) = torch.autograd.grad(model(x)[:, 1].sum(), x)
    assert torch.allclose(gradient, x.detach().flip(1))


@pytest.mark.usefixtures("small_pieces")
def test_a_point_outside_is_named_by_its_place_among_all(model: ef.PolynomialModel) -> None:
    x = points(4 * PIECE)
    x[2 * PIECE + 1] *= 2
    x[3 * PIECE] *= 3
    with pytest.raises(OutsideDomainError, match=rf"2 of {len(x)} .* point {3 * PIECE},"):
        model(x)
    x[PIECE + 2, 1] = torch.nan
    with pytest.raises(InputError, match=f"point {PIECE + 2} is not finite"):
        model(x)


@pytest.mark.usefixtures("small_pieces")
def test_points_outside_are_marked_piece_by_piece(model: ef.PolynomialModel) -> None:
    x = points(4 * PIECE)
    x[PIECE + 1] *= 2
    marking = compiled.PolynomialModel(
        model.blueprint, Proof(model.certificate), outside="nan", executor="fused"
    )
    values = marking(x)
    missing = values.isnan().any(dim=1)
    assert missing.nonzero().flatten().tolist() == [PIECE + 1]
    assert torch.equal(values[~missing], compiled_values(model, x)[~missing])


def compiled_values(model: ef.PolynomialModel, x: Tensor) -> Tensor:
    return compiled.PolynomialModel(
        model.blueprint, Proof(model.certificate), outside="allow", executor="fused"
    )(x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_quick_test_for_the_ball_never_lets_a_point_out(dtype: torch.dtype) -> None:
    """At and around the boundary the quick answer is no, and then the exact test decides."""
    model = ef.compile("x^2 + y^2 + z^2", radius=3, dtype=dtype)
    for outward in (1 + 2.0**-5, 1 + 2.0**-20, 1 + 2.0**-30):
        x = (torch.tensor([[3.0, 0.0, 0.0], [1.0, 2.0, 2.0]], dtype=torch.float64) * outward).to(
            dtype
        )
        outside = bool((x.double().norm(dim=1) > 3 * (1 + 2.0**-32)).any())
        if outside:
            with pytest.raises(OutsideDomainError):
                model(x)
        else:
            assert bool(model(x).isfinite().all())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_quick_test_allows_for_its_own_rounding(dtype: torch.dtype) -> None:
    """Just outside, sums of squares often round to the radius' square or below it."""
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(500, 10, generator=generator, dtype=torch.float64)
    sphere = (3 * directions / directions.norm(dim=1, keepdim=True)).to(dtype)
    ball, deceived = Ball(Fraction(3)), 0
    for point in sphere[:, None]:
        outside = sum(Fraction(v) ** 2 for v in point[0].tolist()) > 9
        deceived += outside and float((point * point).sum()) <= 9
        assert not (outside and compiled._clearly_inside(point, ball))
    assert deceived  # by a test that did not allow for it
    assert compiled._clearly_inside(0.99 * sphere, ball)
    assert not compiled._clearly_inside(sphere * torch.nan, ball)
    assert not compiled._clearly_inside(sphere, Ball(Fraction(10) ** 30))  # its square overflows


@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16])
def test_a_float32_model_takes_half_points_as_they_are(narrow: torch.dtype) -> None:
    model = ef.compile("x^3 + x y", radius=2, dtype=torch.float32)
    x = points(20).to(narrow)
    assert model(x).dtype == torch.float32
    assert torch.equal(model(x), model(x.float()))


def test_a_wider_range_counts_as_rounding_too() -> None:
    """bfloat16 has fewer digits than float16, but numbers that float16 has not."""
    model = ef.compile("x^2", radius=1, dtype=torch.float16)
    assert float(model(torch.tensor([0.5], dtype=torch.bfloat16))) == 0.25
    with pytest.raises(InputError, match="rounding"):
        model(torch.tensor([2.0**-60], dtype=torch.bfloat16))
