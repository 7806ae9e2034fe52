"""Models of couplings: by hand, with decompositions that need no linear algebra, and compiled ones.

By hand ρ(u, v) is u v, and a rest that the model leaves out. With one node at 1/2 the decomposition of
u v is σ = 1/4, φ = 2u, ψ = 2v, to the last bit. The tables of compiled models come from a singular
value decomposition, whose last bits differ between processors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

import exactformer as ef
from exactformer.couplings.construction import draw_coupling
from exactformer.couplings.model import CouplingModel
from exactformer.couplings.proof.bound import bound_coupling
from exactformer.couplings.proof.certificate import certify_terms
from exactformer.targets import Coupling, sine_family
from exactformer.theory import Decomposition
from exactformer.theory.quadrature import Rule
from tests.cases.couplings import random_case
from tests.golden.case import Case

BOTH = ("fused", "literal")
Function = Callable[[Any], Any]
RANDOM = 8


@dataclass(frozen=True)
class Drawn:
    """A target whose coupling is u v + rest · u² v, and the size of its model."""

    name: str
    f: Function
    F: Function
    tau: int = 3
    ff_width: int = 8
    positions: tuple[float, ...] | None = None
    rest: float = 0.0
    domain: tuple[float, float] = (0.0, 1.0)


DRAWN = (
    Drawn("f identity", lambda u: u, lambda h: h),
    Drawn("f square", lambda u: u * u, lambda h: 2 - 3 * h, tau=2),
    Drawn("F square, 17 tokens", lambda u: u - 0.25, lambda h: h * h, tau=17, ff_width=4),
    Drawn("F corner, one token", lambda u: 1 - u, lambda h: abs(h - 0.375), tau=1, ff_width=16),
    Drawn("rest 1/8", lambda u: u * u, lambda h: h, rest=0.125),
    Drawn("positions", lambda u: u, lambda h: h * h, positions=(0.0, 2.0, 4.5), ff_width=9),
    Drawn("domain [−1, 1]", lambda u: u * u, lambda h: h, domain=(-1.0, 1.0), ff_width=64),
    Drawn("two values", lambda u: np.stack([u, u * u], -1), lambda h: h[..., 0] - 2 * h[..., 1]),
)


def cases() -> Iterator[Case]:
    """Yield honest models of couplings."""
    for drawn in DRAWN:
        yield Case(f"u v by hand, {drawn.name}", partial(drawn_model, drawn), BOTH)
    for tau, head in ((3, 1), (3, 2), (4, 2)):
        target = sine_family([1.0, 0.5], tau=tau)
        make = partial(ef.compile_coupling, target, head_dim=head, ff_width=64)
        yield Case(f"sines, {tau} tokens, head of {head}", make, BOTH, stored=False)
    for seed in range(RANDOM):
        yield Case(f"random coupling {seed}", partial(_random, seed), BOTH, stored=False)


def drawn_model(
    drawn: Drawn, executor: str | None = None, dtype: torch.dtype = torch.float64
) -> CouplingModel:
    def rho(u: Any, v: Any) -> Any:
        return u * v * (1 + drawn.rest * u)

    target = Coupling(
        drawn.F,
        drawn.f,
        rho,
        drawn.tau,
        drawn.domain,
        None if drawn.positions is None else np.array(drawn.positions),
        name="u v",
    )
    one, middle = np.ones((1, 1)), Rule(np.array([0.5]), np.array([1.0]))
    decomposition = Decomposition(
        singular_values=np.array([0.25]),
        error=0.0,
        remainder=0.0,
        kernel=rho,
        u=middle,
        v=middle,
        left_values=one,
        right_values=one,
    )
    blueprint = draw_coupling(
        lambda u: u[:, None],
        lambda v: v[:, None],
        drawn.f,
        drawn.F,
        tau=drawn.tau,
        head_dim=1,
        ff_width=drawn.ff_width,
        domain=drawn.domain,
        positions=target.positions,
    )
    terms = bound_coupling(blueprint, target, decomposition)
    certificate = certify_terms(blueprint, terms, target)
    return CouplingModel(blueprint, certificate, target, decomposition, executor, dtype)


def _random(seed: int, **options: Any) -> CouplingModel:
    case = random_case(np.random.default_rng(seed))
    width, found = case.ff_width, case.decomposition
    return ef.compile_coupling(case.target, case.head_dim, width, decomposition=found, **options)
