"""Continuous functions: what is measured is reported, what is not met is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import exactformer as ef
from exactformer.errors import InputError, OutsideDomainError, ToleranceError


@pytest.mark.parametrize(
    ("f", "domain", "tolerance"),
    [
        (lambda x: np.sin(40 * x), [(0, 1)], 1e-12),
        (lambda x, y: np.exp(x * y), [(0, 1)] * 2, 1e-10),
        (lambda x: 1 / (1 + x * x), [("-1/3", 2)], 1e-11),
    ],
)
def test_a_function_is_within_its_tolerance_and_its_polynomial_exact(f, domain, tolerance) -> None:
    model = ef.compile(f, domain=domain, tolerance=tolerance)
    low, high = (np.array([float(_number(side[k])) for side in domain]) for k in (0, 1))
    x = np.random.default_rng(5).uniform(low, high, (4000, len(domain)))
    error = np.abs(model(x).numpy() - f(*x.T)).max()
    assert error <= tolerance
    report = model.approximation
    assert report is not None
    assert error <= 1.5 * report.error <= 1.5 * tolerance
    assert report.points > 20_000
    assert ef.certify(model).zero_error
    # Rounding is a small part of it, for both executors: the blocks are stable.
    for executor in ("fused", "literal"):
        assert model.certificate.bound(torch.float64, executor) <= max(2 * tolerance, 1e-12)


def _number(text):
    from fractions import Fraction

    return Fraction(text)


def test_a_kink_is_refused_with_the_best_found_and_the_degree_it_would_take() -> None:
    with pytest.raises(
        ToleranceError, match=r"best found is degree 500 with an error of 0\.0006"
    ) as e:
        ef.compile(lambda x: abs(x - 0.5), domain=[(0, 1)], tolerance=1e-6)
    assert e.value.degree == 500
    assert e.value.error == pytest.approx(6.2e-4, rel=0.05)
    assert e.value.needed == pytest.approx(3.2e5, rel=0.3)
    kept = ef.compile(lambda x: abs(x - 0.5), domain=[(0, 1)], tolerance=1e-2)
    assert kept.approximation is not None
    assert kept.approximation.error <= 1e-2


def test_a_tolerance_below_rounding_is_refused() -> None:
    with pytest.raises(ToleranceError, match=r"rounding in torch\.float32"):
        ef.compile(np.exp, domain=[(0, 1)], tolerance=1e-9, dtype=torch.float32)
    model = ef.compile(np.exp, domain=[(0, 1)], tolerance=1e-5, dtype=torch.float32)
    assert model.dtype == torch.float32


def test_vectors_and_files(tmp_path: Path) -> None:
    def both(x, y):
        return np.stack([np.cos(x + y), x * y], axis=-1)

    model = ef.compile(both, domain=[(0, 1), (-2, 3)], tolerance=1e-8)
    x = np.random.default_rng(0).uniform((0, -2), (1, 3), (7, 3, 2))
    assert model(x).shape == (7, 3, 2)
    assert np.abs(model(x).numpy() - both(x[..., 0], x[..., 1])).max() <= 1e-8
    model.save(tmp_path / "f.safetensors")
    loaded = ef.load(tmp_path / "f.safetensors")
    stated = replace(model.approximation, source="stated by the file")
    assert loaded.approximation == stated
    assert "both by a polynomial" in str(loaded.approximation)
    assert torch.equal(loaded(x), model(x))
    with pytest.raises(OutsideDomainError, match=r"\[0, 1\] × \[-2, 3\]"):
        model([0.5, 3.1])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tolerance": 1e-6}, "compiled on a box"),
        ({"radius": 2, "tolerance": 1e-6}, "compiled on a box"),
        ({"domain": [(0, 1)]}, "tolerance="),
        ({"domain": [(0, 1)], "tolerance": 0}, "at least 1e-15"),
        ({"domain": [(0, 1)], "tolerance": float("nan")}, "at least 1e-15"),
        ({"domain": [(1, 1)], "tolerance": 1e-3}, "is empty"),
        ({"domain": [(0, "abc")], "tolerance": 1e-3}, "intervals"),
        ({"domain": [], "tolerance": 1e-3}, "at least one interval"),
        ({"domain": 3, "tolerance": 1e-3}, "list of intervals"),
        ({"domain": [(1e9, 1e9 + 1)], "tolerance": 1e-3}, "too far from 0"),
        ({"domain": [(0, 1)], "tolerance": 1e-3, "construction": "paper"}, "construction='paper'"),
    ],
)
def test_bad_input_is_refused(options, words: str) -> None:
    with pytest.raises(InputError, match=words):
        ef.compile(np.exp, **options)
