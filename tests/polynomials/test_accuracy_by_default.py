"""What ``compile`` chooses and refuses, by certified error."""

import re
from fractions import Fraction
from math import inf
from pathlib import Path

import pytest
import sympy
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import exactformer as ef
from exactformer.algebra import Polynomial, Target
from exactformer.core.domain import Ball, Box
from exactformer.errors import RoundingError, SizeError
from exactformer.polynomials.acceptance import RELATIVE
from exactformer.polynomials.proof.certify import largest_value
from exactformer.polynomials.sizes import multiply_adds

x = sympy.symbols("x")
T60 = sympy.chebyshevt(60, x)


def dense(d: int, q: int) -> Polynomial:
    names = [f"x{i}" for i in range(d)]
    terms = {(): 0} if d == 0 else {}
    stack = [()]
    for _ in range(d):
        stack = [(*a, e) for a in stack for e in range(q + 1 - sum(a))]
    terms = {a: 1 + sum((3 + 2 * i) * e for i, e in enumerate(a)) % 97 for a in stack}
    return Polynomial.from_terms(terms, names)


def largest_error(model: ef.PolynomialModel, polynomial: Polynomial, points: torch.Tensor) -> float:
    exact = [polynomial.at(point) for point in points.double().tolist()]
    values = model(points).detach().double().tolist()
    return float(max(abs(Fraction(v) - e) for v, e in zip(values, exact, strict=True)))


