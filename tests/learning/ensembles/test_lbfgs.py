import numpy as np
import pytest
import torch
from scipy.optimize import rosen, rosen_der

from exactformer.learning.ensembles.training.lbfgs import _Curvature, minimise


def quadratics(*conditions, size=6):
    """ℓ_i(θ) = ½ (θ − c)ᵀ A_i (θ − c) with condition numbers as given, and c."""
    source = torch.Generator().manual_seed(0)
    matrices = []
    for condition in conditions:
        Q = torch.linalg.qr(torch.randn(size, size, generator=source, dtype=torch.float64)).Q
        matrices.append(Q * torch.logspace(0, np.log10(condition), size, dtype=torch.float64) @ Q.T)
    A = torch.stack(matrices)
    centre = torch.randn(len(A), size, generator=source, dtype=torch.float64)

    def objective(theta):
        gradient = (A @ (theta - centre).unsqueeze(-1)).squeeze(-1)
        return 0.5 * ((theta - centre) * gradient).sum(dim=1), gradient

    return objective, centre


def rosenbrock(theta):
    rows = theta.numpy()
    values = np.array([rosen(row) for row in rows])
    return torch.from_numpy(values), torch.from_numpy(np.stack([rosen_der(row) for row in rows]))


def test_quadratics_are_solved_whatever_their_condition():
    objective, centre = quadratics(1, 10, 1e3, 1e5)
    found = minimise(objective, torch.zeros_like(centre), steps=100)
    # ½ λ_min |θ − c|² ≤ ℓ with λ_min = 1
    assert torch.all(
        (found.weights - centre).norm(dim=1) <= (2 * found.losses[:, -1]).sqrt() + 1e-12
    )
    assert torch.all(found.losses[:, -1] < 1e-18)


def test_losses_never_rise():
    start = torch.randn(8, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = minimise(rosenbrock, 3 * start, steps=100)
    assert torch.all(found.losses.diff(dim=1) <= 0)
    assert torch.all(found.losses[:, -1] < found.losses[:, 0])


def test_the_valley_of_rosenbrock_is_followed_to_its_end():
    start = torch.tensor([[-1.2, 1.0], [0.0, 0.0], [2.0, -1.0]], dtype=torch.float64)
    found = minimise(rosenbrock, start, steps=100)
    torch.testing.assert_close(found.weights, torch.ones_like(start), rtol=0, atol=1e-8)


def test_rows_do_not_depend_on_their_company():
    start = torch.tensor([[-1.2, 1.0], [0.0, 0.0], [2.0, -1.0]], dtype=torch.float64)
    together = minimise(rosenbrock, start, steps=30)
    for row in range(3):
        alone = minimise(rosenbrock, start[row : row + 1], steps=30)
        assert torch.equal(alone.weights[0], together.weights[row])
        assert torch.equal(alone.losses[0], together.losses[row, : alone.losses.shape[1]])


def test_kinks_are_passed():
    """|θ₁| + 2|θ₂|: the weak Wolfe conditions can be met where no gradient vanishes."""
    weights = torch.tensor([1.0, 2.0], dtype=torch.float64)

    def objective(theta):
        return (theta.abs() * weights).sum(dim=1), theta.sign() * weights

    start = torch.tensor([[0.9, -0.7], [5.0, 3.3]], dtype=torch.float64)
    found = minimise(objective, start, steps=60)
    assert torch.all(found.losses[:, -1] < 1e-3 * found.losses[:, 0])


def test_rows_without_a_finite_loss_or_not_asked_for_stay():
    def objective(theta):
        losses, gradient = rosenbrock(theta)
        losses[1] = torch.nan
        return losses, gradient

    start = torch.tensor([[-1.2, 1.0], [0.0, 0.0], [2.0, -1.0]], dtype=torch.float64)
    asked = torch.tensor([True, True, False])
    found = minimise(objective, start, steps=30, rows=asked)
    assert torch.equal(found.weights[1:], start[1:])
    assert found.losses.shape[1] == 31
    assert torch.all(found.losses[0].diff() < 0)


def test_a_wall_is_not_walked_into():
    """ℓ is infinite beyond θ = 1, and a first step would go there."""

    def objective(theta):
        inside = theta[:, 0] < 1
        losses = torch.where(inside, -theta[:, 0] - (1 - theta[:, 0]).log() / 10, torch.inf)
        return losses, (0.1 / (1 - theta) - 1)

    found = minimise(objective, torch.zeros(1, 1, dtype=torch.float64), steps=30)
    assert found.weights.item() == pytest.approx(0.9, abs=1e-8)


def test_a_minimum_is_left_alone():
    objective, centre = quadratics(10, 100)
    found = minimise(objective, centre, steps=10)
    assert torch.equal(found.weights, centre)
    assert found.losses.shape[1] < 11


def test_the_inverse_hessian_obeys_the_secant_equation():
    """H y = s for the newest pair; across all pairs it is the multiple sᵀy / yᵀy of the identity."""
    s, y = torch.zeros(2, 3, 8, dtype=torch.float64)
    curvature = _Curvature(s, memory=4)
    source = torch.Generator().manual_seed(0)
    for _ in range(6):  # more than there is room for
        s[:, :6] = torch.randn(3, 6, generator=source, dtype=torch.float64)
        y[:, :6] = s[:, :6] + 0.3 * torch.randn(3, 6, generator=source, dtype=torch.float64)
        curvature.add(s, y, torch.tensor([True, True, False]))
    torch.testing.assert_close(curvature.solve(y)[:2], s[:2], rtol=0, atol=1e-13)
    across = torch.eye(8, dtype=torch.float64)[[6, 7, 6]]
    scale = (s * y).sum(dim=1) / (y * y).sum(dim=1)
    scale[2] = 1  # no pair was ever taken
    torch.testing.assert_close(curvature.solve(across), scale[:, None] * across)
    assert torch.equal(curvature.solve(y)[2], y[2])
