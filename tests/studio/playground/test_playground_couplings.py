"""Kernels, their singular values, and what a smaller head loses: as the theory computes it."""

from __future__ import annotations

import numpy as np
import pytest

from exactformer.errors import ExactformerError
from exactformer.studio.playground.couplings import (
    KINDS,
    NODES,
    TAU,
    CouplingRequest,
    decompose,
    drawn_kernel,
    formula_kernel,
    kernel_of,
)
from exactformer.studio.playground.frames import encode
from exactformer.targets import Coupling
from exactformer.theory import bound, pod

DRAWING = "0,1,2;-1,0.5,3;2,2,0"
REQUESTS = [
    CouplingRequest(),
    CouplingRequest("minimum", head_dim=2),
    CouplingRequest("gaussian", 7.5, head_dim=3),
    CouplingRequest("exponential", head_dim=0),
    CouplingRequest("step", head_dim=5),
    CouplingRequest("mixed", head_dim=2),
    CouplingRequest("formula", formula="u^2 v - 1/3 v", head_dim=1),
    CouplingRequest("drawn", drawing=DRAWING, head_dim=1),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_numbers_are_the_theorys(request_: CouplingRequest) -> None:
    shown = decompose(request_)
    assert encode(shown)
    rho = kernel_of(request_)
    found = pod(rho, measure="probability", max_nodes=NODES)
    m = min(request_.head_dim, found.rank)
    assert (
        shown["singular_values"] == found.singular_values[: len(shown["singular_values"])].tolist()
    )
    assert (shown["rank"], shown["digits"], shown["error"]) == (
        found.rank,
        found.digits,
        found.error,
    )
    assert shown["tail"] == found.tail(m)
    assert shown["tails"][m] == found.tail(m)
    assert shown["energy"] == (found.tail(m) / found.tail(0)) ** 2
    points = np.array(shown["points"])
    exact = np.broadcast_to(rho(points[:, None], points[None, :]), (len(points),) * 2)
    assert np.allclose(shown["kernel"], exact, rtol=0, atol=1e-12)
    kept = np.array(shown["truncated"])
    if m:
        assert (kept == found.truncate(m).matrix(points, points)).all()
    assert (np.array(shown["difference"]) == np.array(shown["kernel"]) - kept).all()
    assert shown["largest_difference"] == np.abs(shown["difference"]).max()


def test_every_kind_of_kernel_is_tried_above() -> None:
    assert {request.kernel for request in REQUESTS} == set(KINDS)


@pytest.mark.parametrize("kernel", ["gaussian", "mixed"])
def test_the_term_of_the_bound_is_that_of_theorem_4_1(kernel: str) -> None:
    request = CouplingRequest(kernel, head_dim=2)
    target = Coupling(lambda h: h, lambda u: u, kernel_of(request), TAU)
    theorem, term = bound(target, 2, 4096), decompose(request)["bound"]
    assert term["tail"] == pytest.approx(theorem.tail, rel=1e-9)
    assert term["diagonal"] == pytest.approx(theorem.diagonal, rel=1e-9)
    assert term["scores"] == pytest.approx(theorem.truncation[0], rel=1e-9)
    # The theorem leaves room for pieces in P; without them the term can only be smaller.
    weight = theorem.largest_weight
    whole = theorem.lipschitz * theorem.radius_f * weight**0.5 * theorem.truncation[0]
    assert term["term"] == pytest.approx(whole, rel=0.02)
    assert term["term"] <= whole * (1 + 1e-9)


def test_a_larger_head_never_loses_more() -> None:
    tails = [decompose(CouplingRequest("exponential", head_dim=m))["tail"] for m in range(6)]
    assert tails == sorted(tails, reverse=True)


def test_a_drawing_goes_through_its_values_and_is_straight_between() -> None:
    rho = drawn_kernel(DRAWING)
    ends = np.array([0.0, 0.5, 1.0])
    assert rho(ends[:, None], ends[None, :]).tolist() == [[0, 1, 2], [-1, 0.5, 3], [2, 2, 0]]
    assert rho(0.25, 0.0) == -0.5
    assert rho(0.25, 0.25) == pytest.approx((0 + 1 - 1 + 0.5) / 4)


def test_a_formula_is_a_polynomial_in_u_and_v() -> None:
    assert formula_kernel("u^2 - 2 v")(np.array([3.0]), np.array([0.5])).tolist() == [8.0]
    assert formula_kernel("7")(np.zeros((2, 1)), np.zeros((1, 3))).tolist() == [[7.0] * 3] * 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kernel": "sinc"}, "choose one of"),
        ({"kernel": "gaussian", "parameter": 1e6}, "between 0.5 and 200"),
        ({"kernel": "formula", "formula": "u + w"}, "uses w"),
        ({"kernel": "formula", "formula": "u +"}, "the text ends"),
        ({"kernel": "formula", "formula": "u" * 300}, "200 characters"),
        ({"kernel": "formula", "formula": "u^60 * 1e300"}, "scale it"),
        ({"kernel": "formula", "formula": "u * 1e-320"}, "scale it"),
        ({"kernel": "drawn", "drawing": "1e-200,0;0,0"}, "scale it"),
        ({"kernel": "drawn", "drawing": "1,2;3"}, "a drawing is"),
        ({"kernel": "drawn", "drawing": "1,2;3,nan"}, "finite numbers"),
        ({"kernel": "drawn", "drawing": "a"}, "a drawing is"),
        ({"kernel": "drawn", "drawing": ";".join(["1" + ",1" * 16] * 17)}, "a drawing is"),
        ({"head_dim": 33}, "0 to 32 dimensions"),
        ({"parameter": float("nan")}, "finite number"),
    ],
)
def test_what_is_no_kernel_is_refused_in_words(changes: dict, words: str) -> None:
    with pytest.raises(ExactformerError, match=words):
        decompose(CouplingRequest(**changes))


def test_the_zero_kernel_has_nothing_to_lose() -> None:
    shown = decompose(CouplingRequest("formula", formula="0"))
    assert encode(shown)
    assert shown["tail"] == shown["energy"] == 0
    assert shown["singular_values"] == []