def points_of(d: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    drawn = torch.randn(count, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    radii = torch.linspace(0.1, 0.999, count, dtype=torch.float64)[:, None]
    return (drawn / drawn.norm(dim=1, keepdim=True) * radii).to(dtype)


def test_a_chebyshev_polynomial_is_accurate_by_default():
    model = ef.compile(T60)
    exact = Polynomial.coerce(T60).at([0.999])
    assert model.blueprint.construction == "chebyshev"
    assert abs(Fraction(float(model([0.999]))) - exact) < 1e-13
    assert model.certificate.bound() < 1e-11


def test_powers_are_refused_where_they_lose_all_digits_and_the_way_out_is_named():
    with pytest.raises(RoundingError, match=r"max\|Q\|") as refusal:
        ef.compile(T60, construction="scaled")
    assert "construction='chebyshev' would meet it" in str(refusal.value)
    assert "tolerance=" in str(refusal.value)


def test_a_tolerance_that_is_not_met_names_what_would_meet_it():
    with pytest.raises(RoundingError, match=r"tolerance=1e-06 is not met") as refusal:
        ef.compile(T60, construction="scaled", tolerance=1e-6)
    assert "construction='chebyshev'" in str(refusal.value)
    with pytest.raises(RoundingError, match=r"dtype=torch\.float64 would meet it"):
        ef.compile("x^5 - x", dtype=torch.float32, tolerance=1e-9)


def test_a_refusal_names_directions_that_lose_fewer_digits():
    dense = " + ".join(f"{a + 1} x^{a} y^{b}" for a in range(17) for b in range(17 - a))
    options = {"dtype": torch.float32, "executor": "fused"}
    with pytest.raises(RoundingError, match="directions='spread' takes more tokens"):
        ef.compile(dense, **options)
    certificate = ef.compile(dense, directions="spread", **options).certificate
    assert certificate.bound() <= 1e-3 * certificate.scale


def test_a_tolerance_accepts_what_is_refused_unasked():
    model = ef.compile(T60, construction="scaled", tolerance=inf)
    assert model.certificate.bound() > 1e6
    assert model.blueprint.construction == "scaled"


@pytest.mark.parametrize(
    ("d", "q", "directions", "dtype", "part"),
    [
        (2, 20, "auto", torch.float64, 1e-7),
        (2, 20, "spread", torch.float64, 1e-13),
        (2, 20, "spread", torch.float32, 1e-4),
        (4, 8, "auto", torch.float64, 1e-11),
    ],
)
def test_dense_polynomials_keep_to_the_bound_of_their_closed_form(
    d: int, q: int, directions: str, dtype: torch.dtype, part: float
) -> None:
    """For one point and for many, and with a gradient."""
    polynomial = dense(d, q)
    model = ef.compile(polynomial, dtype=dtype, directions=directions, executor="fused")
    bound = model.certificate.bound()
    assert bound < part * model.certificate.scale
    points = points_of(d, 40, dtype)
    for given in (points, points[:1], points.clone().requires_grad_()):
        assert largest_error(model, polynomial, given) <= bound


def test_a_dear_transformer_is_not_chosen_unasked() -> None:
    """A product of nine variables takes 256 tokens; 16 tokens are cheap."""
    product = "x1 x2 x3 x4 x5 x6 x7 x8 x9"
    with pytest.raises(SizeError, match=r"256 tokens costs \S+ multiply-adds per point") as refused:
        ef.compile(product)
    assert "executor='fused'" in str(refused.value)
    assert "executor='literal'" in str(refused.value)
    fused = ef.compile(product, executor="fused")
    assert fused.executor == "fused"
    assert ef.compile("x1 x2 x3 x4 x5").executor == "literal"


def test_a_dear_file_is_not_loaded_unasked(tmp_path: Path) -> None:
    file = tmp_path / "law.safetensors"
    ef.compile("x1 x2 x3 x4 x5 x6 x7 x8 x9", executor="fused").save(file)
    with pytest.raises(SizeError, match="executor='fused'"):
        ef.load(file)
    assert ef.load(file, executor="fused").executor == "fused"


def test_the_count_of_multiply_adds_is_that_of_the_matrices() -> None:
    """Counted from the shapes of every product that a forward pass makes."""
    model = ef.compile("x^3 - 2 x y + y^2")
    seen: list[int] = []

    class Products(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func in (torch.ops.aten.mm.default, torch.ops.aten.bmm.default):
                a, b = args
                seen.append(a.numel() * b.shape[-1])
            return func(*args, **(kwargs or {}))

    with Products():
        model([0.25, 0.5])
    n, w = model.blueprint.tokens, model.blueprint.width
    assert sum(seen) + n * w == multiply_adds(model.blueprint)


def test_a_product_of_powers_loses_digits_by_tokens_and_is_refused_in_float32():
    product = Polynomial.from_terms({(5, 5, 5): 1}, ["x", "y", "z"])
    for executor in ("literal", "fused"):
        options = {"domain": [(-1, 1)] * 3, "executor": executor}
        with pytest.raises(RoundingError, match=r"dtype=torch\.float64 would meet it"):
            ef.compile(product, dtype=torch.float32, **options)
        model = ef.compile(product, **options)
        corners = torch.randint(0, 2, (20, 3), generator=torch.Generator().manual_seed(0)).double()
        error, bound = largest_error(model, product, 1.8 * corners - 0.9), model.certificate.bound()
        assert error <= bound <= RELATIVE
        assert 0.99 < model.certificate.scale <= 1  # in the corners, which no random point is near


class Own(torch.Tensor):
    """A subclass, which torch runs operation by operation."""


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is:DeprecationWarning")  # torch's own call
def test_derivatives_of_both_kinds_agree_within_their_digits():
    model = ef.compile("x^3 y - 2/3 x y^4 + x", outside="nan")
    point = torch.tensor([0.3, -0.4], dtype=torch.float64)
    given = point.clone().requires_grad_()
    (ordinary,) = torch.autograd.grad(model(given), given)
    assert torch.allclose(torch.func.grad(model)(point), ordinary, rtol=1e-11)
    assert torch.allclose(torch.func.jacfwd(model)(point), ordinary, rtol=1e-11)


def test_weights_that_are_differentiated_or_others_are_used_as_they_are():
    formula = "x^7 y^2 + 1/3 x y^6 z^3 - 2/7 z^8 x + y"
    model = ef.compile(formula, outside="nan", executor="fused")
    points = points_of(3, 5, torch.float64)
    weights = {name: w.detach().clone() for name, w in model.named_parameters()}

    def total(own):
        return torch.func.functional_call(model, own, (points,)).sum()

    slopes = torch.func.grad(total)(weights)
    assert float(slopes["transformer.bias"][0]) == 5
    moved = weights | {"transformer.bias": weights["transformer.bias"] + 1}
    assert float(torch.func.functional_call(model, moved, (points.as_subclass(Own),))[0]) > 0.5


def test_zeros_without_memory_are_zeros():
    """Torch makes such tensors where it knows that a derivative vanishes."""
    model = ef.compile(dense(2, 20))
    nothing = torch._efficientzerotensor((3, 2), dtype=torch.float64)
    assert torch.equal(model(nothing), model(torch.zeros(3, 2, dtype=torch.float64)))


def test_spread_directions_keep_digits_where_they_are_asked_for():
    polynomial = dense(4, 8)
    lattice = ef.compile(polynomial, executor="fused").certificate
    spread = ef.compile(polynomial, directions="spread", executor="fused").certificate
    assert (lattice.tokens, spread.tokens) == (165, 330)
    bounds = [certificate.fused["float32"].value for certificate in (lattice, spread)]
    assert bounds[1] < 1e-4 * spread.scale < 1e-1 * bounds[0]


def test_the_choice_and_what_was_rejected_are_in_words_and_not_a_claim():
    certificate = ef.compile(T60).certificate
    assert "chebyshev, 1 token along" in certificate.choice
    assert "rejected: scaled" in certificate.choice
    assert certificate.choice in str(certificate)
    data = certificate.to_dict()
    assert data["choice"] == certificate.choice
    assert type(certificate).from_dict(data).choice == certificate.choice
    assert {claim.name for claim in certificate.claims} == {"selection", "identity"}


def test_a_choice_in_words_changes_no_certificate():
    model = ef.compile("x^2 + y^2")
    assert ef.certify(model) == model.certificate
    assert ef.certify(model).choice == ""


@pytest.mark.parametrize("domain", [Ball(Fraction(2)), Box.of([(Fraction(-1), Fraction(3))] * 2)])
def test_the_scale_is_a_value_of_the_polynomial_on_the_domain(domain):
    target = Target.coerce("x^2 y - 3 y + 1")
    scale = largest_value(target, domain)
    corner = 3 * 9 - 9 + 1 if isinstance(domain, Box) else 20
    assert 5 < scale <= corner


def test_half_formats_are_held_to_their_own_roundoff():
    model = ef.compile("x^3 + x y", dtype=torch.bfloat16)
    assert model.certificate.bound() > RELATIVE * model.certificate.scale


@pytest.mark.parametrize("radius", [14, 24, 48, 57])
def test_the_tolerance_that_a_refusal_proposes_is_accepted(radius: int) -> None:
    with pytest.raises(RoundingError) as refused:
        ef.compile("x^2 + x", radius=radius, dtype=torch.float32, tolerance=1e-12)
    proposed = re.search(r"tolerance=([\d.e+-]+) or more", str(refused.value))
    assert proposed
    ef.compile("x^2 + x", radius=radius, dtype=torch.float32, tolerance=float(proposed[1]))
